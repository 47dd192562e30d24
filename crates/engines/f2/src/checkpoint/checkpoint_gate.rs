//! How far records may move from the hot to the cold log while a checkpoint is being cut.
//!
//! The cold index is cut after the hot log. A record above the hot log's cut must not be in it.
//! Otherwise a lookup would find its key in the cold log with a value that is not in the checkpoint
//! otherwise, or not find it there any more. So until both are cut, only records move that were on
//! disk before.

use sync::atomic::{AtomicU64, Ordering};

use crate::address::LogAddress;

/// No checkpoint is being cut.
const OPEN: u64 = u64::MAX;

/// Records at or above this address must not move now.
pub(crate) struct CheckpointGate(AtomicU64);

/// While it lives a checkpoint is being cut.
pub(crate) struct Held<'a>(&'a CheckpointGate);

impl Default for CheckpointGate {
    fn default() -> Self {
        Self(AtomicU64::new(OPEN))
    }
}

impl CheckpointGate {
    /// Before the hot log, whose tail is at `tail`, is cut, until the cold index is.
    pub(crate) fn hold(&self, tail: LogAddress) -> Held<'_> {
        self.0.store(tail.get(), Ordering::Release);
        Held(self)
    }

    /// Returns whether the part below `until` may move, which was on disk before this is called. If
    /// nothing is held yet, that part is below the cut. If nothing is held any more, the cold index
    /// was cut before the part moves.
    pub(crate) fn allows(&self, until: LogAddress) -> bool {
        until.get() <= self.0.load(Ordering::Acquire)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.0.store(OPEN, Ordering::Release);
    }
}
