//! The budget that all clients' buffers share.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes that clients hold, against the most they may.
///
/// Buffers are charged after they grew: input by the piece, a reply of many values by steps while
/// it is made. So the budget is passed by at most one request and one value per thread.
#[derive(Debug)]
pub(crate) struct ClientMemory {
    used: AtomicUsize,
    limit: usize,
}

impl ClientMemory {
    /// A budget of `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: AtomicUsize::new(0), limit }
    }

    /// Changes a charge from `old` to `new` bytes.
    pub(crate) fn recharge(&self, old: &mut usize, new: usize) {
        if new > *old {
            self.used.fetch_add(new - *old, Relaxed);
        } else {
            self.used.fetch_sub(*old - new, Relaxed);
        }
        *old = new;
    }

    /// Whether the budget is used up.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.used() > self.limit
    }

    /// Bytes charged.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// The budget in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }
}
