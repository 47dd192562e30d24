//! Who needs the journal to stay as it is for some time.
//!
//! A copy of the database may take hours, so nobody who would trim waits for one to end: they go home, and
//! the next one trims. Above all a thread of the pool must not wait, as copies wait for writers, and those
//! for the pool.
//!
//! # Concurrency
//! The lock is held while the journal is trimmed, and for a moment where a hold begins or ends: so nothing is
//! trimmed once one has begun.

use sync::locks::{Mutex, MutexGuard};

/// How many holds there are.
#[derive(Debug, Default)]
pub(crate) struct TrimHolds(Mutex<usize>);

/// Nothing is trimmed while it lives.
#[derive(Debug)]
pub(crate) struct TrimHold<'a>(&'a TrimHolds);

impl TrimHolds {
    /// Has nothing trimmed from now on; waits for who does so now.
    pub(crate) fn hold(&self) -> TrimHold<'_> {
        *self.0.lock() += 1;
        TrimHold(self)
    }

    /// For who is about to trim: keeps holds from beginning, unless there is one.
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
