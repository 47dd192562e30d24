//! What a store tells of its memory, and how it comes by more or less of it while it is open.
//!
//! All parts look at the budget whenever they take something (`memory_split`), so a larger one needs
//! nothing else. With a smaller one the cache gives up what is above its share at once; a memtable that
//! is larger than it may be is sealed, and its memory comes back with its commit. What the index takes
//! stays, as do the segments that the space was made with.

use std::sync::Arc;

use engine::Result;
use memory_budget::{MemoryGain, MemoryNeeds};

use crate::memory_split::MemorySplit;
use crate::options::{Options, SEGMENT_PARTS};
use crate::store::Shared;

/// Parts of the least budget of which the index is one: by then it has two thirds of what would be the
/// cache's.
const INDEX_PARTS: u64 = 4;

impl Shared {
    /// See [`engine::Engine::memory_needs`].
    pub(crate) fn memory_needs(&self) -> MemoryNeeds {
        let memory = &self.host.memory;
        let (limit, split, index) = (memory.limit(), self.memory_split(), self.index_bytes());
        let used = self.memtables_used();
        let share = split.cache_bytes(index, used);
        let larger = limit.saturating_add(MemoryGain::reach(limit));
        let larger = MemorySplit::of(larger, &self.options).cache_bytes(index, used);
        self.cache.set_ghost_reach(larger.saturating_sub(share));
        let is_settled = memory.used() <= limit
            && self.cache.bytes() <= split.cache_bytes(index, 0)
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
        let active = Arc::clone(&self.open_state()?.active);
        let limit = self.host.memory.resize(limit, self.memory_bytes_min());
        let split = self.memory_split();
        let is_over = self.family.memory().bytes() > split.memtables_bytes;
        if active.bytes() > split.memtable_bytes || is_over && active.len() > 0 {
            self.seal(&active);
        }
        self.cache.shrink(self.cache_share());
        Ok(limit)
    }

    fn memory_bytes_min(&self) -> u64 {
        let segments = self.segment_bytes().saturating_mul(SEGMENT_PARTS) / 4;
        Options::MEMORY_BYTES_MIN.max(segments).max(INDEX_PARTS * self.index_bytes())
    }
}
