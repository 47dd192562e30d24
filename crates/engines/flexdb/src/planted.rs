//! Bugs that tests plant to show that they would be found; nothing outside of tests.
//!
//! `docs/reliability/planted-flex.md` lists them.

#[cfg(all(test, not(shuttle)))]
pub(crate) use in_tests::{is_planted, must_be_found};
#[cfg(any(not(test), shuttle))]
pub(crate) use sync::planted::is_planted;

/// A way to break a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A version is left out though the journal does not have the version that replaces it.
    LeftOutUnreached,
    /// The number of persisted writes is durable before the writes are.
    PersistedEarly,
    /// A commit keeps no base for a pin that is between its writes.
    PinPassed,
    /// A change that was broken off is not noted in the index.
    BrokenOffUnnoted,
    /// Deletes that free room take pairs from pins that see them.
    RelievedUnpinned,
    /// Keys below an interval's first pair are appended behind it.
    FrontBehind,
    /// Tags within an interval stay when it is appended to.
    InnerTagsLeft,
    /// A tombstone is cached without the pair that it hides.
    TombstoneAlone,
    /// An update is believed to be of a key that it is only like.
    AlikeBelieved,
    /// A writer is refused because of a commit that failed before it came.
    OldFailureReported,
    /// Writers may fill all room that is left immediately when a commit begins.
    Unpaced,
    /// If the index takes too much, the present intervals stay unchanged.
    NeighboursLeft,
    /// Committed writes are reported as durable before the space is synced.
    CommitUnsynced,
    /// The stored index gets its name before it is synced.
    IndexUnsynced,
    /// A pair that is kept stays when a commit replaces it.
    PairLeft,
    /// The cached block of an interval stays when the interval is appended to.
    BlockLeft,
    /// The stored index is believed though the space has changed since.
    StoredBelieved,
    /// A scan that continues sees writes made since it began.
    TwoMoments,
    /// The block that was read of an interval is written as one though the interval was changed
    /// since.
    StaleWritten,
    /// A writer writes to a memtable that was sealed meanwhile.
    SealedEntered,
    /// A commit takes a memtable to which a writer may still be writing.
    CommittedUnsealed,
    /// Memtables that were committed leave the state before the base comes that has them.
    TakenOutFirst,
    /// A commit, or a thread that renews the base of readers, forgets the bases of pins.
    PinsForgotten,
    /// A new memtable's floor passes writes that have begun and are in no memtable yet.
    FloorPassesOpen,
    /// A commit in the background counts as queued until it has checked whether there is another
    /// one to do.
    QueuedTillLate,
    /// The thread that closes a store takes the state away though another thread is making the next
    /// one.
    ClosedUninstalled,
    /// The thread that replaces a state leaves it to gets that hold it to free the parts that only
    /// it had.
    LeftToReaders,
    /// The change that was planned first is made first.
    OutOfTurn,
}

/// On the thread that plants it.
#[cfg(all(test, not(shuttle)))]
mod in_tests {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// `test` fails with the bug planted, and says `how`.
    pub(crate) fn must_be_found(bug: Planted, how: &str, test: impl FnOnce()) {
        sync::planted::must_be_found(&PLANTED, bug, how, test);
    }

    /// Whether this bug is planted.
    pub(crate) fn is_planted(bug: Planted) -> bool {
        PLANTED.get() == Some(bug)
    }
}
