//! Recently evicted keys of a cache: reads of them would have been hits in a larger one.
//!
//! A table of fixed length remembers a sample of the evicted keys. It has their hash and the page
//! that they were evicted from, which counts the pages of memory evicted before. A hash may be read
//! from a device while it is there, with a page evicted less than the *reach* ago. Then it counts
//! for the number of reads that the sample represents.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::{Account, MemoryBudget};

/// Evicted bytes that caches count as one page.
pub const GHOST_PAGE_BYTES: u64 = 4096;

/// Bits of an entry's page, and of its fingerprint.
const HALF: u32 = 32;
/// A table takes one of this number of parts of the budget, in bytes.
const SHARE: u64 = 4096;
/// Limits of its entries.
const ENTRIES_MIN: u64 = 64;
const ENTRIES_MAX: u64 = 1 << 16;

/// The table. Hashes have all their bits mixed. The checkers do not see it: it orders nothing, and
/// lost entries do no harm.
#[derive(Debug)]
pub struct GhostTable {
    entries: Box<[AtomicU64]>,
    /// One of `1 << sample_bits` keys is remembered.
    sample_bits: AtomicU32,
    reach_pages: AtomicU64,
    /// The page that is evicted.
    page: AtomicU64,
    /// Keys evicted, for the length of the sample.
    evicted: AtomicU64,
    hits: AtomicU64,
    /// Its bytes, if a budget counts them.
    _account: Option<Account>,
}

impl GhostTable {
    /// Returns a table of `entries` entries, a power of two.
    ///
    /// # Panics
    /// If it is none.
    pub fn new(entries: usize) -> Self {
        assert!(entries.is_power_of_two());
        Self {
            entries: (0..entries).map(|_| AtomicU64::new(0)).collect(),
            sample_bits: AtomicU32::new(0),
            reach_pages: AtomicU64::new(0),
            page: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            _account: None,
        }
    }

    /// Returns a table for a cache within `budget`, which counts the table's bytes.
    pub fn within(budget: &Arc<MemoryBudget>) -> Self {
        let entries = budget.limit() / SHARE / size_of::<u64>() as u64;
        let entries = entries.clamp(ENTRIES_MIN, ENTRIES_MAX).next_power_of_two();
        let table = Self::new(entries as usize);
        let account = Account::new(budget);
        account.set(table.bytes());
        Self { _account: Some(account), ..table }
    }

    /// Counts from now on the reads that `pages` more would have saved.
    pub fn set_reach(&self, pages: u64) {
        self.reach_pages.store(pages, Relaxed);
        // The sample is such that keys evicted within the reach fill half of the table.
        let (evicted, page) = (self.evicted.load(Relaxed), self.page.load(Relaxed));
        let within = evicted.saturating_mul(pages) / page.max(1);
        let room = (self.entries.len() as u64 / 2).max(1);
        let bits = within.div_ceil(room).next_power_of_two().ilog2();
        self.sample_bits.store(bits.min(u32::BITS / 2), Relaxed);
    }

    /// Returns the place of a hash and its fingerprint, if it is in the sample.
    fn entry(&self, hash: u64) -> Option<(&AtomicU64, u64)> {
        let is_sampled = hash & ((1 << self.sample_bits.load(Relaxed)) - 1) == 0;
        let place = (hash >> (u32::BITS / 2)) as usize & (self.entries.len() - 1);
        // Never zero, so an entry without a key is none's.
        is_sampled.then(|| (&self.entries[place], hash >> HALF | 1))
    }

    /// A key was evicted from `page`, the oldest one.
    pub fn note_evicted(&self, hash: u64, page: u64) {
        self.page.store(page, Relaxed);
        self.evicted.fetch_add(1, Relaxed);
        if let Some((place, fingerprint)) = self.entry(hash) {
            place.store(fingerprint << HALF | page & u64::from(u32::MAX), Relaxed);
        }
    }

    /// Notes that a key was read from a device, in `reads` reads.
    pub fn note_read(&self, hash: u64, reads: u64) {
        let Some((place, fingerprint)) = self.entry(hash) else { return };
        let entry = place.load(Relaxed);
        if entry >> HALF != fingerprint {
            return;
        }
        let age = (self.page.load(Relaxed) as u32).wrapping_sub(entry as u32);
        if u64::from(age) < self.reach_pages.load(Relaxed) {
            self.hits.fetch_add(reads << self.sample_bits.load(Relaxed), Relaxed);
        }
        // It is cached now, or will not be.
        place.store(0, Relaxed);
    }

    /// Reads of a device that a larger cache would have saved, so far.
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    /// Returns the bytes of memory.
    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.entries) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: u64) -> u64 {
        codec::hash64(5, &key.to_le_bytes())
    }

    #[test]
    fn what_was_evicted_within_the_reach_is_a_hit_once() {
        let ghosts = GhostTable::new(1 << 12);
        ghosts.set_reach(2);
        for key in 0..100 {
            ghosts.note_evicted(hash(key), key / 25);
        }
        (0..200).for_each(|key| ghosts.note_read(hash(key), 2));
        assert_eq!(ghosts.hits(), 2 * 50, "pages 2 and 3 are within the reach");
        (0..200).for_each(|key| ghosts.note_read(hash(key), 2));
        assert_eq!(ghosts.hits(), 2 * 50);
    }

    #[test]
    fn a_sample_stands_for_all() {
        const KEYS: u64 = 100_000;
        let ghosts = GhostTable::new(1 << 12);
        for key in 0..KEYS {
            ghosts.note_evicted(hash(key), key / 1000);
        }
        ghosts.set_reach(20);
        for key in KEYS..2 * KEYS {
            ghosts.note_evicted(hash(key), key / 1000);
        }
        (KEYS..2 * KEYS).for_each(|key| ghosts.note_read(hash(key), 1));
        let (hits, wanted) = (ghosts.hits() as f64, 20_000.0);
        assert!((0.6..1.2).contains(&(hits / wanted)), "{hits} for {wanted}");
    }
}
