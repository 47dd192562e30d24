//! The traces of evicted pieces: their ghosts, and the memory of their records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memory_budget::{GHOST_PAGE_BYTES, GhostTable, MemoryBudget};

use super::Measured;
use super::clock::Slot;
use crate::background::release::Freed;

/// The pieces that were evicted.
#[derive(Debug)]
pub(super) struct Evictions {
    pub(super) ghosts: GhostTable,
    /// Bytes evicted so far.
    bytes: AtomicU64,
    pub(super) freed: Arc<Freed>,
}

impl Evictions {
    /// Makes the part of a cache within `budget` that has evicted nothing.
    pub(super) fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self {
            ghosts: GhostTable::within(budget),
            bytes: AtomicU64::new(0),
            freed: Freed::new(budget),
        }
    }

    /// Drops an evicted piece. Returns its bytes, and its bytes that were not in the pool.
    pub(super) fn drop_piece(&self, slot: Slot) -> (u64, u64) {
        let (bytes, beside) = (slot.cached.bytes(), slot.cached.beside());
        let before = self.bytes.fetch_add(bytes, Relaxed);
        self.ghosts.note_evicted(slot.key.hash(), before / GHOST_PAGE_BYTES);
        drop(slot);
        self.freed.note(beside);
        (bytes, beside)
    }
}
