//! Digests of chunks in memory: the part of a chunk that a lookup needs, in about four bytes an
//! entry, so that a cold key costs one read of the device instead of two (why:
//! `docs/design/f2.md`).
//!
//! ```text
//!  word of the directory --> chunk log: a chunk of 8 bytes an entry
//!        |                         |
//!        | the same address?       | when it was read or written
//!        v                         v
//!  slot of the chunk's number --> digest: address of the chunk; of each entry 8 bits of its tag,
//!                                         and where its record lies
//! ```
//!
//! A digest has less information than its chunk: of entries whose tags begin alike it names all. So
//! it may name records of other keys, which occasionally costs a read, and never leaves out a
//! record of the key.
//!
//! # Invariants
//! - G1. A digest has the address of the chunk that it was made of, chunks are never changed, and
//!   no address is used twice. So a digest whose address is in the directory's word is the truth
//!   about the chunk, and no thread has to remove a digest when its chunk is replaced. It has the
//!   directory's level, too: a doubling leaves both halves the same chunk, and the digest of each
//!   half has only its own entries.
//! - G2. Entries are in the chunk's order, so of the same tag the newest is first [K1].
//! - G3. The pages of all shards have at most the allowed bytes. The budget knows of each, and of
//!   the slots.
//!
//! # Concurrency
//! A shard is locked for the time of a look or of copying a few kilobytes. Lookups do not wait for
//! it: they read from the device instead, and do not keep the chunk that they have read.

mod packed;
mod shard;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memory_budget::MemoryBudget;
use sync::locks::Mutex;

use super::chunk::{Entry, Name};
use crate::address::LogAddress;
use shard::Shard;

/// Shards at most: neighbours in the directory are in different ones.
const SHARDS_MAX: u64 = 16;
const PAGE_BYTES_MIN: u64 = 4 << 10;
const PAGE_BYTES_MAX: u64 = 16 << 10;
/// Steps, about, that the greatest memory of digests is divided into; a step is a page of each
/// shard.
const PAGES: u64 = 128;
/// Bytes of an entry and of a digest's head, about; and the bytes that replaced digests take in
/// addition to the current digests, as a share of them.
const ENTRY_BYTES: u64 = 4;
const HEAD_BYTES: u64 = 24;
const REPLACED_SHARE: u64 = 4;

/// The digests; none while nothing is allowed.
pub(crate) struct Digests {
    shards: Box<[Mutex<Shard>]>,
    /// A page of each shard.
    step_bytes: u64,
    bytes_max: u64,
    allowed: AtomicU64,
    /// Lookups that found a digest, and lookups that read the chunk.
    found: AtomicU64,
    read: AtomicU64,
}

/// The number and the memory of digests, and the lookups in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DigestFigures {
    /// Bytes that they may take.
    pub(crate) allowed: u64,
    /// Memory: their pages, and the table of slots.
    pub(crate) page_bytes: u64,
    pub(crate) slot_bytes: u64,
    /// Digests that there are, and the bytes that they take of their pages.
    pub(crate) kept: u64,
    pub(crate) kept_bytes: u64,
    /// Lookups of chunks on disk that a digest served, and lookups that read the chunk.
    pub(crate) found: u64,
    pub(crate) read: u64,
}

impl Digests {
    /// Returns digests that may take up to `bytes_max`; nothing is allowed at first.
    pub(crate) fn new(bytes_max: u64, memory: &Arc<MemoryBudget>) -> Self {
        let step = 1 << (bytes_max / PAGES).max(PAGE_BYTES_MIN).ilog2();
        let page_bytes = (step / SHARDS_MAX).clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX);
        let shards = (step / page_bytes).min(SHARDS_MAX);
        let pages_max = bytes_max / (shards * page_bytes);
        let shards = if pages_max == 0 { 0 } else { shards };
        let shard = |_| Mutex::new(Shard::new(page_bytes, pages_max, Arc::clone(memory)));
        Self {
            shards: (0..shards).map(shard).collect(),
            step_bytes: shards * page_bytes,
            bytes_max: pages_max * shards * page_bytes,
            allowed: AtomicU64::new(0),
            found: AtomicU64::new(0),
            read: AtomicU64::new(0),
        }
    }

    /// Returns the bytes, about, that all chunks' digests take with this number of entries and
    /// chunks.
    pub(crate) const fn bytes_of_all(entries: u64, chunks: u64) -> u64 {
        entries * ENTRY_BYTES + chunks * HEAD_BYTES
    }

    /// Returns the bytes that `bytes` of digests take if they are replaced all the time.
    pub(crate) const fn with_replaced(bytes: u64) -> u64 {
        bytes + bytes / REPLACED_SHARE
    }

    /// Returns the unit of the allowed bytes; 0 if nothing is ever allowed.
    pub(crate) fn step_bytes(&self) -> u64 {
        self.step_bytes
    }

    /// The most that may ever be allowed.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes that they may take.
    pub(crate) fn bytes_allowed(&self) -> u64 {
        self.allowed.load(Relaxed)
    }

    /// Allows `bytes` bytes, rounded down to whole steps; memory above that is released before this
    /// returns. [G3]
    pub(crate) fn resize(&self, bytes: u64) {
        let pages = bytes.min(self.bytes_max).checked_div(self.step_bytes).unwrap_or_default();
        if self.allowed.swap(pages * self.step_bytes, Relaxed) == pages * self.step_bytes {
            return;
        }
        self.shards.iter().for_each(|shard| shard.lock().allow(pages));
    }

    /// Returns the number and the memory of digests. Looks into each shard, so it is too slow to
    /// call for every lookup.
    pub(crate) fn figures(&self) -> DigestFigures {
        let mut figures = DigestFigures {
            allowed: self.bytes_allowed(),
            found: self.found.load(Relaxed),
            read: self.read.load(Relaxed),
            ..DigestFigures::default()
        };
        for shard in &self.shards {
            let shard = shard.lock();
            let (kept, kept_bytes) = shard.kept();
            figures.page_bytes += shard.page_bytes();
            figures.slot_bytes += shard.slot_bytes();
            figures.kept += kept;
            figures.kept_bytes += kept_bytes;
        }
        figures
    }

    /// Bytes that digests may take before others have to be dropped for them, whatever was
    /// replaced.
    pub(super) fn bytes_without_loss(&self) -> u64 {
        shard::compacted(self.bytes_allowed())
    }

    /// Chunks that lookups have read from the device so far.
    pub(super) fn chunks_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    fn shard(&self, Name { number, .. }: Name) -> Option<(&Mutex<Shard>, usize)> {
        if self.bytes_allowed() == 0 {
            return None;
        }
        Some((&self.shards[number % self.shards.len()], number / self.shards.len()))
    }

    /// Appends the addresses of all records that may be of a key with this tag to `into`, the
    /// newest first, if there is a digest of the chunk at `address`. The directory has that address
    /// for `name`. Only the caller knows whether the lookup then finds a record, and counts it
    /// then.
    pub(super) fn find(
        &self,
        name: Name,
        address: LogAddress,
        tag: u32,
        into: &mut Vec<LogAddress>,
    ) -> bool {
        self.shard(name)
            .and_then(|(shard, slot)| shard.try_lock()?.find(slot, name.level, address, tag, into))
            .is_some()
    }

    /// Counts the lookups of chunks on disk that digests have served.
    pub(crate) fn note_found(&self, times: u64) {
        self.found.fetch_add(times, Relaxed);
    }

    /// Counts a lookup that has read its chunk from the device.
    pub(super) fn note_read(&self) {
        self.read.fetch_add(1, Relaxed);
    }

    /// Whether it is worth while to report a chunk.
    pub(super) fn is_used(&self) -> bool {
        self.bytes_allowed() > 0
    }

    /// Keeps the digest of the chunk at `address`, which the directory has for `name` and whose
    /// entries of that name these are, instead of that of an older version.
    pub(super) fn keep(&self, name: Name, address: LogAddress, entries: &[Entry]) {
        if let Some((shard, slot)) = self.shard(name) {
            shard.lock().keep(slot, name.level, address, entries);
        }
    }

    /// The same by a lookup: if no other thread has the shard just now.
    pub(super) fn keep_if_free(&self, name: Name, address: LogAddress, entries: &[Entry]) {
        if let Some((shard, slot)) = self.shard(name)
            && let Some(mut shard) = shard.try_lock()
        {
            shard.keep(slot, name.level, address, entries);
        }
    }

    /// The same if none has to go for it. `false`: there is no room.
    pub(super) fn keep_if_room(&self, name: Name, address: LogAddress, entries: &[Entry]) -> bool {
        self.shard(name).is_some_and(|(shard, slot)| {
            shard.lock().keep_if_room(slot, name.level, address, entries)
        })
    }

    /// Whether there is a digest of the chunk at `address`, which the directory has for `name`.
    pub(super) fn has(&self, name: Name, address: LogAddress) -> bool {
        self.shard(name).is_some_and(|(shard, slot)| shard.lock().has(slot, name.level, address))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
