//! The share of the budget that the cache may take.

use std::sync::Arc;

use memory_budget::{HighWater, MemoryBudget};
use memtable::MemtableMemory;

use crate::memory_split::MemorySplit;
use crate::options::Options;

/// Parts of the budget of which the cache releases one in a step, so that not every write makes it
/// shrink.
pub(super) const WAY_PARTS: u64 = 256;
/// Parts of the budget of which one is read in between two checks of the bytes that memtables no
/// longer need.
const TURN_PARTS: u64 = 2;

/// The cache's share: its part of the budget, and the bytes that memtables leave of theirs.
#[derive(Debug)]
pub(super) struct CacheShare {
    pub(super) budget: Arc<MemoryBudget>,
    memtables: Arc<MemtableMemory>,
    high_water: HighWater,
    options: Options,
}

impl CacheShare {
    /// Returns the share of `budget` next to these memtables.
    pub(super) fn new(
        budget: &Arc<MemoryBudget>,
        options: &Options,
        memtables: &Arc<MemtableMemory>,
    ) -> Self {
        Self {
            budget: Arc::clone(budget),
            memtables: Arc::clone(memtables),
            high_water: HighWater::default(),
            options: options.clone(),
        }
    }

    /// Returns the bytes that the cache may take now.
    pub(super) fn bytes(&self) -> u64 {
        let claimed = self.high_water.claimed(self.memtables.taken());
        MemorySplit::of(self.budget.limit(), &self.options).cache_beside(claimed)
    }

    /// Returns the bytes that it may take, whatever memtables take.
    pub(super) fn own_bytes(&self) -> u64 {
        MemorySplit::of(self.budget.limit(), &self.options).cache_bytes
    }

    /// Claims the bytes that memtables have taken, of a budget that is shared out as `split` has
    /// it. Returns the bytes that the cache may take then.
    pub(super) fn claim_for_writers(&self, split: &MemorySplit) -> u64 {
        let step = self.budget.limit() / WAY_PARTS;
        split.cache_beside(self.high_water.note_taken(self.memtables.taken(), step))
    }

    /// Notes that the cache has read in `bytes` bytes.
    pub(super) fn note_read(&self, bytes: u64) {
        let turn = self.budget.limit() / TURN_PARTS;
        self.high_water.note_read(bytes, self.memtables.taken(), turn);
    }
}
