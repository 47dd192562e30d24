//! A thread's seat: look-ups of which many wait for the device beside each other.

use std::sync::Arc;

use codec::SeqNo;
use engine::{Begun, BegunOld, Listener, Old, Result};

use crate::entry::Target;
use crate::flights::{Began, Flights};
use crate::search::Search;
use crate::store::Shared;

/// Whose a look-up is.
enum Whose {
    /// A get's.
    Get { tag: u64 },
    /// A read-modify-write's, which wants to know later whether the value still is the newest.
    /// Writes since then are in this memtable or in younger ones.
    Old { tag: u64, memtable: u64 },
}

/// A seat. It does not keep the store open.
pub(crate) struct Seat {
    shared: Arc<Shared>,
    flights: Flights<Vec<u8>, Whose>,
    /// For the values of look-ups that nobody is told of.
    value: Vec<u8>,
}

impl Seat {
    /// A seat for at most `depth` look-ups at once.
    pub(crate) fn new(shared: &Arc<Shared>, depth: usize) -> Self {
        Self { shared: Arc::clone(shared), flights: Flights::new(depth), value: Vec::new() }
    }
}

impl engine::Seat for Seat {
    fn begin_get(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<Begun> {
        let state = Arc::clone(&*self.shared.open_state()?);
        let to = Target::first_of(key);
        let found = match state.find_in_memory(to, into) {
            Some(found) => Some(found),
            None => {
                let search = Search::new(key.to_vec(), SeqNo::MAX, Arc::clone(&state.version));
                match self.flights.begin(&self.shared, search, Whose::Get { tag }, into)? {
                    Began::Ended(found) => found,
                    Began::Pending => return Ok(Begun::Pending),
                    Began::Full => return Ok(Begun::Full),
                }
            }
        };
        let is_there = found.is_some_and(|found| found.is_value);
        Ok(if is_there { Begun::Found } else { Begun::Absent })
    }

    fn begin_old(&mut self, tag: u64, key: &[u8]) -> Result<BegunOld> {
        let state = Arc::clone(&*self.shared.open_state()?);
        let Some(active) = state.active() else { return Err(engine::Error::Closed) };
        if state.find_in_memory(Target::first_of(key), &mut self.value).is_some() {
            return Ok(BegunOld::AtOnce);
        }
        let whose = Whose::Old { tag, memtable: active.id() };
        let search = Search::new(key.to_vec(), SeqNo::MAX, Arc::clone(&state.version));
        Ok(match self.flights.begin(&self.shared, search, whose, &mut self.value)? {
            Began::Ended(_) => BegunOld::AtOnce,
            Began::Pending => BegunOld::Pending,
            Began::Full => BegunOld::Full,
        })
    }

    fn complete(&mut self, waits: bool, listener: &mut dyn Listener) -> Result<usize> {
        let shared = &self.shared;
        self.flights.complete(shared, waits, &mut |whose, key, found, value| {
            let value =
                found.map(|found| found.is_some_and(|found| found.is_value).then_some(value));
            match whose {
                Whose::Get { tag } => listener.value(tag, value),
                Whose::Old { tag, memtable } => {
                    let is_newest = || shared.is_unwritten_since(key, memtable);
                    listener.old(tag, value.map(|value| Old::new(key, value, &is_newest)));
                }
            }
        })
    }

    fn pending(&self) -> usize {
        self.flights.pending()
    }
}

impl Shared {
    /// Whether `key` was not written since this memtable was the one that is written to, and no
    /// memtable had it then. Says no if that memtable has been flushed.
    fn is_unwritten_since(&self, key: &[u8], memtable: u64) -> bool {
        let state = self.state.load();
        let all_are_there = state.memtables.last().is_some_and(|oldest| oldest.id() <= memtable);
        all_are_there && state.find_in_memory(Target::first_of(key), &mut Vec::new()).is_none()
    }
}
