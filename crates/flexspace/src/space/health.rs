//! Open, read-only since a write failed, or closed.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::Error;

/// Whether a space still takes reads and writes.
#[derive(Debug, Default)]
pub(super) struct Health {
    closed: AtomicBool,
    failure: OnceLock<Arc<Error>>,
}

impl Health {
    /// Refuses once the space is closed.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Refuses once the space is closed, or a write failed.
    pub(super) fn check_writable(&self) -> Result<(), Error> {
        self.check_open()?;
        match self.failure.get() {
            Some(cause) => Err(Error::ReadOnly { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Passes a result on; an error stops all later writes (F3).
    pub(super) fn stop_on<T, E: Into<Error>>(&self, result: Result<T, E>) -> Result<T, Error> {
        result.map_err(|error| {
            let error = error.into();
            // The first cause is the one that is told.
            let _ = self.failure.set(Arc::new(error.clone()));
            error
        })
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Relaxed);
    }
}
