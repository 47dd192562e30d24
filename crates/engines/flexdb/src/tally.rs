//! Bytes of the budget that one kind of objects takes, added up over all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::MemoryBudget;

/// Returns the bytes that the system's allocator takes for a piece of `len` bytes.
pub(crate) fn allocated_bytes(len: usize) -> u64 {
    if len == 0 { 0 } else { ((len + 8).next_multiple_of(16) as u64).max(32) }
}

/// Bytes of all things of one kind.
#[derive(Debug)]
pub(crate) struct Tally {
    budget: Arc<MemoryBudget>,
    bytes: AtomicU64,
}

/// Bytes of one thing, counted as long as it lives.
#[derive(Debug)]
pub(crate) struct Charge {
    tally: Arc<Tally>,
    bytes: u64,
}

impl Tally {
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self { budget: Arc::clone(budget), bytes: AtomicU64::new(0) })
    }

    /// Bytes of the budget that it is counted in.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.budget.limit()
    }

    /// Bytes of all that live.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Counts one more.
    pub(crate) fn charge(self: &Arc<Self>, bytes: u64) -> Charge {
        self.add(bytes);
        Charge { tally: Arc::clone(self), bytes }
    }

    /// Counts more bytes that are not counted one by one.
    pub(crate) fn add(&self, bytes: u64) {
        self.budget.charge_anyway(bytes);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Sets the count to `bytes`: for bytes that are counted elsewhere, and checked from time to
    /// time.
    pub(crate) fn set(&self, bytes: u64) {
        self.budget.charge_anyway(bytes);
        self.budget.release(self.bytes.swap(bytes, Relaxed));
    }

    /// Subtracts bytes that were added.
    pub(crate) fn release(&self, bytes: u64) {
        self.budget.release(bytes);
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

impl Charge {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.tally.release(self.bytes);
    }
}
