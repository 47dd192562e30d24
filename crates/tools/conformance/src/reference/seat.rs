//! A seat on which lookups of all pairs of the snapshot are pending, as if on disk alone.
//!
//! An old value is taken when its lookup begins, so it may be outdated when the caller gets it. It
//! is confirmed by its number: that of the newest version of its key, which no other write has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use device::Doorbell;
use engine::{Begun, BegunOld, Error, Listener, Old, Result, Seat};
use sync::locks::{Mutex, RwLock};

use super::versions::Versions;

pub(super) struct ReferenceSeat {
    pub(super) versions: Arc<RwLock<Versions>>,
    pub(super) persisted: Arc<AtomicU64>,
    pub(super) failure: Arc<Mutex<Option<Error>>>,
    pub(super) depth: usize,
    pub(super) asked: Vec<Asked>,
    /// Rung when a lookup is requested: the next call reports it.
    pub(super) bell: Option<Arc<Doorbell>>,
}

/// A lookup.
pub(super) struct Asked {
    tag: u64,
    key: Vec<u8>,
    /// The newest version's number and value when it began; none for a get.
    old: Option<(u64, Option<Vec<u8>>)>,
}

/// Returns whether a seat would have to read the key's value from the disk.
pub(super) fn is_on_disk(versions: &Versions, persisted: u64, key: &[u8]) -> bool {
    (1..=persisted).contains(&versions.newest(key))
}

impl ReferenceSeat {
    fn check_open(&self) -> Result<()> {
        match &*self.failure.lock() {
            Some(Error::Closed) => Err(Error::Closed),
            _ => Ok(()),
        }
    }

    fn ask(&mut self, asked: Asked) {
        self.asked.push(asked);
        self.bell.iter().for_each(|bell| bell.ring());
    }

    fn is_full(&self) -> bool {
        self.asked.len() >= self.depth.max(1)
    }
}

impl Seat for ReferenceSeat {
    fn begin_get(&mut self, tag: u64, key: &[u8], into: &mut Vec<u8>) -> Result<Begun> {
        self.check_open()?;
        let versions = self.versions.read();
        if is_on_disk(&versions, self.persisted.load(SeqCst), key) {
            if self.is_full() {
                return Ok(Begun::Full);
            }
            drop(versions);
            self.ask(Asked { tag, key: key.to_vec(), old: None });
            return Ok(Begun::Pending);
        }
        let value = versions.get(key, u64::MAX);
        into.clear();
        into.extend_from_slice(value.unwrap_or_default());
        Ok(if value.is_some() { Begun::Found } else { Begun::Absent })
    }

    fn begin_old(&mut self, tag: u64, key: &[u8]) -> Result<BegunOld> {
        self.check_open()?;
        let versions = self.versions.read();
        if !is_on_disk(&versions, self.persisted.load(SeqCst), key) {
            return Ok(BegunOld::AtOnce);
        }
        if self.is_full() {
            return Ok(BegunOld::Full);
        }
        let old = (versions.newest(key), versions.get(key, u64::MAX).map(<[u8]>::to_vec));
        drop(versions);
        self.ask(Asked { tag, key: key.to_vec(), old: Some(old) });
        Ok(BegunOld::Pending)
    }

    fn complete(&mut self, _waits: bool, listener: &mut dyn Listener) -> Result<usize> {
        let asked = std::mem::take(&mut self.asked);
        for Asked { tag, key, old } in &asked {
            let open = self.check_open();
            match old {
                None => {
                    let value = self.versions.read().get(key, u64::MAX).map(<[u8]>::to_vec);
                    listener.value(*tag, open.map(|()| value.as_deref()));
                }
                Some((number, value)) => {
                    let is_newest = || self.versions.read().newest(key) == *number;
                    let old = Old::new(key, value.as_deref(), &is_newest);
                    listener.old(*tag, open.map(|()| old));
                }
            }
        }
        Ok(asked.len())
    }

    fn pending(&self) -> usize {
        self.asked.len()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> Result<()> {
        self.bell = Some(Arc::clone(bell));
        Ok(())
    }
}
