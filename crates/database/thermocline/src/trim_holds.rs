//! Holds that keep the journal from being trimmed for some time.
//!
//! A copy of the database may take hours, so a thread that would trim does not wait for its end. It
//! skips the trim, and the next thread trims. Above all a thread of the pool must not wait, since
//! copies wait for writers, and writers wait for the pool.
//!
//! # Concurrency
//! The lock is held while the journal is trimmed, and for a moment while a hold begins or ends: so
//! nothing is trimmed once a hold has begun.

use sync::locks::{Mutex, MutexGuard};

/// How many holds there are.
#[derive(Debug, Default)]
pub(crate) struct TrimHolds(Mutex<usize>);

/// Nothing is trimmed while it lives.
#[derive(Debug)]
pub(crate) struct TrimHold<'a>(&'a TrimHolds);

impl TrimHolds {
    /// Keeps the journal from being trimmed from now on; waits for a trim that is under way.
    pub(crate) fn hold(&self) -> TrimHold<'_> {
        *self.0.lock() += 1;
        TrimHold(self)
    }

    /// Keeps holds from beginning, for a caller that is about to trim. Returns `None` if there is a
    /// hold.
    pub(crate) fn keep_out(&self) -> Option<MutexGuard<'_, usize>> {
        Some(self.0.lock()).filter(|holds| **holds == 0)
    }

    pub(crate) fn is_held(&self) -> bool {
        *self.0.lock() > 0
    }
}

impl Drop for TrimHold<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() -= 1;
    }
}
