//! Counts of the I/O that more pages in memory would have saved.
//!
//! No list of evicted records is needed: an address says how far it is below a border. If a record
//! is read from disk and is less than the *reach* below `HEAD`, that much more memory would have
//! had it. If a record is appended again and its old version is less than the reach below
//! `READ_ONLY`, it would have been changed in place.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::CachePadded;

use super::HybridLog;
use crate::address::LogAddress;

/// Stripes, so that threads do not share a cache line.
const STRIPES: usize = 8;

/// The checkers do not see it: it orders nothing.
#[derive(Default)]
pub(super) struct MissReach {
    reach: AtomicU64,
    reads: AtomicU64,
    appends: [CachePadded<AtomicU64>; STRIPES],
}

/// Counts since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReachHits {
    /// Reads of the device.
    pub(crate) reads: u64,
    /// Records that were appended.
    pub(crate) appends: u64,
}

impl HybridLog {
    /// From now on counts the I/O that `bytes` more of memory would have saved.
    pub(crate) fn set_ghost_reach(&self, bytes: u64) {
        self.misses.reach.store(bytes, Relaxed);
    }

    /// A record was read from disk, in a chain whose newest record is `head`.
    pub(crate) fn note_disk_read(&self, head: LogAddress) {
        let below = self.head().get().wrapping_sub(1).wrapping_sub(head.get());
        if below < self.misses.reach.load(Relaxed) && head != LogAddress::NONE {
            self.misses.reads.fetch_add(1, Relaxed);
        }
    }

    /// A record is appended in a chain whose newest record is `head`, at a time when records below
    /// `mutable` were not changed in place.
    #[inline]
    pub(crate) fn note_append(&self, head: LogAddress, mutable: LogAddress) {
        let below = mutable.get().wrapping_sub(1).wrapping_sub(head.get());
        if below < self.misses.reach.load(Relaxed) && head != LogAddress::NONE {
            let stripe = (head.get() >> 6) as usize % STRIPES;
            self.misses.appends[stripe].fetch_add(1, Relaxed);
        }
    }

    /// The counts so far.
    pub(crate) fn ghost_hits(&self) -> ReachHits {
        let appends = self.misses.appends.iter().map(|stripe| stripe.load(Relaxed)).sum();
        ReachHits { reads: self.misses.reads.load(Relaxed), appends }
    }
}
