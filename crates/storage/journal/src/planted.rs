//! Bugs that can be planted, to show that the crash harness, and models under shuttle, catch them.
//!
//! Outside of the crate's tests and the feature `crash` nothing can be planted: [`is`] is then a
//! constant `false`, and the compiler removes the code that it guards.

/// A mistake that this journal does not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    any(shuttle, not(any(test, feature = "crash"))),
    expect(unreachable_pub, reason = "public only with the harness that plants them")
)]
pub enum Bug {
    /// Checksums cover their record alone, and a new life continues in the old segment, as in
    /// journals that rely on checksums to find their end.
    Unchained,
    /// Checksums cover neither the record before nor the offset.
    OffsetLeftOut,
    /// A failed sync is taken for a good one.
    FailedSyncIgnored,
    /// Records that were only written are published as synced.
    SyncSkipped,
    /// A new segment's name is not made durable.
    DirectorySyncMissing,
    /// Records that recovery carries over to a new segment are not synced before it replaces the
    /// old one's tail, so that a second crash loses them. (A journal's first segment is synced.)
    RecoveryUnsynced,
    /// The file `END` does not say that a segment was begun, or where the journal was closed.
    EndUnnoted,
    /// A sync publishes all bytes that are written at its end instead of those at its beginning.
    PublishedTooMuch,
    /// The end of a sync wakes no thread to lead the next.
    WakeForgotten,
    /// A thread that has seen the end of a write while spinning for it falls asleep nevertheless.
    EndUnheeded,
}

#[cfg(all(any(test, feature = "crash"), not(shuttle)))]
mod planting {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Returns whether this bug is planted in the calling thread.
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
