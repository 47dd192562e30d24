//! Open, closing, read-only since a write failed, or closed.

use std::sync::{Arc, OnceLock};

use sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::Error;

/// Whether a space still takes reads and writes.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// Changes are refused; earlier ones are still stored.
    closing: AtomicBool,
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

    /// Refuses changes, also changes that would be too late to be stored. Under the writers' lock,
    /// which orders it with [`Self::begin_close`].
    pub(super) fn check_changeable(&self) -> Result<(), Error> {
        self.check_writable()?;
        if self.closing.load(Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Passes a result on; an error stops all later writes (F3).
    pub(super) fn stop_on<T, E: Into<Error>>(&self, result: Result<T, E>) -> Result<T, Error> {
        result.map_err(|error| {
            let error = error.into();
            // Later calls return the first cause.
            let _ = self.failure.set(Arc::new(error.clone()));
            error
        })
    }

    /// Refuses changes from here on. Under the writers' lock. One thread closes the space, and the
    /// others are refused.
    pub(super) fn begin_close(&self) -> Result<(), Error> {
        self.check_open()?;
        if self.closing.swap(true, Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Takes changes again: it is not closed after all.
    pub(super) fn stay_open(&self) {
        self.closing.store(false, Relaxed);
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Relaxed);
    }
}
