//! Open, read-only since a write failed, or closed.

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use engine::{Error, Result};
use parking_lot::RwLock;

/// Whether the store still takes reads and writes.
#[derive(Debug, Default)]
pub(crate) struct Health {
    closed: AtomicBool,
    failed: AtomicBool,
    failure: RwLock<Option<Error>>,
}

impl Health {
    /// Refuses once the store is closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Refuses once the store is closed or a write to its files failed.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.failed.load(Acquire)
            && let Some(error) = &*self.failure.read()
        {
            return Err(error.clone());
        }
        Ok(())
    }

    /// Stops all later writes (law L5 of the contract). The first cause is the one that is told.
    pub(crate) fn fail(&self, error: &Error) {
        self.failure.write().get_or_insert_with(|| error.poisoning());
        self.failed.store(true, Release);
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
    }
}
