//! What more pages in memory would have saved, counted as operations run.
//!
//! No list of what has left is needed: an address says how far below a border it lies. A record that
//! is read from disk and lies less than the *reach* below `HEAD` would have been in memory, had there
//! been that much more; one that is written anew and lies less than that below `READ_ONLY` would have
//! been changed in place.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::CachePadded;

use super::HybridLog;
use crate::address::LogAddress;

/// Stripes, so that threads do not share a cache line.
const STRIPES: usize = 8;

/// The checkers do not see it: it orders nothing.
#[derive(Default)]
pub(super) struct Ghosts {
    reach: AtomicU64,
    reads: AtomicU64,
    appends: [CachePadded<AtomicU64>; STRIPES],
}

/// What was counted since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GhostHits {
    /// Reads of the device.
    pub(crate) reads: u64,
    /// Records that were appended.
    pub(crate) appends: u64,
}

impl HybridLog {
    /// From now on counts what `bytes` more of memory would have saved.
    pub(crate) fn set_ghost_reach(&self, bytes: u64) {
        self.ghosts.reach.store(bytes, Relaxed);
    }

    /// A record was read from disk, in a chain whose newest record is `head`.
    pub(crate) fn note_disk_read(&self, head: LogAddress) {
        let below = self.head().get().wrapping_sub(1).wrapping_sub(head.get());
        if below < self.ghosts.reach.load(Relaxed) && head != LogAddress::NONE {
            self.ghosts.reads.fetch_add(1, Relaxed);
        }
    }

    /// A record is appended in a chain whose newest record is `head`, where what lies below `mutable`
    /// was not changed in place.
    #[inline]
    pub(crate) fn note_append(&self, head: LogAddress, mutable: LogAddress) {
        let below = mutable.get().wrapping_sub(1).wrapping_sub(head.get());
        if below < self.ghosts.reach.load(Relaxed) && head != LogAddress::NONE {
            let stripe = (head.get() >> 6) as usize % STRIPES;
            self.ghosts.appends[stripe].fetch_add(1, Relaxed);
        }
    }

    /// What was counted so far.
    pub(crate) fn ghost_hits(&self) -> GhostHits {
        let appends = self.ghosts.appends.iter().map(|stripe| stripe.load(Relaxed)).sum();
        GhostHits { reads: self.ghosts.reads.load(Relaxed), appends }
    }
}
