//! The lookup of a key, which is pending once it needs an interval that is not cached.
//!
//! 1. Memtables, cached pairs and cached intervals are searched.
//! 2. Otherwise the interval of the key, or the part of it that may have the key, is read: all of
//!    its runs of blocks in one round. If that part is an update of another key with the same
//!    fingerprint, a second round reads the whole interval.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{At, Error, Lookup, PendingLookup, Progress, ReadRequest, Result};

use crate::memtable::Found;
use crate::read::{MemoryLookup, UncachedInterval};
use crate::space_read::SpaceRead;
use crate::store::Shared;

/// A lookup that waits for an interval, or a part of it.
struct Pending {
    store: Arc<Shared>,
    key: Vec<u8>,
    cold: UncachedInterval,
    /// Memtables that were committed when the lookup of an update began.
    commits: Option<u64>,
    read: SpaceRead,
}

impl Shared {
    /// Looks a key up. Never waits for the device.
    pub(crate) fn lookup(
        self: &Arc<Self>,
        key: &[u8],
        at: At<'_>,
        into: &mut Vec<u8>,
    ) -> Result<Lookup> {
        let seqno = at.seqno();
        let state = self.state.load();
        self.health.check_open()?;
        let Some(there) = &*state else { return Err(Error::Closed) };
        let mut cold = match self.find_in_memory(there, key, seqno, into)? {
            MemoryLookup::Ended(found) => return Ok(Lookup::ended(is_value(found))),
            MemoryLookup::Cold(cold) => cold,
        };
        let commits = matches!(at, At::ForUpdate).then_some(there.commits);
        // Reading may take long, and holding the guard would keep a slot of the swap.
        drop(state);
        Ok(match self.search_space(&mut cold, key, into)? {
            Break(is_value) => Lookup::ended(is_value),
            Continue(read) => Lookup::Pending(Box::new(Pending {
                store: Arc::clone(self),
                key: key.to_vec(),
                cold,
                commits,
                read,
            })),
        })
    }

    /// Searches an interval, or a part of it. Returns whether the key has a value, or the read
    /// without which the search cannot continue.
    fn search_space(
        &self,
        cold: &mut UncachedInterval,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<ControlFlow<bool, SpaceRead>> {
        loop {
            let reading = self.begin_read(cold)?;
            if reading.missing() > 0 {
                return Ok(Continue(self.reads.read(reading)));
            }
            match self.search_read(cold, key, reading.into_bytes(), into)? {
                Some(is_value) => return Ok(Break(is_value)),
                None => *cold = cold.whole(),
            }
        }
    }

    /// Caches and searches the bytes that were read, and returns whether the key has a value.
    /// Returns `None` if they are an update of another key.
    fn search_read(
        &self,
        cold: &UncachedInterval,
        key: &[u8],
        bytes: Vec<u8>,
        into: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        self.health.check_open()?;
        self.cache.misses.fetch_add(1, Relaxed);
        let Some(block) = self.keep(cold, key, bytes)? else { return Ok(None) };
        Ok(Some(is_value(self.found_in(&block, cold, key, into))))
    }

    /// Returns whether `key` was not written since that many memtables had been committed, and no
    /// memtable has it. Returns `false` if any was committed meanwhile: a writer that entered it
    /// before it was sealed may have written the key to it then, although another memtable was
    /// already written to.
    fn is_unwritten_since(&self, key: &[u8], commits: u64) -> bool {
        let state = self.state.load();
        let Some(state) = &*state else { return false };
        let mut nothing = Vec::new();
        state.commits == commits
            && state.memtables().all(|it| it.get(key, SeqNo::MAX, &mut nothing).is_none())
    }
}

impl PendingLookup for Pending {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn reads(&self) -> &[ReadRequest] {
        self.read.runs()
    }

    fn resume(
        &mut self,
        read: usize,
        bytes: Result<&[u8]>,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        if !self.read.give(read, bytes)? {
            return Ok(Progress::Waiting);
        }
        let Self { store, key, cold, read, .. } = self;
        let is_value = match store.search_read(cold, key, read.take_bytes(), into)? {
            Some(is_value) => is_value,
            None => {
                *cold = cold.whole();
                match store.search_space(cold, key, into)? {
                    Break(is_value) => is_value,
                    Continue(next) => {
                        *read = next;
                        return Ok(Progress::NextRound);
                    }
                }
            }
        };
        Ok(if is_value { Progress::Found } else { Progress::Absent })
    }

    fn is_newest(&self) -> bool {
        self.commits.is_some_and(|commits| self.store.is_unwritten_since(&self.key, commits))
    }
}

fn is_value(found: Option<Found>) -> bool {
    found.is_some_and(|found| found.is_value)
}
