//! Values that gets have read from the device.
//!
//! A cached value has the number of its write, and serves only handles of this number. So no write
//! and no job drops one, and a scan at a snapshot may use the cache too. A scan adds nothing: it
//! reads many values once.

use std::sync::Arc;

use codec::SeqNo;
use memory_budget::{GhostTable, MemoryBudget};
use pairs::Pairs;

/// The state of all values: the number of a write says whether its value is the present one.
const STATE: u64 = 0;

/// The cache.
#[derive(Debug)]
pub(crate) struct ValueCache {
    pairs: Pairs,
}

impl ValueCache {
    /// Returns an empty cache in a budget, which may take nothing yet.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        let pairs = Pairs::new(GhostTable::within(budget), budget, 1.0);
        pairs.open(STATE);
        Self { pairs }
    }

    /// Replaces the content of `into` by the value of a write, and returns true, if it is cached.
    pub(crate) fn get(&self, key: &[u8], number: SeqNo, into: &mut Vec<u8>) -> bool {
        self.pairs.get_of(key, number.get(), into)
    }

    /// Adds the value of a write. Values of more than 4 KiB are not cached.
    pub(crate) fn add(&self, key: &[u8], number: SeqNo, value: &[u8]) {
        self.pairs.keep(STATE, key, number.get(), value);
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
