//! The lookup of a pair of the snapshot, which is pending as if the pair were on disk alone.
//!
//! The value for an update is taken when the lookup begins, so it may be outdated when the lookup
//! ends. It is confirmed by its number: that of the newest version of its key, which no other write
//! has.

use std::sync::Arc;

use engine::{Error, PendingLookup, Progress, ReadRequest, Result};
use sync::locks::{Mutex, RwLock};

use super::versions::Versions;

pub(super) struct Pending {
    pub(super) versions: Arc<RwLock<Versions>>,
    pub(super) failure: Arc<Mutex<Option<Error>>>,
    pub(super) key: Vec<u8>,
    pub(super) moment: Moment,
    /// A block that says nothing.
    pub(super) read: [ReadRequest; 1],
}

/// The moment whose value a lookup returns.
pub(super) enum Moment {
    /// The end of the lookup.
    End,
    /// A pin with this number.
    Pin(u64),
    /// The beginning of the lookup of an update: the number of the newest version, and its value.
    Beginning(u64, Option<Vec<u8>>),
}

/// Returns whether the key's value would have to be read from the disk.
pub(super) fn is_on_disk(versions: &Versions, persisted: u64, key: &[u8]) -> bool {
    (1..=persisted).contains(&versions.newest(key))
}

impl PendingLookup for Pending {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn reads(&self) -> &[ReadRequest] {
        &self.read
    }

    fn resume(&mut self, _: usize, bytes: Result<&[u8]>, into: &mut Vec<u8>) -> Result<Progress> {
        bytes?;
        if let Some(Error::Closed) = &*self.failure.lock() {
            return Err(Error::Closed);
        }
        let versions = self.versions.read();
        let value = match &self.moment {
            Moment::End => versions.get(&self.key, u64::MAX),
            Moment::Pin(upto) => versions.get(&self.key, *upto),
            Moment::Beginning(_, value) => value.as_deref(),
        };
        into.clear();
        into.extend_from_slice(value.unwrap_or_default());
        Ok(if value.is_some() { Progress::Found } else { Progress::Absent })
    }

    fn is_newest(&self) -> bool {
        match &self.moment {
            Moment::Beginning(number, _) => self.versions.read().newest(&self.key) == *number,
            Moment::End | Moment::Pin(_) => false,
        }
    }
}
