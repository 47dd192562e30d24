//! The hot half of a store: the hot log, and the index that leads to its records. A store of one
//! log has no other half.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::address::LogAddress;
use crate::hash_index::HashIndex;
use crate::hybrid_log::HybridLog;
use crate::planted::{Planted, mutant};

/// The hot log and its index.
pub(crate) struct Hot {
    pub(crate) index: HashIndex,
    pub(crate) log: Arc<HybridLog>,
    pub(crate) hash_seed: u64,
    /// How often the log's beginning has moved; counted before it moves.
    truncations: sync::atomic::AtomicU64,
    /// Scrubs of the index that have not ended.
    scrubs: AtomicU64,
}

impl Hot {
    pub(crate) fn new(index: HashIndex, log: Arc<HybridLog>, hash_seed: u64) -> Self {
        let truncations = sync::atomic::AtomicU64::new(0);
        Self { index, log, hash_seed, truncations, scrubs: AtomicU64::new(0) }
    }

    /// Returns how often the log's beginning has moved, or is about to.
    #[inline]
    pub(crate) fn truncations(&self) -> u64 {
        self.truncations.load(Acquire)
    }

    /// Drops the part below `to`. The caller has the index scrubbed, and then calls
    /// [`Hot::end_scrub`].
    pub(crate) fn shift_begin(&self, to: LogAddress) {
        // Counted before it moves: a thread that sees the new beginning sees the new count [O3 of
        // `ops`].
        mutant!(Planted::BegunUncounted, (), self.log.shift_begin(to));
        self.truncations.fetch_add(1, AcqRel);
        self.log.shift_begin(to);
        self.scrubs.fetch_add(1, AcqRel);
    }

    /// Notes that a scrub has ended.
    pub(crate) fn end_scrub(&self) {
        self.scrubs.fetch_sub(1, AcqRel);
    }

    /// Returns whether a scrub has not ended.
    pub(crate) fn is_scrubbing(&self) -> bool {
        self.scrubs.load(Acquire) > 0
    }
}
