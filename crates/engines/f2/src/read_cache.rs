//! The read cache: copies, in memory, of records that were read from a device (section 7 of the
//! F2 paper; why it is built like this: `docs/design/f2.md`).
//!
//! ```text
//!  entry -> cached record -> log head -> ... the chain in the log
//! ```
//!
//! A *cached* address has the highest bit set. At most one cached record is on a chain, at its
//! head; its previous address is the *log head*, the chain's newest record in the log.
//!
//! 1. [`ReadCache::seen`] notes the entry before a lookup.
//! 2. [`ReadCache::read`] reads from the cache, and marks the record as read.
//! 3. [`ReadCache::insert`] puts a copy of a record found on a device at the chain's head, if the
//!    entry is unchanged since it was seen. A full cache takes it only if the key was read shortly
//!    before (`history`).
//! 4. `evict` leads entries back to the log, a few records at each insertion, and copies the
//!    records that were read meanwhile to the tail (*second chance*).
//!
//! # Invariants
//! - R1. A cached record's previous address is a log address or none: the log head from before it
//!   was linked until it is no longer the entry's. A write links its record behind the log head, so
//!   the copy leaves the chain by the step that publishes the write.
//! - R2. While a cached record is the entry's, its key has no record in memory in the log, and its
//!   value is the newest of its key. Callers of [`ReadCache::insert`] have found no record of the
//!   key on the chain in memory; nothing was linked since; and no record returns from disk to
//!   memory.
//! - R3. A cached address is linked at most once, before its page is sealed.
//! - R4. A page's memory is released only after an epoch since the last entry was led away from it.
//!
//! # Concurrency
//! No thread ever waits here: a record that finds no room, or another thread at work, is not
//! cached.

mod evict;
mod figures;
mod history;
#[cfg(all(test, any(loom, shuttle)))]
mod models;
mod ring;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use memory_budget::GhostTable;

use crate::address::LogAddress;
use crate::hash_index::{HashIndex, Slot};
use crate::hybrid_log::StoreParts;
use crate::key_hash::KeyHash;
use crate::planted::{Planted, mutant};
use crate::record::{Live, Read, Shape};
use evict::Outcome;
use figures::Counters;
use history::History;
use ring::Ring;

pub(crate) use figures::Figures;

/// Records taken off the oldest page by one insertion: more than it adds, and some microseconds.
const EVICTED_PER_TURN: usize = 16;
/// The same for the background, which makes room that another part of the store wants.
const EVICTED_IN_BACKGROUND: usize = 1024;
/// Slices of that in one call.
const SLICES: usize = 16;
/// The share of the cache's usual memory that the table of its ghosts takes, as a divisor, and the
/// fewest entries of it.
const GHOSTS_SHARE: u64 = 512;
const GHOSTS_MIN: u64 = if cfg!(any(loom, shuttle)) { 1 } else { 512 };
/// The same for the history.
const HISTORY_SHARE: u64 = 128;

/// The cache, which may have no memory at all.
pub(crate) struct ReadCache {
    ring: Option<Ring>,
    hash_seed: u64,
    counters: Counters,
    ghosts: GhostTable,
    history: History,
}

/// A chain's beginning before a lookup.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    slot: Option<Slot<'a>>,
    /// The chain's newest record in the log.
    pub(crate) log_head: LogAddress,
    /// How often the log had been truncated, read before the entry.
    truncations: u64,
}

/// The same, to be kept without protection. An entry with an address is the same while it has that
/// address, wherever a split has moved it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted {
    address: LogAddress,
    /// The chain's newest record in the log.
    pub(crate) log_head: LogAddress,
    /// How often the log had been truncated, read before the entry.
    pub(crate) truncations: u64,
}

impl Seen<'_> {
    /// Returns the part that can be kept.
    pub(crate) fn note(&self) -> Noted {
        let address = self.slot.map_or(LogAddress::NONE, |slot| slot.address());
        Noted { address, log_head: self.log_head, truncations: self.truncations }
    }
}

impl ReadCache {
    /// Makes a cache of `bytes` of memory in all, which may become `bytes_max`, charged to the
    /// budget when used; none if that is too little for a ring of pages. Its memory of keys that
    /// are not cached is enough for a cache of `usual` bytes. A page has `page_bytes_max` at most.
    pub(crate) fn new(
        [bytes, usual, bytes_max]: [u64; 3],
        page_bytes_max: u64,
        hash_seed: u64,
        store: &StoreParts,
    ) -> Self {
        let StoreParts { epochs, memory, .. } = store.clone();
        let ring = Ring::shape(bytes, page_bytes_max).map(|(page_bytes, pages)| {
            let pages_max = (bytes_max / page_bytes).max(pages);
            Ring::new(page_bytes, pages, pages_max, epochs, memory)
        });
        let usual = if ring.is_some() { usual } else { 0 };
        Self::with_ring(ring, usual, hash_seed)
    }

    fn with_ring(ring: Option<Ring>, usual: u64, hash_seed: u64) -> Self {
        let entries = (usual / GHOSTS_SHARE / 8).max(GHOSTS_MIN).next_power_of_two();
        let ghosts = GhostTable::new(entries as usize);
        let history = History::new(usual / HISTORY_SHARE);
        Self { ring, hash_seed, counters: Counters::default(), ghosts, history }
    }

    /// The cached record at `address`. The caller is protected since before it read the address
    /// from an entry [R4].
    pub(crate) fn live(&self, address: LogAddress) -> Live<'_> {
        self.ring.as_ref().expect("only a ring has cached addresses").live(address)
    }

    /// The chain's newest record in the log, given its entry's address. The caller is protected
    /// since before it read the entry. [R1]
    #[inline]
    pub(crate) fn log_head(&self, address: LogAddress) -> LogAddress {
        if address.is_cached() { self.live(address).header().previous() } else { address }
    }

    /// Notes the entry of a chain before a lookup. `truncations` was read before the entry. The
    /// caller is protected since before it read the entry.
    pub(crate) fn seen<'a>(&self, slot: Option<Slot<'a>>, truncations: u64) -> Seen<'a> {
        let log_head = slot.map_or(LogAddress::NONE, |slot| self.log_head(slot.address()));
        Seen { slot, log_head, truncations }
    }

    /// The cached record of `key`, if the entry with this address leads to one. It never changes,
    /// and is the key's newest value at the moment when the entry was read [R2]. The caller is
    /// protected since before.
    #[inline]
    pub(crate) fn find(&self, address: LogAddress, key: &[u8]) -> Option<Live<'_>> {
        let cached = address.is_cached().then(|| self.live(address));
        cached.filter(|record| record.is_of(key))
    }

    /// Replaces the content of `into` by the cached value of `key`; `false` if there is none. The
    /// caller is protected since before `seen`.
    #[inline]
    pub(crate) fn read(
        &self,
        seen: &Seen<'_>,
        hash: KeyHash,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> bool {
        let Some(slot) = seen.slot else { return false };
        let Some(record) = self.find(slot.address(), key) else { return false };
        let has_value = record.read(into) == Read::Value;
        debug_assert!(has_value, "tombstones are not cached");
        self.counters.hit(hash);
        record.note_hit();
        has_value
    }

    /// Caches a value that was read from a device, best effort: if the entry is unchanged since
    /// before the lookup, which has found no record of the key in memory in the log [R2].
    /// `truncations` returns how often the log has been truncated, and `may_make` says whether the
    /// index may grow by an entry. The caller is protected.
    #[expect(clippy::too_many_arguments, reason = "a lookup, its result, and the place of a copy")]
    pub(crate) fn insert(
        &self,
        index: &HashIndex,
        seen: &Seen<'_>,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
        truncations: impl FnOnce() -> u64,
        may_make: bool,
    ) -> bool {
        self.counters.miss(hash);
        let Some(ring) = &self.ring else { return false };
        if !ring.has_room() && !self.history.knows(hash) {
            return false;
        }
        let inserted =
            self.insert_admitted(ring, index, seen, hash, (key, value), truncations, may_make);
        match inserted {
            true => self.counters.inserted(hash),
            false => self.history.note(hash),
        }
        inserted
    }

    /// The same for a key that is let in.
    #[expect(clippy::too_many_arguments, reason = "a lookup, its result, and the place of a copy")]
    fn insert_admitted(
        &self,
        ring: &Ring,
        index: &HashIndex,
        seen: &Seen<'_>,
        hash: KeyHash,
        (key, value): (&[u8], &[u8]),
        truncations: impl FnOnce() -> u64,
        may_make: bool,
    ) -> bool {
        let slot = match seen.slot {
            Some(slot) if slot.address() != LogAddress::NONE => {
                mutant!(Planted::CachedUnseen, slot, index.find_or_create(hash))
            }
            // An entry without an address may have been added and removed. Records that were linked
            // since are above every truncation counted then; an entry below a later one is freed
            // only when we are no longer protected.
            None if !may_make => return false,
            _ => {
                let slot = index.find_or_create(hash);
                let is_same = slot.address() == LogAddress::NONE;
                let is_whole = truncations() == seen.truncations;
                if !is_same || mutant!(Planted::TruncatedUnseen, !is_whole, false) {
                    return false;
                }
                slot
            }
        };
        self.put(ring, index, (slot, seen.log_head), key, value)
    }

    /// The same for a chain that was noted.
    #[expect(clippy::too_many_arguments, reason = "a lookup, its result, and the place of a copy")]
    pub(crate) fn insert_noted(
        &self,
        index: &HashIndex,
        noted: &Noted,
        hash: KeyHash,
        key: &[u8],
        value: &[u8],
        truncations: impl FnOnce() -> u64,
        may_make: bool,
    ) -> bool {
        let slot = index.find(hash);
        let seen = Seen { slot, log_head: noted.log_head, truncations: noted.truncations };
        if mutant!(Planted::NotedUncompared, seen.note().address != noted.address, false) {
            self.counters.miss(hash);
            return false;
        }
        self.insert(index, &seen, hash, key, value, truncations, may_make)
    }

    /// Links a copy in front of the log head, if the entry is unchanged since it was seen.
    fn put(
        &self,
        ring: &Ring,
        index: &HashIndex,
        (slot, log_head): (Slot<'_>, LogAddress),
        key: &[u8],
        value: &[u8],
    ) -> bool {
        self.evict_some(ring, index, EVICTED_PER_TURN);
        let shape = Shape { key_bytes: key.len(), value_bytes: value.len() };
        let at = ring.allocate(shape.bytes() as u64);
        at.is_some_and(|at| ring.link(slot, at, log_head, (key, value)))
    }

    /// Takes at most `count` records off the oldest page, if its memory is needed. The caller is
    /// protected.
    fn evict_some(&self, ring: &Ring, index: &HashIndex, count: usize) {
        let (mut evicted, mut kept) = (0, 0);
        ring.evict_some(index, self.hash_seed, count, &mut |hash, outcome| match outcome {
            Outcome::Kept => kept += 1,
            Outcome::Evicted(page) => {
                self.ghosts.note_evicted(hash.mixed(), page);
                self.history.note(hash);
                evicted += 1;
            }
        });
        self.counters.ended(evicted, kept);
    }

    /// Counts a value that was read from a device, which took `reads` reads.
    pub(crate) fn note_disk_read(&self, hash: KeyHash, reads: u64) {
        self.ghosts.note_read(hash.mixed(), reads);
    }

    /// From now on counts the reads that `bytes` more of memory would have saved.
    pub(crate) fn set_ghost_reach(&self, bytes: u64) {
        self.ghosts.set_reach(bytes / self.page_bytes().max(1));
    }

    /// Returns the reads of a device that this additional memory would have saved, as counted so
    /// far.
    pub(crate) fn ghost_hits(&self) -> u64 {
        self.ghosts.hits()
    }

    /// Bytes that the memory of keys that are not cached takes.
    pub(crate) fn ghost_bytes(&self) -> u64 {
        self.ghosts.bytes() + self.history.bytes()
    }

    /// Bytes of memory in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.ring.as_ref().map_or(0, Ring::memory_bytes)
    }

    /// Sets the bytes of memory that the cache may have, at most the `bytes_max` that it was made
    /// for. One thread at a time.
    pub(crate) fn resize(&self, bytes: u64) {
        if let Some(ring) = &self.ring {
            ring.resize(bytes / ring.page_bytes());
        }
    }

    /// Whether the cache has no more memory than it may have, and will have none; otherwise does
    /// something about it. The caller is not protected.
    pub(crate) fn is_within_limit(&self, index: &HashIndex) -> bool {
        let Some(ring) = &self.ring else { return true };
        for _ in 0..SLICES {
            if ring.is_within_limit() {
                return true;
            }
            let _guard = ring.epochs.protect();
            self.evict_some(ring, index, EVICTED_IN_BACKGROUND);
        }
        ring.is_within_limit()
    }

    /// Bytes of a page; 0 without a ring.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.ring.as_ref().map_or(0, Ring::page_bytes)
    }

    /// Bytes of memory that the cache may have just now, at least, and at most.
    pub(crate) fn bytes_allowed(&self) -> u64 {
        self.ring.as_ref().map_or(0, |ring| ring.pages() * ring.page_bytes())
    }

    pub(crate) fn bytes_min(&self) -> u64 {
        self.ring.as_ref().map_or(0, |ring| ring::PAGES_MIN * ring.page_bytes())
    }

    pub(crate) fn bytes_max(&self) -> u64 {
        self.ring.as_ref().map_or(0, |ring| ring.pages_max() * ring.page_bytes())
    }

    /// Returns the work that the cache has done so far, and its memory.
    pub(crate) fn figures(&self) -> Figures {
        self.counters.figures(Figures {
            bytes: self.memory_bytes(),
            pages: self.ring.as_ref().map_or(0, Ring::pages),
            ghost_hits: self.ghosts.hits(),
            ..Figures::default()
        })
    }
}
