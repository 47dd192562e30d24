//! Bugs that tests plant to show that they would be found, of this crate and of a store above it.
//! They are in `docs/reliability/planted-flex.md`. Outside of tests nothing is planted.

#[cfg(all(any(test, feature = "planted"), not(any(loom, shuttle))))]
pub(crate) use in_tests::is_planted;
#[cfg(all(any(test, feature = "planted"), not(any(loom, shuttle))))]
pub use in_tests::must_be_found;
#[cfg(any(loom, shuttle, not(any(test, feature = "planted"))))]
pub(crate) use sync::planted::is_planted;

/// A way to break a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A segment is free once its last byte was removed, though nothing durable says so.
    FreedEarly,
    /// A segment is written again though a snapshot reaches it.
    ReusedUnderSnapshot,
    /// A frame of the log is written before its data are synced.
    FrameBeforeData,
    /// The name of a new log is not made durable.
    LogUnnamed,
    /// Slots of nodes are free before the superblock is committed that does not need them.
    SlotsFreedEarly,
    /// A failed write or sync stops nothing.
    FailurePassed,
    /// Changes during a collection are not made to its victim map.
    TrailLeftBehind,
    /// A victim map is believed though more was done meanwhile than was noted.
    OutrunBelieved,
    /// A block's checksum does not cover its generation.
    GenerationLeftOut,
    /// A frame of the log is not synced.
    FrameUnsynced,
    /// Nodes are not synced before the superblock names them.
    NodesUnsynced,
    /// The data are not synced before a life begins, so that bytes which an earlier one has failed
    /// to sync are accepted.
    FoundUnsynced,
    /// A snapshot is counted once the state may have changed that it is of.
    PinnedLate,
    /// A sync whose changes another one has taken returns before that has made them durable.
    SyncUnwaited,
    /// A checkpoint cuts the tree once others may have changed it whose records the next log has,
    /// too.
    CutLate,
    /// A thread that closes a space lets changes in until it is closed.
    ClosingUnsaid,
    /// A word of a segment's buffer lacks its bytes while more are put into it.
    WordInSteps,
}

/// On the thread that plants it.
#[cfg(all(any(test, feature = "planted"), not(any(loom, shuttle))))]
mod in_tests {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// `test` fails with the bug planted, and says `how`.
    pub fn must_be_found(bug: Planted, how: &str, test: impl FnOnce()) {
        sync::planted::must_be_found(&PLANTED, bug, how, test);
    }

    /// Returns whether this bug is planted.
    pub(crate) fn is_planted(bug: Planted) -> bool {
        PLANTED.get() == Some(bug)
    }
}
