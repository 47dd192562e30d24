//! The parts of a store that take memory, in a budget that may change while the store is open.
//!
//! All parts look at the budget whenever they take something (`memory_split`), so a larger one needs
//! nothing else. With a smaller one the cache immediately releases the bytes above its share.
//! Memtables that are larger than they may be are sealed, and their memory is released by their
//! flush.

use engine::{MemoryParts, Result};
use lsm_tree::range_deletes;
use memory_budget::{MemoryBudget, MemoryGain};

use crate::memory_split::MemorySplit;
use crate::options::Options;
use crate::store::{Shared, Store};

/// The memory of this number of flushed memtables is kept: while a flush runs, writers fill the
/// memory that the flush before it has left.
const SPARE_MEMTABLES: u64 = 2;

impl MemoryParts for Store {
    fn budget(&self) -> &MemoryBudget {
        &self.shared.host.memory
    }

    /// Range deletes stay in memory until they have nothing more to hide.
    fn bytes_min(&self) -> u64 {
        let deletes = self.shared.state.load().deletes.all.memory();
        Options::MEMORY_BYTES_MIN.max(deletes.saturating_mul(2 * range_deletes::PARTS))
    }

    fn are_within_shares(&self) -> bool {
        let shared = &self.shared;
        shared.cache.is_within_capacity()
            && shared.family.memory().bytes() <= shared.memory_split().memtables_bytes
    }

    fn gain(&self) -> MemoryGain {
        let shared = &self.shared;
        let limit = shared.host.memory.limit();
        let larger = limit.saturating_add(MemoryGain::reach(limit));
        let larger = MemorySplit::of(larger, &shared.options).cache_bytes;
        let share = shared.memory_split().cache_bytes;
        shared.cache.set_ghost_reach(larger.saturating_sub(share));
        MemoryGain::of_reads(shared.cache.ghost_hits(), limit)
    }

    fn check_open(&self) -> Result<()> {
        self.shared.health.check_open()
    }

    fn fit(&self) {
        let shared = &self.shared;
        let split = shared.memory_split();
        // The memtables first: the cache does without the bytes that they take above their share.
        let is_over = shared.family.memory().bytes() > split.memtables_bytes;
        shared.seal_where(&|active| {
            active.bytes() > split.memtable_bytes || is_over && !active.is_empty()
        });
        shared.fit_spare_memory();
        shared.cache.shrink();
        shared.fit_lookup_index();
        shared.wake_looks_unnumbered();
    }
}

impl Shared {
    /// Keeps as much of the memory that memtables leave as the next ones may soon need.
    pub(crate) fn fit_spare_memory(&self) {
        let split = self.memory_split();
        self.family
            .memory()
            .keep_spare(SPARE_MEMTABLES * split.memtable_bytes, split.memtables_bytes);
    }
}
