//! The bytes of one consumer of a budget: a cache, an index, the buffers of a task.
//!
//! # Invariants
//! - A1. The bytes of an account are part of its budget's used bytes. When the account is dropped
//!   they are released.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::budget::MemoryBudget;

/// Bytes of one consumer. Work that must not fail for lack of memory takes them, so the limit may
/// be passed; writes are refused then until they are released.
#[derive(Debug)]
pub struct Account {
    budget: Arc<MemoryBudget>,
    bytes: AtomicU64,
}

impl Account {
    /// Returns an account without bytes.
    pub fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { budget: Arc::clone(budget), bytes: AtomicU64::new(0) }
    }

    /// Returns the bytes of the budget, all consumers' together.
    pub fn budget_bytes(&self) -> u64 {
        self.budget.limit()
    }

    /// Returns the bytes of this consumer.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Sets the bytes: for a size that is checked from time to time.
    pub fn set(&self, bytes: u64) {
        let mut before = self.bytes.load(Relaxed);
        loop {
            // Growth counts before another thread sees it and may release it again: the used bytes
            // are never less than those of the account.
            let growth = bytes.saturating_sub(before);
            self.budget.charge_anyway(growth);
            match self.bytes.compare_exchange(before, bytes, Relaxed, Relaxed) {
                Ok(_) => return self.budget.release(before.saturating_sub(bytes)),
                Err(now) => {
                    self.budget.release(growth);
                    before = now;
                }
            }
        }
    }

    /// Adds bytes.
    pub fn add(&self, bytes: u64) {
        self.budget.charge_anyway(bytes);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Adds bytes if the account then has at most `max`, and returns how many it has then.
    pub fn try_add(&self, bytes: u64, max: u64) -> Option<u64> {
        // The budget first: its used bytes are never less than those of the account.
        self.budget.charge_anyway(bytes);
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= max);
        match self.bytes.fetch_update(SeqCst, SeqCst, fits) {
            Ok(before) => Some(before + bytes),
            Err(_) => {
                self.budget.release(bytes);
                None
            }
        }
    }

    /// Subtracts bytes that were added.
    pub fn release(&self, bytes: u64) {
        self.budget.release(bytes);
        self.bytes.fetch_sub(bytes, SeqCst);
    }

    /// Adds the bytes of an object, until the charge is dropped.
    pub fn charge(self: &Arc<Self>, bytes: u64) -> Charge {
        self.add(bytes);
        Charge { account: Arc::clone(self), bytes }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.release(*self.bytes.get_mut());
    }
}

/// Bytes of one object, counted as long as the charge lives.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Charge {
    /// Returns the bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_accounts_and_charges_are_used_bytes_until_they_are_dropped() {
        let budget = Arc::new(MemoryBudget::new(100));
        let (one, other) = (Arc::new(Account::new(&budget)), Account::new(&budget));
        other.set(40);
        let charge = one.charge(7);
        one.add(3);
        assert_eq!((one.bytes(), other.bytes(), budget.used(), charge.bytes()), (10, 40, 50, 7));
        assert_eq!((one.try_add(5, 14), one.try_add(5, 15)), (None, Some(15)));
        assert_eq!(budget.used(), 55, "only what was added");
        one.release(5);
        other.set(15);
        one.release(3);
        assert_eq!(budget.used(), 22);
        drop(one);
        assert_eq!(budget.used(), 22, "a charge keeps its account");
        drop(charge);
        assert_eq!(budget.used(), 15);
        drop(other);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn sizes_that_threads_set_at_the_same_time_add_up() {
        let budget = Arc::new(MemoryBudget::new(0));
        let account = Account::new(&budget);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let account = &account;
                scope.spawn(move || (0..1000).for_each(|size| account.set(size * 7 + thread)));
            }
        });
        account.set(5);
        assert_eq!((account.bytes(), budget.used()), (5, 5));
    }
}
