//! The figures of a store.

use std::sync::atomic::AtomicU64;

use flexspace::space::{self, FlexSpace};
use sync::Mutex;

/// The figures that a store reports: counts of its work, and those of its space.
pub(crate) struct Figures {
    pub(crate) counts: Counts,
    /// The last known figures of the space.
    space: Mutex<space::Stats>,
}

/// Counts of the work done since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) commits: AtomicU64,
    /// Memtables that they have put.
    pub(crate) committed_memtables: AtomicU64,
    pub(crate) committed_pairs: AtomicU64,
    /// Bytes that the committed memtables took.
    pub(crate) committed_bytes: AtomicU64,
    /// Versions that no commit wrote, as younger memtables had newer ones.
    pub(crate) replaced: AtomicU64,
    /// Intervals that were appended to without being read.
    pub(crate) blind: AtomicU64,
    /// Bytes that were appended to intervals, and bytes with which intervals were rewritten.
    pub(crate) appended_bytes: AtomicU64,
    pub(crate) rewritten_bytes: AtomicU64,
    /// Intervals of which single pairs were replaced.
    pub(crate) in_place: AtomicU64,
    /// Intervals that were rewritten.
    pub(crate) rewritten: AtomicU64,
    /// Those of them that scans had found in pieces, and their bytes.
    pub(crate) rewritten_for_scans: AtomicU64,
    pub(crate) written_for_scans: AtomicU64,
    /// Intervals that were rewritten while the store was idle, and their bytes.
    pub(crate) defragmented: AtomicU64,
    pub(crate) defragmented_bytes: AtomicU64,
    /// Intervals that became one with the one before them.
    pub(crate) joined: AtomicU64,
    /// Intervals that became one with the one before them, as the index took too much.
    pub(crate) coarsened: AtomicU64,
    /// Updates of intervals that are damaged, as often as one was planned.
    pub(crate) damaged: AtomicU64,
    pub(crate) collected_segments: AtomicU64,
    /// Bytes that the collector has moved for it.
    pub(crate) collected_bytes: AtomicU64,
    /// Changes of an interval that found no room in their middle.
    pub(crate) broken_off: AtomicU64,
    /// How often a commit had the collector run.
    pub(crate) room_made: AtomicU64,
    /// Deleted pairs that were taken out before a commit that had no room.
    pub(crate) relieved_pairs: AtomicU64,
    /// Keys that were read for the index when the store was opened.
    pub(crate) opening_keys: u64,
}

impl Figures {
    pub(crate) fn new(counts: Counts, space: space::Stats) -> Self {
        Self { counts, space: Mutex::new(space) }
    }

    /// Returns the figures of the space. Waits for no reader or writer.
    pub(crate) fn of_space(&self, space: &FlexSpace) -> space::Stats {
        // If the space is busy, the figures are the last known ones.
        let now = space.try_stats();
        let mut known = self.space.lock();
        *known = now.unwrap_or(*known);
        *known
    }

    /// Bytes of a segment of the space.
    pub(crate) fn segment_bytes(&self) -> u64 {
        u64::from(self.space.lock().extent_bytes_max) * 32
    }
}
