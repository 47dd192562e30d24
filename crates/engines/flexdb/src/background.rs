//! Work in the background.

use engine::{BackgroundErrors, Rounds};
use workers::Group;

use crate::defragment_idle::IdleDefragmentation;
use crate::fragmented_queue::{Bounds, FragmentedQueue};
use crate::reclaim::Reclaim;
use crate::scan_ratio::ScanRatio;

/// The tasks of a store, their errors, and the progress of each job that they do.
pub(crate) struct Background {
    pub(crate) group: Group,
    pub(crate) errors: BackgroundErrors,
    /// The rounds of the collector and of all other periodic work.
    pub(crate) rounds: Rounds,
    /// Commits for the sake of deletes.
    pub(crate) reclaim: Reclaim,
    /// Intervals that scans have found in pieces.
    pub(crate) fragmented_queue: FragmentedQueue,
    /// Whether the data that are written are scanned.
    pub(crate) scan_ratio: ScanRatio,
    /// The progress of writing intervals in pieces as one.
    pub(crate) defragment_idle: IdleDefragmentation,
}

impl Background {
    /// The state of a store of `space_bytes` bytes that was just opened.
    pub(crate) fn new(group: Group, errors: BackgroundErrors, space_bytes: u64) -> Self {
        Self {
            group,
            errors,
            rounds: Rounds::default(),
            reclaim: Reclaim::default(),
            fragmented_queue: FragmentedQueue::default(),
            scan_ratio: ScanRatio::default(),
            defragment_idle: IdleDefragmentation::new(space_bytes),
        }
    }

    /// Notes that a commit has put `updates` updates, whose pairs have `put_bytes` bytes, and has
    /// written `written_bytes` bytes for them.
    pub(crate) fn note_commit(
        &self,
        updates: u64,
        put_bytes: u64,
        written_bytes: u64,
        bounds: Bounds,
    ) {
        self.scan_ratio.note_put(updates);
        self.fragmented_queue.note_committed(written_bytes, bounds);
        self.defragment_idle.note_put(put_bytes);
    }
}
