//! The parts of a store that take memory, in a budget that may change while the store is open.
//!
//! All parts look at the budget whenever they take something (`memory_split`), so a larger one
//! needs nothing else. With a smaller one the cache immediately releases the bytes above its share.
//! Memtables that are larger than they may be are sealed, and their memory is released by their
//! flush.

use std::sync::Arc;

use engine::{MemoryParts, Result};
use lsm_tree::range_deletes;
use memory_budget::{MemoryBudget, MemoryGain};

use crate::contract::Store;
use crate::memory_split::MemorySplit;
use crate::options::Options;
use crate::store::Shared;

/// The memory of this number of flushed memtables is kept, or that of memtables for this part of
/// the slots: while a flush runs, writers fill the memory that flushes before it have left.
const SPARE_MEMTABLES: u64 = 2;
const SPARE_SLOT_PARTS: u64 = 4;

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
            && shared.memtables.memory().bytes() <= shared.memory_split().memtables_bytes
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
        let is_over = shared.memtables.memory().bytes() > split.memtables_bytes;
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
    /// How the present budget is shared out.
    pub(crate) fn memory_split(&self) -> MemorySplit {
        let limit = self.host.memory.limit();
        let (known, split) = **self.split.load();
        if known == limit {
            return split;
        }
        let split = MemorySplit::of(limit, &self.options);
        self.split.store(Arc::new((limit, split)));
        split
    }

    /// Replaces the lookup index by an empty one, if it is above its share of the memory or below a
    /// quarter of it.
    pub(crate) fn fit_lookup_index(&self) {
        self.lookups.fit(self.memory_split().lookup_index_bytes, &self.host.memory);
    }

    /// Keeps the memory that memtables leave, up to the bytes that the next ones may soon need.
    pub(crate) fn fit_spare_memory(&self) {
        let split = self.memory_split();
        let spare = SPARE_MEMTABLES.max(split.slots as u64 / SPARE_SLOT_PARTS);
        self.memtables.memory().keep_spare(spare * split.memtable_bytes, split.memtables_bytes);
    }
}
