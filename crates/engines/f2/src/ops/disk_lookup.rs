//! Looking a key up: one state machine for every operation that reads.
//!
//! ```text
//!  memory: the cache, then the hot log's chain -------------------> value, or none
//!    | the chain goes on on disk
//!    v
//!  a record of the chain: of another key? the previous one -------> value, or a tombstone: none
//!    | the chain's end
//!    v
//!  the chunk of the cold index: names no record? -----------------> none
//!    |
//!    v
//!  a record of the cold log: of another key? the next one named --> value; after the last: none
//!      gone? the chunk again
//! ```
//!
//! 1. [`Shared::look_in_memory`] searches memory, protected. Otherwise it returns the place where
//!    the chain continues.
//! 2. A [`DiskLookup`] continues from there: [`DiskLookup::start`], then [`DiskLookup::resume`]
//!    with the bytes of the read that it requests, until it has ended.
//! 3. A driver of the crate `reads` does the reads of a lookup that is pending (`lookup`).
//!
//! # Invariants
//! - L1. Between two steps nothing is protected, and a lookup holds nothing that only protection
//!   keeps: it holds addresses, and files that its read keeps open. So it may wait for any time,
//!   may be dropped at any step, and another thread may continue it.
//! - L2. It requests one read at a time, and is resumed with the bytes of that read.
//! - L3. The hot log is searched before the cold one, the chunk before the records that it names,
//!   these in its order, and the first record of the key decides [O2]. Records move from the hot to
//!   the cold log, never back.
//! - L4. A lookup concludes at a chain's end that the hot log has no record if the log was not
//!   truncated since before the chain was looked up. Otherwise the new part of the chain is
//!   searched [O3]. With two logs absence is concluded from a chunk that was the present one at
//!   some moment after that.
//! - L5. A value that was found below the hot log's memory is cached, under the entry that was
//!   noted before memory was searched in vain [R2 of the read cache]; nothing else is.

pub(crate) mod reads;

use engine::Result;

use crate::address::LogAddress;
use crate::cold::{Cold, Gone};
use crate::cold_index::Lookup;
use crate::hybrid_log::{Place, ReadOutcome, RecordRead};
use crate::key_hash::KeyHash;
use crate::ops::Found;
use crate::planted::{Planted, mutant};
use crate::read_cache::Noted;
use crate::record::Read;
use crate::store::Shared;

/// The result of a search for a key in memory.
pub(crate) enum InMemory {
    /// Its value, which was read.
    Value,
    /// That it has none.
    Tombstone,
    /// Nothing.
    Beyond(Beyond),
}

/// The place at which a lookup continues.
#[derive(Clone, Copy)]
pub(crate) struct Beyond {
    /// The chain at the time of its lookup.
    pub(crate) chain: Noted,
    /// The address at which it continues on disk; [`LogAddress::NONE`] if it ends in memory.
    pub(crate) on_disk: LogAddress,
}

/// The progress of a lookup after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It has ended, and the value replaced the content of the caller's buffer.
    Value,
    /// It has ended: the key has no value.
    Absent,
    /// It needs [`DiskLookup::read`].
    Read,
}

/// The part of the store that the read is of.
#[derive(Clone, Copy)]
enum At {
    HotRecord,
    Chunk,
    ColdRecord,
}

/// A lookup that needs more than memory.
pub(crate) struct DiskLookup {
    hash: KeyHash,
    beyond: Beyond,
    /// The head of the part of the hot chain that was searched before.
    searched: LogAddress,
    caches: bool,
    at: At,
    /// None before it has started.
    read: Option<RecordRead>,
    /// The cold records that may be of the key, the newest first, and how many of them are not.
    named: Vec<LogAddress>,
    others: usize,
    /// Digests that have returned them and are not counted yet. A caller that only checks whether
    /// the device is needed drops a lookup that was started, and another one begins again.
    digests: u64,
    gone: Gone,
}

impl Shared {
    /// Looks for a key in memory, in the part of its chain above `searched`; its value replaces the
    /// content of `into`. The caller is protected.
    #[inline]
    pub(crate) fn look_in_memory(
        &self,
        hash: KeyHash,
        key: &[u8],
        searched: LogAddress,
        into: &mut Vec<u8>,
    ) -> InMemory {
        // Before the entry is read [O3].
        let truncations = self.hot.truncations();
        let found = self.hot.index.find(hash);
        let truncations = mutant!(Planted::CountedLate, truncations, self.hot.truncations());
        let seen = self.cache.seen(found, truncations);
        if self.cache.read(&seen, hash, key, into) {
            return InMemory::Value;
        }
        let on_disk = match self.walk(seen.log_head, searched.plus(1), key) {
            Found::Here(record, _) if record.read(into) == Read::Value => return InMemory::Value,
            Found::Here(..) => return InMemory::Tombstone,
            Found::OnDisk(at) => at,
            Found::Nothing => LogAddress::NONE,
        };
        InMemory::Beyond(Beyond { chain: seen.note(), on_disk })
    }

    fn cold_log(&self) -> &Cold {
        self.cold.as_ref().expect("only a cold log has chunks")
    }
}

impl DiskLookup {
    /// A lookup that continues after memory. `caches`: whether its value is worth a copy in memory.
    pub(crate) fn new(hash: KeyHash, beyond: Beyond, caches: bool) -> Self {
        Self {
            hash,
            beyond,
            searched: LogAddress::NONE,
            caches,
            at: At::HotRecord,
            read: None,
            named: Vec::new(),
            others: 0,
            digests: 0,
            gone: Gone::default(),
        }
    }

    /// The read that it requests, after [`Progress::Read`].
    pub(crate) fn read(&self) -> &RecordRead {
        self.read.as_ref().expect("a lookup that was started has a read")
    }

    /// Continues as far as it can without the device. The caller is not protected, here and below.
    ///
    /// # Errors
    /// Damage with its place; the store was closed.
    pub(crate) fn start(
        &mut self,
        shared: &Shared,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        let progress = self.search_hot(shared, key, self.beyond.on_disk, into)?;
        if progress != Progress::Read {
            self.count_digests(shared);
        }
        Ok(progress)
    }

    /// Counts the digests: the lookup has a result, or a read was made for it.
    fn count_digests(&mut self, shared: &Shared) {
        if self.digests > 0 {
            shared.cold_log().index.digests.note_found(std::mem::take(&mut self.digests));
        }
    }

    /// Continues with the bytes that were read, or with the failure of the read.
    ///
    /// # Errors
    /// The same; the failure.
    pub(crate) fn resume(
        &mut self,
        shared: &Shared,
        key: &[u8],
        bytes: Result<&[u8]>,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        let read = self.read.as_mut().expect("a lookup is resumed with its read");
        let address = read.address();
        let ReadOutcome::Record(stored) = read.check(bytes)? else { return Ok(Progress::Read) };
        self.count_digests(shared);
        let progress = match self.at {
            At::HotRecord | At::ColdRecord if stored.key == key => {
                let Some(value) = stored.value else { return Ok(Progress::Absent) };
                self.cache(shared, key, value);
                into.clear();
                into.extend_from_slice(value);
                return Ok(Progress::Value);
            }
            At::HotRecord => self.search_hot(shared, key, stored.header.previous(), into)?,
            At::ColdRecord => {
                self.others += 1;
                self.search_cold(shared, key, false, into)?
            }
            At::Chunk => {
                let position = shared.hot.index.position(self.hash);
                let cold = shared.cold_log();
                cold.index.note_chunk_read(position, address, &stored, &mut self.named)?;
                self.search_cold(shared, key, false, into)?
            }
        };
        if progress != Progress::Read {
            self.count_digests(shared);
        }
        Ok(progress)
    }

    fn wants(&mut self, at: At, read: RecordRead) -> Progress {
        (self.at, self.read) = (at, Some(read));
        Progress::Read
    }

    fn cache(&self, shared: &Shared, key: &[u8], value: &[u8]) {
        // [L5]
        if self.caches {
            shared.cache_found(&self.beyond.chain, self.hash, key, value);
        }
    }

    /// Searches the hot log's chain from `from` on, and the cold log after its end.
    fn search_hot(
        &mut self,
        shared: &Shared,
        key: &[u8],
        mut from: LogAddress,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        loop {
            let goes_on = from > self.searched && from >= shared.hot.log.begin();
            if goes_on && let Some(read) = shared.hot.log.record_read(from)? {
                return Ok(self.wants(At::HotRecord, read));
            }
            // [L4]
            if shared.hot.truncations() == self.beyond.chain.truncations {
                return match shared.cold {
                    Some(_) => self.search_cold(shared, key, true, into),
                    None => Ok(Progress::Absent),
                };
            }
            self.searched = self.searched.max(self.beyond.chain.log_head);
            let guard = shared.epochs.protect();
            let looked = shared.look_in_memory(self.hash, key, self.searched, into);
            drop(guard);
            match looked {
                InMemory::Value => return Ok(Progress::Value),
                InMemory::Tombstone => return Ok(Progress::Absent),
                InMemory::Beyond(beyond) => (self.beyond, from) = (beyond, beyond.on_disk),
            }
        }
    }

    /// The cold records that are named, or the chunk that names them.
    fn search_cold(
        &mut self,
        shared: &Shared,
        key: &[u8],
        mut wants_chunk: bool,
        into: &mut Vec<u8>,
    ) -> Result<Progress> {
        let cold = shared.cold_log();
        loop {
            if wants_chunk {
                self.others = 0;
                let position = shared.hot.index.position(self.hash);
                match cold.index.look(position, &mut self.named)? {
                    Lookup::Known => {}
                    Lookup::ByDigest => self.digests += 1,
                    Lookup::OnDisk(read) => return Ok(self.wants(At::Chunk, read)),
                }
            }
            let Some(at) = self.named.get(self.others).copied() else {
                return Ok(Progress::Absent);
            };
            let guard = cold.log.epochs.protect();
            match cold.log.place(at) {
                Place::Memory(record) if record.is_of(key) => {
                    let is_value = record.read(into) == Read::Value;
                    debug_assert!(is_value, "the cold log holds no tombstones");
                    drop(guard);
                    self.cache(shared, key, into);
                    return Ok(Progress::Value);
                }
                Place::Memory(_) => {
                    wants_chunk = false;
                    self.others += 1;
                    continue;
                }
                Place::Disk => drop(guard),
                Place::Truncated => {
                    drop(guard);
                    self.gone.again()?;
                    wants_chunk = true;
                    continue;
                }
            }
            if let Some(read) = cold.log.record_read(at)? {
                return Ok(self.wants(At::ColdRecord, read));
            }
            self.gone.again()?;
            wants_chunk = true;
        }
    }
}
