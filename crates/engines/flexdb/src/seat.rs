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

/// An old value that was read out of what is about to be written, with no need of the device. Memory need not
/// have it for the update itself: parts of intervals that are not cached alone are read so, too.
struct Landed {
    tag: u64,
    commits: u64,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

/// A seat. It does not keep the store open.
pub(crate) struct Seat {
    shared: Arc<Shared>,
    depth: usize,
    flights: Flights<Vec<u8>, Whose>,
    /// What the next call of `complete` tells of first.
    landed: Vec<Landed>,
    /// For the values of look-ups that nobody is told of.
    value: Vec<u8>,
}

impl Seat {
    /// A seat for at most `depth` look-ups at once.
    pub(crate) fn new(shared: &Arc<Shared>, depth: usize) -> Self {
        let flights = Flights::new(depth, &shared.host.memory);
        let shared = Arc::clone(shared);
        Self { shared, depth: depth.max(1), flights, landed: Vec::new(), value: Vec::new() }
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
        let commits = state.commits;
        let sought = self.shared.find_in_memory(&state, key, SeqNo::MAX, &mut self.value)?;
        let Sought::Cold(cold) = sought else { return Ok(BegunOld::AtOnce) };
        if self.pending() >= self.depth {
            return Ok(BegunOld::Full);
        }
        let whose = Whose::Old { tag, commits };
        let begun = self.flights.begin(&self.shared, key.to_vec(), cold, whose, &mut self.value)?;
        Ok(match begun {
            Began::Ended(found) => {
                let is_there = found.is_some_and(|found| found.is_value);
                let value = is_there.then(|| std::mem::take(&mut self.value));
                self.landed.push(Landed { tag, commits, key: key.to_vec(), value });
                BegunOld::Pending
            }
            Began::Pending => BegunOld::Pending,
            Began::Full => BegunOld::Full,
        })
    }

    fn complete(&mut self, waits: bool, listener: &mut dyn Listener) -> Result<usize> {
        let shared = &self.shared;
        let landed = std::mem::take(&mut self.landed);
        for Landed { tag, commits, key, value } in &landed {
            let is_newest = || shared.is_unwritten_since(key, *commits);
            listener.old(*tag, Ok(Old::new(key, value.as_deref(), &is_newest)));
        }
        let waits = waits && landed.is_empty();
        let flown = self.flights.complete(shared, waits, &mut |whose, key, found, value| {
            let value =
                found.map(|found| found.is_some_and(|found| found.is_value).then_some(value));
            match whose {
                Whose::Get { tag } => listener.value(tag, value),
                Whose::Old { tag, commits } => {
                    let is_newest = || shared.is_unwritten_since(key, commits);
                    listener.old(tag, value.map(|value| Old::new(key, value, &is_newest)));
                }
            }
        })?;
        Ok(landed.len() + flown)
    }

    fn pending(&self) -> usize {
        self.landed.len() + self.flights.pending()
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
