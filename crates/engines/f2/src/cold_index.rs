//! The cold index: which records of the cold log may be of a key (section 6 of the F2 paper,
//! *two-level index*).
//!
//! ```text
//!  position of a key:  | base chunk, 12 | lent | tag, 20 in all | further bits, for walks alone
//!                             |            |          |
//!  directory (memory):  word of the chunk <+          |
//!                             |                       |
//!  chunk log (disk):    chunk: entries of 8 bytes,    v
//!                              tag and address of a record in the cold log
//! ```
//!
//! A *chunk* has the entries of all positions that begin with the same bits, about 32 of them. It
//! is never changed: a new version of it is appended to the chunk log, an ordinary hybrid log, and
//! then its word in the *directory* names that version. The directory has a word of memory for each
//! chunk. If the memory has no room for more words, chunks get longer, up to 4 KiB. The part of a
//! chunk that a lookup needs is kept in memory as well, as far as that saves more than other uses
//! of the memory (`digests`, `fill`). Users' operations only read; compactions change the index,
//! many entries at a time. To follow a lookup, start at [`ColdIndex::look`]; a change, at
//! `apply.rs`; the directory's growth, at `directory.rs`; the reads of opening, at `rebuild.rs`.
//!
//! # Invariants
//! - N1. A chunk that the directory named at some moment has the truth of that moment, about all
//!   positions that the chunk covers.
//! - N2. Valid records of one chunk number are in the chunk log in the order in which they were
//!   installed, and levels only rise. A version is appended after the version before it was read.
//!   If it is not installed, it is marked invalid while its writer is still protected. So the last
//!   valid record counts.
//! - N3. The chunk log begins behind no chunk that the directory names. A reader that finds a chunk
//!   below the beginning, or its segment removed, has read a word that was changed since, and reads
//!   it again.
//! - N4. A number without a word has no entries. For such a number, a chunk log that is read again
//!   has a chunk without entries too.
//! - N5. While no thread may change a word, the counts are the counts of the chunks that the
//!   directory names. So a checkpoint, which counts at the moment of its cut, has the counts of its
//!   own content.
//!
//! # Concurrency
//! Readers wait for no other thread. Several threads may change the index at the same time: a
//! thread that loses the race for a chunk starts over with the version that won. A doubling waits
//! for changes in progress, one chunk each.

mod apply;
mod check;
mod chunk;
mod compact;
mod digests;
mod directory;
mod fill;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod moves;
mod plan;
mod puts;
mod read;
mod read_chunks;
mod rebuild;
mod snapshot;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use memory_budget::MemoryBudget;
use sync::locks::Mutex;

use crate::hybrid_log::HybridLog;

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use apply::CROWDED;
pub(crate) use apply::Change;
pub(crate) use check::{NamedRecords, Overtake, encoded_again};
pub(crate) use digests::{DigestFigures, Digests};
pub(crate) use directory::Directory;
pub(crate) use moves::{Moves, Verdict};
pub(crate) use puts::{Puts, SortedPuts};
pub(crate) use read::Lookup;
pub(crate) use rebuild::restore;
pub(crate) use snapshot::{FORMAT, NamedSnapshot, check_snapshot};

/// Bits of a position that number the chunks before the first doubling. None under the checkers.
const BASE_BITS: u32 = if cfg!(any(loom, shuttle)) { 0 } else { 12 };
/// How often the directory can double: each time takes a bit from the tags.
const LEVEL_MAX: u32 = 14;
/// Name that the files of the chunk log begin with.
pub(crate) const CHUNKS: &str = "chunks";

/// A chunk's least and greatest bytes of entries.
pub(crate) const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 64..=4096;
const ENTRY_BYTES: u64 = 8;
/// Longest chunk whose record still fits, as a multiple of the length that a chunk should have.
const SLACK: usize = 4;
/// The most of the memory that the directory may take, as a divisor, while chunks can get longer
/// instead.
const DIRECTORY_SHARE: u64 = 4;

/// The index. See the module's documentation.
pub(crate) struct ColdIndex {
    log: Arc<HybridLog>,
    directory: Directory,
    pub(crate) digests: Digests,
    fill: Mutex<fill::Fill>,
    memory: Arc<MemoryBudget>,
    /// Entries that a chunk has on average before the directory doubles: if there is memory for
    /// doubling, and if there is none.
    entries_target: u64,
    entries_target_most: u64,
    /// Longest chunk.
    entries_max: usize,
    entries: AtomicI64,
    /// Entries that follow another entry of their tag.
    covered: AtomicI64,
    /// When a snapshot of the directory is due: see `snapshot`.
    snapshot_share: AtomicU64,
    /// Bytes that the newest one takes on disk.
    snapshot_bytes: AtomicU64,
}

/// The number of entries, and of the entries that follow another one of their tag. A checkpoint
/// keeps them [N5].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) entries: u64,
    pub(crate) covered: u64,
}

impl Counts {
    /// Whether a superblock can name these counts, of a cold log that ends below `end`.
    pub(crate) const fn is_sound(self, end: u64) -> bool {
        self.covered <= self.entries && self.entries < end
    }
}

/// Parts of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// How often the directory was doubled.
    pub(crate) level: u32,
    /// Chunks, written or not.
    pub(crate) chunks: u64,
    /// Entries; exact while no thread changes them.
    pub(crate) entries: u64,
    /// The number of these that follow another entry of the same tag, as exact: older versions of a
    /// key, except for one in thousands.
    pub(crate) covered: u64,
    /// Memory of the directory.
    pub(crate) directory_bytes: u64,
    /// Bytes that its snapshot takes on disk.
    pub(crate) snapshot_bytes: u64,
    /// Memory of the chunk log.
    pub(crate) log_memory_bytes: u64,
    /// Addresses that the chunk log takes: for the bytes that it has on disk and will have.
    pub(crate) log_bytes: u64,
    /// Bytes that the chunk log would take at most if it held present versions only.
    pub(crate) live_bytes: u64,
}

impl ColdIndex {
    /// The index of this chunk log, whose `directory` was restored.
    ///
    /// `chunk_bytes`: bytes that a chunk's entries take on average before the directory doubles, 64
    /// to 4096; less if the log's pages are small, and more if the directory has no room in
    /// `memory`. `digest_bytes_max`: the most bytes that digests of chunks may take; nothing at
    /// first.
    pub(crate) fn restored(
        log: Arc<HybridLog>,
        memory: Arc<MemoryBudget>,
        chunk_bytes: u64,
        directory: Directory,
        counts: Counts,
        digest_bytes_max: u64,
    ) -> Self {
        let chunk_bytes = chunk_bytes.clamp(*CHUNK_BYTES.start(), *CHUNK_BYTES.end());
        let room = log.geometry.record_bytes_max() - chunk::record_bytes(0);
        let entries_max = room / ENTRY_BYTES as usize - 1;
        let target = |bytes: u64| (bytes / ENTRY_BYTES).min((entries_max / SLACK) as u64);
        Self {
            log,
            digests: Digests::new(digest_bytes_max, &memory),
            fill: Mutex::default(),
            memory,
            entries_target: target(chunk_bytes),
            entries_target_most: target(*CHUNK_BYTES.end()),
            entries_max,
            entries: AtomicI64::new(counts.entries as i64),
            covered: AtomicI64::new(counts.covered as i64),
            snapshot_share: AtomicU64::new(snapshot::SHARE),
            snapshot_bytes: AtomicU64::new(0),
            directory,
        }
    }

    /// Memory of the directory now, or after it doubles, if it is three quarters of the way there.
    pub(crate) fn directory_bytes_soon(&self) -> u64 {
        let room = self.entries_room();
        let entries = self.entries.load(Relaxed).max(0) as u64;
        let doublings = u32::from(entries > room / 4 * 3 && self.directory.level() < LEVEL_MAX);
        self.directory.bytes() << doublings
    }

    /// Entries that there are at most before the directory doubles.
    fn entries_room(&self) -> u64 {
        let has_memory = 2 * self.directory.bytes() <= self.memory.limit() / DIRECTORY_SHARE;
        let target = if has_memory { self.entries_target } else { self.entries_target_most };
        target * self.directory.chunks() as u64
    }

    /// Returns the bytes that digests of all chunks would take, about.
    pub(crate) fn digest_bytes_of_all(&self) -> u64 {
        let entries = self.entries.load(Relaxed).max(0) as u64;
        Digests::bytes_of_all(entries, entries.min(self.directory.chunks() as u64))
    }

    /// Cuts the chunk log, and returns the counts of the part below the cut. Waits for threads that
    /// change a chunk; the caller is not protected. [N5]
    pub(crate) fn cut_and_count<T>(&self, cut: impl FnOnce() -> T) -> (T, Counts) {
        self.directory.while_unchanged(|_| (cut(), self.counts()))
    }

    /// Its entries.
    pub(crate) fn counts(&self) -> Counts {
        let now = |count: &AtomicI64| count.load(Relaxed).max(0) as u64;
        let entries = now(&self.entries);
        Counts { entries, covered: now(&self.covered).min(entries) }
    }

    /// Returns the parts of the index.
    pub(crate) fn figures(&self) -> Figures {
        let level = self.directory.level();
        let chunks = self.directory.chunks() as u64;
        let entries = self.entries.load(Relaxed).max(0) as u64;
        let names = chunks.min(entries) * chunk::record_bytes(1) as u64;
        Figures {
            level,
            chunks,
            entries,
            covered: self.covered.load(Relaxed).max(0) as u64,
            directory_bytes: self.directory.bytes(),
            snapshot_bytes: self.snapshot_bytes.load(Relaxed),
            log_memory_bytes: self.log.memory_bytes(),
            log_bytes: self.log.bytes(),
            live_bytes: entries * ENTRY_BYTES + names,
        }
    }
}
