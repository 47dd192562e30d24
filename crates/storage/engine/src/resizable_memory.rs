//! Budgets that change while a store is open.

use memory_budget::{MemoryBudget, MemoryGain, MemoryNeeds};

use crate::error::Result;

/// A store whose budget ([`crate::Host::memory`]) can change while it is open.
pub trait ResizableMemory: Sync {
    /// Returns the present needs of its memory, at the cost of a few loads. From the first call on,
    /// the store counts the I/O that more memory would have saved ([`MemoryGain`]).
    fn needs(&self) -> MemoryNeeds;

    /// Sets the limit of its budget to `limit`, or to the nearest limit that it can reach
    /// ([`MemoryBudget::resize`]), and returns it. A larger budget is there immediately. A smaller
    /// one is reached in the background: others can use the memory once
    /// [`MemoryNeeds::is_within_limit`]. An unchanged limit changes nothing. One caller at a time;
    /// it never waits.
    ///
    /// # Errors
    /// [`crate::Error::Closed`]; nothing has changed.
    fn resize(&self, limit: u64) -> Result<u64>;
}

/// The parts of a store that take memory. A store that implements this has a budget that can
/// change.
pub trait MemoryParts: Sync {
    /// Returns the budget.
    fn budget(&self) -> &MemoryBudget;

    /// Returns the least budget with which the store works.
    fn bytes_min(&self) -> u64;

    /// Returns the largest budget that it can use.
    fn bytes_max(&self) -> u64 {
        u64::MAX
    }

    /// Returns whether each part takes no more than its share of the present budget. Parts of a
    /// smaller budget may need time for that, and this call may end their work.
    fn are_within_shares(&self) -> bool;

    /// Returns the I/O that more memory would have saved since the store was opened. Sets how much
    /// more memory that is about: before the first call the store counts nothing.
    fn gain(&self) -> MemoryGain;

    /// Returns an error if the store is closed.
    ///
    /// # Errors
    /// [`crate::Error::Closed`].
    fn check_open(&self) -> Result<()>;

    /// Makes the parts fit their shares of a budget that has changed. Never waits: work that takes
    /// time is left to the background.
    fn fit(&self);
}

impl<P: MemoryParts> ResizableMemory for P {
    fn needs(&self) -> MemoryNeeds {
        let budget = self.budget();
        MemoryNeeds {
            least_bytes: self.bytes_min(),
            most_bytes: self.bytes_max(),
            is_within_limit: budget.used() <= budget.limit() && self.are_within_shares(),
            gain: self.gain(),
        }
    }

    fn resize(&self, limit: u64) -> Result<u64> {
        self.check_open()?;
        let budget = self.budget();
        let before = budget.limit();
        let limit = budget.resize(limit.min(self.bytes_max()), self.bytes_min());
        if limit != before {
            self.fit();
        }
        Ok(limit)
    }
}
