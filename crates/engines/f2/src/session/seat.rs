//! What a database has instead of a session: a seat for look-ups, whose user writes by itself.
//!
//! The invariants are the session's: what is pending has changed nothing, and nobody is held up by it.

use std::sync::Arc;

use device::Doorbell;
use engine::{Begun, BegunOld, Listener, Old, Result, Seat};
use sync::epoch::Participant;

use crate::ops::look_up::flight::{Flight, Purpose};
use crate::ops::rmw::WantsOld;
use crate::store::Shared;

/// A seat for look-ups.
pub(crate) struct StoreSeat {
    shared: Arc<Shared>,
    seat: Participant,
    flight: Flight<Asked>,
    scratch: Vec<u8>,
}

/// What is looked up.
struct Asked {
    tag: u64,
    key: Box<[u8]>,
    /// None for a get.
    old: Option<WantsOld>,
}

impl Purpose for Asked {
    fn key(&self) -> &[u8] {
        &self.key
    }
}

impl StoreSeat {
    pub(crate) fn new(shared: &Arc<Shared>, depth: usize) -> Result<Self> {
        shared.health.check_open()?;
        let flight = Flight::new(shared.new_fetcher(depth.max(1))?);
        let (seat, scratch) = (shared.epochs.join(), Vec::new());
        Ok(Self { shared: Arc::clone(shared), seat, flight, scratch })
    }
}

impl Seat for StoreSeat {
    fn begin_get(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<Begun> {
        match self.shared.begin_get(self.seat.protect(), key, into)? {
            Ok(true) => Ok(Begun::Found),
            Ok(false) => Ok(Begun::Absent),
            Err(_) if self.flight.is_full() => Ok(Begun::Full),
            Err(look_up) => {
                self.flight.begin(look_up, Asked { tag, key: key.into(), old: None });
                Ok(Begun::Pending)
            }
        }
    }

    fn begin_old(&mut self, tag: u64, key: &[u8]) -> Result<BegunOld> {
        match self.shared.look_up_old(self.seat.protect(), key, &mut self.scratch)? {
            None => Ok(BegunOld::AtOnce),
            Some(_) if self.flight.is_full() => Ok(BegunOld::Full),
            Some((look_up, wanted)) => {
                let asked = Asked { tag, key: key.into(), old: Some(wanted) };
                self.flight.begin(look_up, asked);
                Ok(BegunOld::Pending)
            }
        }
    }

    fn complete(&mut self, waits: bool, listener: &mut dyn Listener) -> Result<usize> {
        let shared = &*self.shared;
        self.flight.complete(shared, waits, &mut |asked, found| {
            let Asked { tag, key, old } = asked;
            match old {
                None => listener.value(tag, found),
                Some(wanted) => {
                    let hash = shared.hash(&key);
                    if let Ok(Some(_)) = found {
                        shared.note_old_read(hash, &wanted);
                    }
                    let is_newest = || shared.is_unwritten_since(hash, &key, &wanted);
                    listener.old(tag, found.map(|value| Old::new(&key, value, &is_newest)));
                }
            }
            None
        })
    }

    fn pending(&self) -> usize {
        self.flight.len()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.flight.ring(bell)
    }
}
