//! The parts of a store that take memory, in a budget that may change while the store is open.
//!
//! Hot log and read cache have the bytes of the budget that the other parts leave (`memory_split`).
//! A smaller budget makes them release their oldest pages. A larger one lets them grow, into the
//! addresses that were set aside when the store was opened. The indexes only grow: their memory,
//! and the memory that compactions work with, is the least that a budget can be.

use engine::{MemoryParts, Result};
use memory_budget::{MemoryBudget, MemoryGain};

use crate::hybrid_log::{Geometry, HybridLog};
use crate::options::BACKGROUND_PAGES;
use crate::store::{Shared, Store};

/// The index's share of a budget is one of this number of parts (`MemoryPlan::index_share`).
const INDEX_PARTS: u64 = 4;

impl MemoryParts for Store {
    fn budget(&self) -> &MemoryBudget {
        &self.shared.host.memory
    }

    fn bytes_min(&self) -> u64 {
        let shared = &self.shared;
        if shared.memory.split.plan().limit_max().is_none() {
            // The parts have fixed sizes.
            return self.budget().limit();
        }
        let of_cold = shared.cold.as_ref().map_or(0, |cold| {
            let pages = |log: &HybridLog| log.geometry.page_bytes();
            let pages = BACKGROUND_PAGES * (pages(&cold.log) + pages(&cold.chunk_log));
            pages + cold.index.directory_bytes_soon()
        });
        let tables = shared.cache.ghost_bytes() + shared.digest_figures().slot_bytes;
        let others = tables + shared.memory.users.get() + shared.memory.reserved_bytes;
        let all = shared.index_bytes_soon() + of_cold + others + 2 * shared.sides_min();
        // Writers wait if the index is crowded for its share. And the store is to be opened again
        // with this budget.
        let for_index = INDEX_PARTS * shared.index_share_min();
        all.max(for_index).max(shared.memory.split.plan().limit_min())
    }

    fn bytes_max(&self) -> u64 {
        self.shared.memory.split.plan().limit_max().unwrap_or_else(|| self.budget().limit())
    }

    fn are_within_shares(&self) -> bool {
        let shared = &self.shared;
        let of_log = shared.hot.log.frames() * shared.hot.log.geometry.page_bytes();
        let allowed = of_log + shared.cache.bytes_allowed() + shared.digest_figures().allowed;
        allowed <= shared.split_bytes().max(shared.sides_min())
            && shared.hot.log.is_within_limit()
            && shared.cache.is_within_limit(&shared.hot.index)
    }

    fn gain(&self) -> MemoryGain {
        self.shared.memory_gain()
    }

    fn check_open(&self) -> Result<()> {
        self.shared.health.check_open()
    }

    fn fit(&self) {
        self.shared.balance_memory();
        self.shared.wake_upkeep();
    }
}

impl Shared {
    /// Returns the fewest bytes that hot log and read cache work with together.
    fn sides_min(&self) -> u64 {
        Geometry::FRAMES_MIN_TO_RESERVE as u64 * self.hot.log.geometry.page_bytes()
            + self.cache.bytes_min()
    }
}
