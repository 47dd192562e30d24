//! What a store tells of its memory, and how it comes by more or less of it while it is open.
//!
//! Hot log and read cache have what the other parts leave of the budget (`memory_split`), so a smaller one
//! makes them let go of their oldest pages, and a larger one lets them grow, into the addresses that were
//! set aside when the store was opened. The indexes only grow: what they take, and what compactions work
//! with, is the least that a budget can be.

use std::sync::Arc;

use engine::{Error, Result};
use memory_budget::MemoryNeeds;

use crate::hybrid_log::Geometry;
use crate::options::BACKGROUND_PAGES;
use crate::store::Shared;

/// The index's share of a budget is one part in so many (`MemoryPlan::index_share`).
const INDEX_PARTS: u64 = 4;

impl Shared {
    /// See [`engine::Engine::memory_needs`].
    pub(crate) fn memory_needs(self: &Arc<Self>) -> Option<MemoryNeeds> {
        let most_bytes = self.split.plan().limit_max()?;
        let memory = &self.host.memory;
        let of_log = self.log.frames() * self.log.geometry.page_bytes();
        let allowed = of_log + self.cache.bytes_allowed() + self.digest_figures().allowed;
        let is_settled = allowed <= self.split_bytes().max(self.sides_min())
            && memory.used() <= memory.limit()
            && self.log.is_settled()
            && self.cache.settle(&self.index);
        Some(MemoryNeeds {
            least_bytes: self.memory_bytes_min(),
            most_bytes,
            is_settled,
            gain: self.memory_gain(),
        })
    }

    /// See [`engine::Engine::resize_memory`].
    pub(crate) fn resize_memory(self: &Arc<Self>, limit: u64) -> Result<u64> {
        self.health.check_open()?;
        let most = self.split.plan().limit_max().ok_or(Error::FixedMemory { engine: "f2" })?;
        let limit = self.host.memory.resize(limit.min(most), self.memory_bytes_min());
        self.balance_memory();
        Ok(limit)
    }

    /// The fewest bytes that hot log and read cache work with together.
    fn sides_min(&self) -> u64 {
        Geometry::FRAMES_MIN_TO_RESERVE as u64 * self.log.geometry.page_bytes()
            + self.cache.bytes_min()
    }

    fn memory_bytes_min(&self) -> u64 {
        let of_cold = self.cold.as_ref().map_or(0, |cold| {
            let pages = |log: &crate::hybrid_log::HybridLog| log.geometry.page_bytes();
            let pages = BACKGROUND_PAGES * (pages(&cold.log) + pages(&cold.chunk_log));
            pages + cold.index.directory_bytes_soon()
        });
        let tables = self.cache.ghost_bytes() + self.digest_figures().slot_bytes;
        let beside = tables + self.user_bytes.get() + self.set_aside_bytes;
        let all = self.index_bytes_soon() + of_cold + beside + 2 * self.sides_min();
        // Writers wait where the index is crowded for its share. And it is to be opened again with as much.
        let for_index = INDEX_PARTS * self.index_share_min();
        all.max(for_index).max(self.split.plan().limit_min())
    }
}
