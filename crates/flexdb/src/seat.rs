//! A thread's seat: look-ups of which many wait for the device beside each other.

use std::sync::Arc;

use codec::SeqNo;
use device::Doorbell;
use engine::{Begun, BegunOld, Listener, Old, Result};

use crate::flights::{Began, Flights};
use crate::read::Sought;
use crate::store::Shared;

/// Whose a look-up is.
enum Whose {
    /// A get's.
    Get { tag: u64 },
    /// A read-modify-write's, which wants to know later whether the value still is the newest. So many
    /// memtables had been committed when it began.
    Old { tag: u64, commits: u64 },
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
        let found = match self.shared.find_in_memory(&state, key, SeqNo::MAX, into)? {
            Sought::Ended(found) => found,
            Sought::Cold(cold) => {
                let whose = Whose::Get { tag };
                match self.flights.begin(&self.shared, key.to_vec(), cold, whose, into)? {
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
        let state = self.shared.open_state()?;
        let whose = Whose::Old { tag, commits: state.commits };
        let sought = self.shared.find_in_memory(&state, key, SeqNo::MAX, &mut self.value)?;
        let Sought::Cold(cold) = sought else { return Ok(BegunOld::AtOnce) };
        let key = key.to_vec();
        Ok(match self.flights.begin(&self.shared, key, cold, whose, &mut self.value)? {
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
                Whose::Old { tag, commits } => {
                    let is_newest = || shared.is_unwritten_since(key, commits);
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
    /// Whether `key` was not written since so many memtables had been committed, and none that waited had it.
    /// Says no if any was committed meanwhile: whoever had entered one before it was sealed may have written the
    /// key to it then, though another one was written to already.
    fn is_unwritten_since(&self, key: &[u8], commits: u64) -> bool {
        let state = self.state.load();
        let Some(state) = &*state else { return false };
        let mut nothing = Vec::new();
        state.commits == commits
            && state.memtables().all(|it| it.get(key, SeqNo::MAX, &mut nothing).is_none())
    }
}
