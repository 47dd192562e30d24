//! The lookup index of a store, whose size follows the budget, and the counts of lookups.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::ArcSwap;
use lsm_tree::table::Lookups;
use memory_budget::MemoryBudget;

use crate::lookup_index::LookupIndex;

/// The index that leads lookups, and counts of the places that they searched.
pub(crate) struct IndexedLookups {
    pub(crate) index: ArcSwap<LookupIndex>,
    pub(crate) counts: Lookups,
}

impl IndexedLookups {
    /// Makes the part of a store that has done no lookup. The index stays empty until it fits.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { index: ArcSwap::from_pointee(LookupIndex::none(budget)), counts: Lookups::default() }
    }

    /// Replaces the index by an empty one of `wanted` bytes, if it has more than these or less than
    /// a quarter of them.
    pub(crate) fn fit(&self, wanted: u64, budget: &Arc<MemoryBudget>) {
        let bytes = self.index.load().bytes();
        if bytes > wanted || bytes < wanted / 4 {
            // The old one first: there is no room for both.
            self.drop_index(budget);
            self.index.store(Arc::new(LookupIndex::of_bytes(wanted, budget)));
        }
    }

    /// Replaces the index by one that stays empty.
    pub(crate) fn drop_index(&self, budget: &Arc<MemoryBudget>) {
        self.index.store(Arc::new(LookupIndex::none(budget)));
    }

    /// Returns whether searches in vain may have made a compaction worth it since the last call
    /// that returned `true`.
    #[inline]
    pub(crate) fn take_plan_due(&self) -> bool {
        let is_plan_due = &self.counts.is_plan_due;
        is_plan_due.load(Relaxed) && is_plan_due.swap(false, Relaxed)
    }
}
