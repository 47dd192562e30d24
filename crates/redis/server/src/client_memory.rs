//! The budget that all clients' buffers share.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Share of the budget that replies leave free.
const HEADROOM_PARTS: usize = 16;

/// Bytes that clients hold, against the most they may.
///
/// Input and small replies are charged after they grew, by the piece; a large reply before each
/// value that is added. So the budget is passed by at most one request and 64 KiB of replies per
/// thread.
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

    /// Returns the most that [`ClientMemory::try_charge`] lets all clients hold: a part of the
    /// budget is left for bytes that are charged after they came.
    pub(crate) fn chargeable(&self) -> usize {
        self.limit - self.limit / HEADROOM_PARTS
    }

    /// Adds `more` bytes to the charge `charged` if the budget has room for them; whether it had.
    pub(crate) fn try_charge(&self, charged: &mut usize, more: usize) -> bool {
        let most = self.chargeable();
        let add = |used: usize| used.checked_add(more).filter(|sum| *sum <= most);
        let has_room = self.used.fetch_update(Relaxed, Relaxed, add).is_ok();
        if has_room {
            *charged += more;
        }
        has_room
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
