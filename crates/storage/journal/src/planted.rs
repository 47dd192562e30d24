//! Bugs that can be planted, so that the crash harness can be shown to catch them, and models under shuttle.
//!
//! Outside of the crate's tests and the feature `crash` nothing can be planted: [`is`] is then a
//! constant `false`, and the compiler removes what it guards.

/// A mistake that this journal does not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(shuttle, not(any(test, feature = "crash"))),
    expect(unreachable_pub, reason = "public only with the harness that plants them")
)]
pub enum Bug {
    /// Checksums cover their record alone, and a new life goes on in the old segment, as journals
    /// do that rely on checksums to find their end.
    Unchained,
    /// Checksums cover neither the record before nor the offset.
    OffsetLeftOut,
    /// A failed sync is taken for a good one.
    FailedSyncIgnored,
    /// What was only written is published as synced.
    SyncSkipped,
    /// A new segment's name is not made durable.
    DirectorySyncMissing,
    /// What recovery carries over to a new segment is not synced before it replaces the old one's
    /// tail, so that a second crash loses it. (A journal's first segment is synced.)
    RecoveryUnsynced,
    /// The file `END` does not say that a segment was begun, or where the journal was closed.
    EndUnnoted,
    /// A sync publishes what is written at its end instead of what was at its beginning.
    PublishedTooMuch,
    /// The end of a sync wakes nobody to lead the next.
    WakeForgotten,
    /// Who looked out for the end of a write, and has seen it, falls asleep all the same.
    EndUnheeded,
}

#[cfg(all(any(test, feature = "crash"), not(shuttle)))]
mod planting {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether this bug is planted in the calling thread.
    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Runs `work` with a bug planted in the calling thread.
    pub(crate) fn with<T>(bug: Option<Bug>, work: impl FnOnce() -> T) -> T {
        let before = PLANTED.replace(bug);
        let result = work();
        PLANTED.set(before);
        result
    }
}

#[cfg(all(any(test, feature = "crash"), not(shuttle)))]
pub(crate) use planting::{is, with};
#[cfg(any(shuttle, not(any(test, feature = "crash"))))]
pub(crate) use sync::planted::is_planted as is;
