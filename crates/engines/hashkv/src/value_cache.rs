//! Values that gets, and the beginnings of scans, have read from the device.
//!
//! A cached value has the number of its write, and serves only handles of this number. So no write
//! and no job drops one, and a scan at a snapshot may use the cache too. An older value does not
//! take the place of a newer one.
//!
//! The cache also takes the part of the write buffers' share that is above their high-water mark
//! ([`HighWater`]).

use std::sync::Arc;

use cache::RowCache;
use codec::SeqNo;
use memory_budget::{GhostTable, HighWater, MemoryBudget};

/// The state of all values: the number of a write says whether its value is the present one.
const STATE: u64 = 0;

/// The cache.
#[derive(Debug)]
pub(crate) struct ValueCache {
    pairs: RowCache,
    /// Of the write buffers.
    high_water: HighWater,
}

impl ValueCache {
    /// Returns an empty cache in a budget, which may take nothing yet.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        let pairs = RowCache::new(GhostTable::within(budget), budget, 1.0);
        pairs.open(STATE);
        Self { pairs, high_water: HighWater::default() }
    }

    /// Replaces the content of `into` by the value of a write, and returns true, if it is cached.
    pub(crate) fn get(&self, key: &[u8], number: SeqNo, into: &mut Vec<u8>) -> bool {
        self.pairs.get_of(key, number.get(), into)
    }

    /// Adds the value of a write. Values of more than 4 KiB are not cached.
    pub(crate) fn add(&self, key: &[u8], number: SeqNo, value: &[u8]) {
        self.pairs.keep_newest(STATE, key, number.get(), value);
    }

    /// Returns the high-water mark of write buffers and their reservations, which now have `taken`
    /// bytes.
    pub(crate) fn claimed(&self, taken: u64) -> u64 {
        self.high_water.claimed(taken)
    }

    /// Notes that write buffers and their reservations have `taken` bytes. Returns whether that
    /// raises their high-water mark. It rises by `step` at least.
    pub(crate) fn note_taken(&self, taken: u64, step: u64) -> bool {
        let before = self.high_water.claimed(0);
        self.high_water.note_taken(taken, step) > before
    }

    /// Notes that `bytes` bytes were read while write buffers and their reservations have `taken`
    /// bytes. After each `turn` bytes the high-water mark may fall.
    pub(crate) fn note_read(&self, bytes: u64, taken: u64, turn: u64) {
        self.high_water.note_read(bytes, taken, turn);
    }

    /// From now on it takes at most `bytes` bytes.
    pub(crate) fn fit(&self, bytes: u64) {
        self.pairs.set_capacity(bytes);
    }

    /// Returns the bytes that it takes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pairs.bytes() + self.pairs.ghost_bytes()
    }

    /// Returns the number of values that it has served.
    pub(crate) fn hits(&self) -> u64 {
        self.pairs.hits()
    }

    /// From now on counts the reads that `bytes` more would have saved.
    pub(crate) fn set_ghost_reach(&self, bytes: u64) {
        self.pairs.set_ghost_reach(bytes);
    }

    /// Returns the reads that so much more would have saved.
    pub(crate) fn ghost_hits(&self) -> u64 {
        self.pairs.ghost_hits()
    }
}
