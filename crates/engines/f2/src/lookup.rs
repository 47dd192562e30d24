//! The lookup of a key as a value: [`DiskLookup`] with its key, its store and the read that it
//! needs.

use std::sync::Arc;

use engine::{At, InOrder, Lookup, PendingLookup, Progress, ReadRequest, Result};

use crate::address::LogAddress;
use crate::key_hash::KeyHash;
use crate::ops::disk_lookup::{self, Beyond, DiskLookup, InMemory};
use crate::ops::rmw::ReadForUpdate;
use crate::ops::unordered;
use crate::store::Shared;

/// A lookup that waits for a record, or for a chunk of the cold index.
struct Pending {
    shared: Arc<Shared>,
    key: Box<[u8]>,
    lookup: DiskLookup,
    /// Only for an update.
    needed: Option<ReadForUpdate>,
    read: [ReadRequest; 1],
}

impl Shared {
    /// Looks a key up. Never waits for the device.
    #[inline]
    pub(crate) fn lookup(
        self: &Arc<Self>,
        key: &[u8],
        at: At<'_>,
        into: &mut Vec<u8>,
    ) -> Result<Lookup> {
        self.health.check_open()?;
        let hash = self.hash(key);
        match at {
            At::Newest => {}
            At::ForUpdate => return self.lookup_for_update(hash, key, into),
            At::Pin(_) => return Err(unordered(InOrder::Snapshot)),
        }
        let guard = self.epochs.protect();
        let looked = self.look_in_memory(hash, key, LogAddress::NONE, into);
        drop(guard);
        match looked {
            InMemory::Value => Ok(Lookup::Found),
            InMemory::Tombstone => Ok(Lookup::Absent),
            InMemory::Beyond(beyond) => self.lookup_on_disk(hash, beyond, key, into),
        }
    }

    #[cold]
    fn lookup_on_disk(
        self: &Arc<Self>,
        hash: KeyHash,
        beyond: Beyond,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Lookup> {
        let lookup = DiskLookup::new(hash, beyond, true);
        self.begin_pending(lookup, None, key, into)
    }

    /// Looks up the value that an update is to replace.
    fn lookup_for_update(
        self: &Arc<Self>,
        hash: KeyHash,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Lookup> {
        let guard = self.epochs.protect();
        let start = self.hot.log.safe_read_only();
        let looked = self.look_in_memory(hash, key, LogAddress::NONE, into);
        drop(guard);
        match looked {
            InMemory::Value => Ok(Lookup::Found),
            InMemory::Tombstone => Ok(Lookup::Absent),
            InMemory::Beyond(beyond) => {
                let needed = ReadForUpdate { beyond, start };
                self.begin_pending(needed.lookup(hash), Some(needed), key, into)
            }
        }
    }

    /// Continues a lookup as far as it can without the device.
    pub(crate) fn begin_pending(
        self: &Arc<Self>,
        mut lookup: DiskLookup,
        needed: Option<ReadForUpdate>,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Lookup> {
        Ok(match lookup.start(self, key, into)? {
            disk_lookup::Progress::Value => Lookup::Found,
            disk_lookup::Progress::Absent => Lookup::Absent,
            disk_lookup::Progress::Read => Lookup::Pending(self.pending(lookup, needed, key)),
        })
    }

    /// Returns a lookup that needs a read as a value.
    pub(crate) fn pending(
        self: &Arc<Self>,
        lookup: DiskLookup,
        needed: Option<ReadForUpdate>,
        key: &[u8],
    ) -> Box<dyn PendingLookup> {
        let read = [self.request(&lookup)];
        Box::new(Pending { shared: Arc::clone(self), key: key.into(), lookup, needed, read })
    }

    fn request(&self, lookup: &DiskLookup) -> ReadRequest {
        lookup.read().request(&self.lookups.source)
    }
}

impl PendingLookup for Pending {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn reads(&self) -> &[ReadRequest] {
        &self.read
    }

    fn resume(
        &mut self,
        _read: usize,
        bytes: Result<&[u8]>,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        let Self { shared, key, lookup, needed, read } = self;
        shared.lookups.note_read(read[0].len);
        // Otherwise memory could serve some lookups of a closed store.
        let is_open = shared.health.check_open();
        let progress = is_open.and_then(|()| lookup.resume(shared, key, bytes, into));
        if progress == Ok(disk_lookup::Progress::Read) {
            *read = [shared.request(lookup)];
            return Ok(Progress::NextRound);
        }
        shared.lookups.note_end();
        shared.wake_upkeep();
        Ok(match progress? {
            disk_lookup::Progress::Value => {
                if let Some(needed) = needed {
                    shared.note_read_for_update(shared.hash(key), needed);
                }
                Progress::Found
            }
            disk_lookup::Progress::Absent | disk_lookup::Progress::Read => Progress::Absent,
        })
    }

    fn is_newest(&self) -> bool {
        let Self { shared, key, needed, .. } = self;
        let is_unwritten = |needed| shared.is_unwritten_since(shared.hash(key), key, needed);
        needed.as_ref().is_some_and(is_unwritten)
    }
}
