//! The parts of a store that take memory, in a budget that may change while the store is open.
//!
//! The index has a budget of its own, which is counted whole in the store's.

use std::sync::Arc;

use engine::{MemoryParts, Result};
use memory_budget::{Account, MemoryBudget, MemoryGain};

use crate::contract::Store;
use crate::memory_split::MemorySplit;
use crate::options::Options;

/// The budget of the index, and its part of the store's budget.
#[derive(Debug)]
pub(crate) struct Shares {
    pub(crate) index: Arc<MemoryBudget>,
    counted: Account,
}

impl Shares {
    /// Returns the shares of a budget.
    pub(crate) fn of(budget: &Arc<MemoryBudget>, options: &Options) -> Self {
        let bytes = MemorySplit::of(budget.limit(), options).index_bytes;
        let counted = Account::new(budget);
        counted.set(bytes);
        Self { index: Arc::new(MemoryBudget::new(bytes)), counted }
    }

    /// Counts the present budget of the index.
    pub(crate) fn count(&self) {
        self.counted.set(self.index.limit());
    }
}

impl MemoryParts for Store {
    fn budget(&self) -> &MemoryBudget {
        &self.shared.host.memory
    }

    fn bytes_min(&self) -> u64 {
        let index = self.shared.index.memory().map_or(0, |index| index.needs().least_bytes);
        Options::MEMORY_BYTES_MIN.max(index.saturating_mul(4).div_ceil(3))
    }

    fn are_within_shares(&self) -> bool {
        let shared = &self.shared;
        let index = shared.index.memory().is_none_or(|index| index.needs().is_within_limit);
        index && shared.values.buffers.bytes() <= shared.memory_split().buffer_bytes
    }

    fn gain(&self) -> MemoryGain {
        self.shared.index.memory().map_or_else(MemoryGain::default, |index| index.needs().gain)
    }

    fn check_open(&self) -> Result<()> {
        self.shared.health.check_open()
    }

    fn fit(&self) {
        let shared = &self.shared;
        let wanted = shared.memory_split().index_bytes;
        if let Some(index) = shared.index.memory() {
            // A store that is closed has no memory to share.
            let _ = index.resize(wanted);
        }
        shared.memory.count();
        shared.flush_if_due();
    }
}
