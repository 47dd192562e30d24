//! How far records may move from the hot to the cold log while a checkpoint is being cut.
//!
//! The cold index is cut after the hot log. What lies above the hot log's cut must not be in it: its
//! key would be found in the cold log, with a value that is not in the checkpoint otherwise, or be
//! gone from there. So until both are cut nothing moves but what was on disk before.

use sync::atomic::{AtomicU64, Ordering};

use crate::address::LogAddress;

/// No checkpoint is being cut.
const OPEN: u64 = u64::MAX;

/// What lies at or above must not move now.
pub(crate) struct Frontier(AtomicU64);

/// While it lives a checkpoint is being cut.
pub(crate) struct Held<'a>(&'a Frontier);

impl Default for Frontier {
    fn default() -> Self {
        Self(AtomicU64::new(OPEN))
    }
}

impl Frontier {
    /// Before the hot log, whose tail is at `tail`, is cut, until the cold index is.
    pub(crate) fn hold(&self, tail: LogAddress) -> Held<'_> {
        self.0.store(tail.get(), Ordering::Release);
        Held(self)
    }

    /// Whether what lies below `until` may move, which was on disk before this is called. So where
    /// nothing is held yet, it lies below the cut, and where nothing is held any more, the cold index
    /// was cut before it moves.
    pub(crate) fn allows(&self, until: LogAddress) -> bool {
        until.get() <= self.0.load(Ordering::Acquire)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.store(OPEN, Ordering::Release);
    }
}
