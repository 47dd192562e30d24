//! Memory that is used for a while, counted in an engine's budget until it is released.

use std::sync::Arc;

use crate::budget::MemoryBudget;

/// Bytes of the budget; released when dropped. Work that must not fail for lack of memory takes
/// them, so the limit may be passed; writes are refused then until they are back.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Charge {
    /// Nothing yet.
    pub fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Sets it to `bytes` bytes.
    pub fn set(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes > self.bytes {
            self.budget.charge_anyway(bytes - self.bytes);
        } else {
            self.budget.release(self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}
