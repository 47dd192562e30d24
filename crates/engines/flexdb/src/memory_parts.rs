//! The parts of a store that take memory, in a budget that may change while the store is open.
//!
//! All parts look at the budget whenever they take something (`memory_split`), so a larger one
//! needs nothing else. With a smaller one the cache immediately releases the bytes above its share.
//! A memtable that is larger than it may be is sealed, and its memory is released by its commit.
//! The index keeps its memory, and the space the segments that it was made with.

use std::sync::Arc;

use engine::{MemoryParts, Result};
use memory_budget::{MemoryBudget, MemoryGain};

use crate::contract::Store;
use crate::memory_split::MemorySplit;
use crate::options::{Options, SEGMENT_PARTS};

/// The least budget is this number of times the index. The index then has two thirds of the bytes
/// that would be the cache's.
const INDEX_PARTS: u64 = 4;

impl MemoryParts for Store {
    fn budget(&self) -> &MemoryBudget {
        &self.shared.host.memory
    }

    fn bytes_min(&self) -> u64 {
        let segments = self.shared.figures.segment_bytes().saturating_mul(SEGMENT_PARTS) / 4;
        let of_index = INDEX_PARTS * self.shared.index_memory.bytes();
        Options::MEMORY_BYTES_MIN.max(segments).max(of_index)
    }

    fn are_within_shares(&self) -> bool {
        let shared = &self.shared;
        let split = shared.memory_split();
        shared.cache.bytes() <= split.cache_bytes(shared.index_memory.bytes(), 0)
            && shared.writes.memory_bytes() <= split.memtables_bytes
    }

    fn gain(&self) -> MemoryGain {
        let shared = &self.shared;
        let (limit, index) = (shared.host.memory.limit(), shared.index_memory.bytes());
        let used = shared.memtables_used();
        let share = shared.memory_split().cache_bytes(index, used);
        let larger = limit.saturating_add(MemoryGain::reach(limit));
        let larger = MemorySplit::of(larger, &shared.options).cache_bytes(index, used);
        shared.cache.set_ghost_reach(larger.saturating_sub(share));
        MemoryGain::of_reads(shared.cache.ghost_hits(), limit)
    }

    fn check_open(&self) -> Result<()> {
        self.shared.health.check_open()
    }

    fn fit(&self) {
        let shared = &self.shared;
        let split = shared.memory_split();
        let is_over = shared.writes.memory_bytes() > split.memtables_bytes;
        // A store that is being closed has no state any more, and no memory to release.
        if let Ok(state) = shared.open_state() {
            let active = Arc::clone(&state.active);
            drop(state);
            if active.bytes() > split.memtable_bytes || is_over && !active.is_empty() {
                shared.seal(&active);
            }
        }
        shared.cache.shrink(shared.cache_share());
        shared.wake_looks_unnumbered();
    }
}
