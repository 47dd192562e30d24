//! Open, read-only since a write failed, or closed: the state that every engine keeps for law L5.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::error::{Error, Result};

/// Whether a store still takes reads and writes. Looking costs a load or two.
#[derive(Debug, Default)]
pub struct Health {
    closed: AtomicBool,
    failure: OnceLock<Error>,
}

impl Health {
    /// Refuses once the store is closed.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Refuses once the store is closed or a write to its files failed.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::ReadOnly`] with the first cause.
    pub fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// Returns whether a write to the files of the store has failed, also once it is closed.
    pub fn has_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Stops all later writes (law L5). Later calls return the first cause.
    pub fn fail(&self, error: &Error) {
        let _ = self.failure.set(error.poisoning());
    }

    /// From now on everything is refused.
    pub fn close(&self) {
        self.closed.store(true, Relaxed);
    }
}
