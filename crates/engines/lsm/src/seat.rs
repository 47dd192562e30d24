//! A thread's seat: look-ups of which many wait for the device beside each other.

use std::sync::Arc;

use codec::SeqNo;
use device::Doorbell;
use engine::{Begun, BegunOld, Listener, Old, Result};

use crate::entry::Target;
use crate::flights::{Began, Flights};
use crate::planted::{Planted, is_planted};
use crate::read::Sought;
use crate::store::Shared;

/// Whose a look-up is.
enum Whose {
    /// A get's.
    Get { tag: u64 },
    /// A read-modify-write's, which wants to know later whether the value still is the newest.
    Old { tag: u64, began: Moment },
}

/// What there was when a look-up began. Writes since then are in a memtable, or in one of those that
/// went, of which so many had gone; or they are range deletes, of which so many had come; or they
/// ingested something.
#[derive(Clone, Copy)]
struct Moment {
    gone: u64,
    deletes: u64,
    ingested: SeqNo,
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
        let flights = Flights::new(depth, &shared.host.memory);
        Self { shared: Arc::clone(shared), flights, value: Vec::new() }
    }
}

impl engine::Seat for Seat {
    fn begin_get(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<Begun> {
        let state = self.shared.open_state()?;
        let sought = self.shared.find_in_memory(&state, key, SeqNo::MAX, into)?;
        drop(state);
        let found = match sought {
            Sought::Found(found) => Some(found),
            Sought::GoOn(search) => {
                let search = search.owned();
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
        if state.actives.is_empty() {
            return Err(engine::Error::Closed);
        }
        let began = Moment {
            gone: state.gone,
            deletes: state.deletes.came,
            ingested: state.version.newest_ingested(),
        };
        let whose = Whose::Old { tag, began };
        let sought = self.shared.find_in_memory(&state, key, SeqNo::MAX, &mut self.value)?;
        let Sought::GoOn(search) = sought else { return Ok(BegunOld::AtOnce) };
        let search = search.owned();
        Ok(match self.flights.begin(&self.shared, search, whose, &mut self.value)? {
            Began::Ended(_) => BegunOld::AtOnce,
            Began::Pending => BegunOld::Pending,
            Began::Full => BegunOld::Full,
        })
    }

    fn complete(&mut self, waits: bool, listener: &mut dyn Listener) -> Result<usize> {
        let shared = &self.shared;
        shared.compact_for_gets();
        self.flights.complete(shared, waits, &mut |whose, key, found, value| {
            let value =
                found.map(|found| found.is_some_and(|found| found.is_value).then_some(value));
            match whose {
                Whose::Get { tag } => listener.value(tag, value),
                Whose::Old { tag, began } => {
                    let is_newest = || shared.is_unwritten_since(key, began);
                    listener.old(tag, value.map(|value| Old::new(key, value, &is_newest)));
                }
            }
        })
    }

    fn pending(&self) -> usize {
        self.flights.pending()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.flights.ring(bell)
    }
}

impl Shared {
    /// Whether `key` was not written since a look-up of it began, by when no memtable had it. Says no
    /// if any memtable was flushed or merged meanwhile: whoever had entered one before it was sealed may
    /// have written the key to it then, though another one was written to already; and a Drange with
    /// several slots has several of which any may be flushed first.
    ///
    /// It says no after any range delete: one that covered the key may be over, and the set of those
    /// that are left does not tell. And so after any ingestion: the look-up may have begun between the
    /// new memtables and the new tables.
    fn is_unwritten_since(&self, key: &[u8], began: Moment) -> bool {
        let Moment { gone, deletes, ingested } = began;
        let state = self.state.load();
        state.gone == gone
            && (state.deletes.came == deletes || is_planted(Planted::DeletesUncounted))
            && state.version.newest_ingested() == ingested
            && state.find_in_memory(Target::first_of(key), &mut Vec::new()).is_none()
    }
}
