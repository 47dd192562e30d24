//! The bytes that a store may use, and the bytes that it uses.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arena::pieces::Meter;

/// The budget is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory budget of {limit} bytes is used up")]
pub struct OutOfMemory {
    /// Bytes of the budget.
    pub limit: u64,
}

/// One engine's share of the database's memory. The limit may move while the engine runs.
#[derive(Debug)]
pub struct MemoryBudget {
    limit: AtomicU64,
    used: AtomicU64,
}

impl MemoryBudget {
    /// Returns a budget of `limit` bytes, none of it used.
    pub fn new(limit: u64) -> Self {
        Self { limit: AtomicU64::new(limit), used: AtomicU64::new(0) }
    }

    /// Returns the budget in bytes.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Changes the budget. Bytes in use above it are not released here: the engine sees it on its
    /// next look.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Relaxed);
    }

    /// Changes the budget to `limit`, but not below `least`, unless it was below already. Returns
    /// the new budget: never more than the requested one, or than the one before.
    pub fn resize(&self, limit: u64, least: u64) -> u64 {
        let limit = limit.max(least.min(self.limit()));
        self.set_limit(limit);
        limit
    }

    /// Returns the bytes in use, as the engine counts them.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Counts `bytes` more as used, or refuses if that would pass the limit. Two concurrent threads
    /// may pass it by one request each, never by more.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn charge(&self, bytes: u64) -> Result<(), OutOfMemory> {
        let limit = self.limit();
        if self.used().saturating_add(bytes) > limit {
            return Err(OutOfMemory { limit });
        }
        self.used.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Counts `bytes` as used even above the limit (recovery, which must not refuse acknowledged
    /// writes).
    pub fn charge_anyway(&self, bytes: u64) {
        self.used.fetch_add(bytes, Relaxed);
    }

    /// Gives `bytes` back.
    pub fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

/// Resident pieces of a pool count as used, whatever the limit.
impl Meter for MemoryBudget {
    fn add(&self, bytes: u64) {
        self.charge_anyway(bytes);
    }

    fn subtract(&self, bytes: u64) {
        self.release(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_refuses_what_would_pass_it() {
        let budget = MemoryBudget::new(10);
        budget.charge(8).unwrap();
        assert_eq!(budget.charge(3), Err(OutOfMemory { limit: 10 }));
        budget.release(8);
        budget.charge(10).unwrap();
    }

    #[test]
    fn a_budget_goes_no_lower_than_its_least_and_no_higher_than_it_is_asked_to() {
        let budget = MemoryBudget::new(10);
        assert_eq!(budget.resize(6, 4), 6);
        assert_eq!(budget.resize(3, 4), 4);
        assert_eq!(budget.resize(3, 8), 4, "the store needs more than it has");
        assert_eq!(budget.resize(5, 8), 5);
        assert_eq!(budget.limit(), 5);
    }
}
