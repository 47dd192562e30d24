//! The memory of a transaction, as the database's budget counts it.

use std::sync::Arc;

use memory_budget::MemoryBudget;

use crate::error::{Error, Result};

/// Bytes by which a transaction's part of the budget grows.
const STEP_BYTES: u64 = 64 << 10;
/// Part of the memory (one in this many) that a transaction may hold even if none is left, at least
/// [`STEP_BYTES`]. So it can delete something, or replace a value by one that takes no more.
const ALLOWANCE_PART: u64 = 64;

/// One transaction's part of the budget, which is released when this is dropped.
pub(super) struct Held {
    memory: Arc<MemoryBudget>,
    charged: u64,
}

impl Held {
    pub(super) fn new(memory: &Arc<MemoryBudget>) -> Self {
        Self { memory: Arc::clone(memory), charged: 0 }
    }

    /// Has the budget count `bytes` in all, at least.
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`], and nothing has changed.
    pub(super) fn reach(&mut self, bytes: u64) -> Result<()> {
        if bytes <= self.charged {
            return Ok(());
        }
        let wanted = bytes.next_multiple_of(STEP_BYTES);
        let (more, limit) = (wanted - self.charged, self.memory.limit());
        if bytes <= (limit / ALLOWANCE_PART).max(STEP_BYTES) {
            self.memory.charge_anyway(more);
        } else if self.memory.charge(more).is_err() {
            return Err(Error::TransactionTooLarge { bytes, limit });
        }
        self.charged = wanted;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.release(self.charged);
    }
}
