//! What a store tells of its memory, and how it comes by more or less of it while it is open.
//!
//! All parts look at the budget whenever they take something (`memory_split`), so a larger one needs
//! nothing else. With a smaller one the cache gives up what is above its share at once; memtables that
//! are larger than they may be are sealed, and their memory comes back with their flush.

use std::sync::Arc;

use engine::Result;
use memory_budget::{MemoryGain, MemoryNeeds};

use crate::memory_split::MemorySplit;
use crate::options::Options;
use crate::store::Shared;
use lsm_tree::range_deletes;

/// Memtables of which the memory is kept that they have left: flushes follow each other, and what one
/// leaves others fill until the next one ends.
const SPARE_MEMTABLES: u64 = 2;

impl Shared {
    /// See [`engine::Engine::memory_needs`].
    pub(crate) fn memory_needs(&self) -> MemoryNeeds {
        let memory = &self.host.memory;
        let (limit, split) = (memory.limit(), self.memory_split());
        let larger = limit.saturating_add(MemoryGain::reach(limit));
        let larger = MemorySplit::of(larger, &self.options);
        self.cache.set_ghost_reach(larger.cache_bytes.saturating_sub(split.cache_bytes));
        let is_settled = memory.used() <= limit
            && self.cache.is_within_capacity()
            && self.family.memory().bytes() <= split.memtables_bytes;
        MemoryNeeds {
            least_bytes: self.memory_bytes_min(),
            most_bytes: u64::MAX,
            is_settled,
            gain: MemoryGain::of_reads(self.cache.ghost_hits(), limit),
        }
    }

    /// See [`engine::Engine::resize_memory`].
    pub(crate) fn resize_memory(self: &Arc<Self>, limit: u64) -> Result<u64> {
        self.health.check_open()?;
        let limit = self.host.memory.resize(limit, self.memory_bytes_min());
        let split = self.memory_split();
        // The memtables first: what they take beside their share the cache would go without.
        let is_over = self.family.memory().bytes() > split.memtables_bytes;
        self.seal_where(&|active| {
            active.bytes() > split.memtable_bytes || is_over && !active.is_empty()
        });
        self.fit_spare_memory();
        self.cache.shrink();
        self.fit_lookup_index();
        Ok(limit)
    }

    /// Keeps as much of what memtables leave as the next ones may soon want.
    pub(crate) fn fit_spare_memory(&self) {
        let split = self.memory_split();
        self.family
            .memory()
            .keep_spare(SPARE_MEMTABLES * split.memtable_bytes, split.memtables_bytes);
    }

    /// Range deletes stay in memory until they have nothing more to hide.
    fn memory_bytes_min(&self) -> u64 {
        let deletes = self.state.load().deletes.all.memory();
        Options::MEMORY_BYTES_MIN.max(deletes.saturating_mul(2 * range_deletes::PARTS))
    }
}
