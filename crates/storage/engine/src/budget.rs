//! How much memory an engine may use, and how much it does.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::pieces::Meter;

use crate::error::{Error, Result};

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
    /// [`Error::OutOfMemory`].
    pub fn charge(&self, bytes: u64) -> Result<()> {
        let limit = self.limit();
        if self.used().saturating_add(bytes) > limit {
            return Err(Error::OutOfMemory { limit });
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
