//! Bugs that tests plant to show that they would be found (`docs/reliability/planted-lsm.md`).
//! Models and tests plant them; outside of models and tests there are none.

#[cfg(all(test, not(shuttle)))]
pub(crate) use in_tests::{is_planted, must_be_found};
#[cfg(any(not(test), shuttle))]
pub(crate) use sync::planted::is_planted;

/// A way to break a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A commit makes the next state from one that it has read before it locked out all others.
    InstalledOverOthers,
    /// A range delete ends though a memtable has entries that it hides.
    OverInMemory,
    /// A get asks for range deletes in a later state than it searches.
    DeletesOfLater,
    /// A writer that confirms an old value does not count the range deletes that have arrived.
    DeletesUncounted,
    /// A hint is believed that is older than an ingested table.
    OldHintBelieved,
    /// Ingested tables are above memtables that still take writes.
    MemtablesKept,
    /// Tables are ingested one by one.
    IngestedByParts,
    /// A writer writes to the memtable that it was routed to though that was sealed meanwhile.
    SealedEntered,
    /// The lookup index takes every entry, whatever number it has.
    NumbersUncompared,
    /// A memtable enters the range index after it takes writes.
    IndexedLate,
    /// A memtable is in the range index under narrower bounds than those of the keys it may hold.
    IndexedUnderStart,
    /// Memtables are flushed the youngest first.
    YoungestFlushedFirst,
    /// A merge counts memtables that were sealed meanwhile as merged.
    MergedUnread,
    /// Tables are removed before an edit that does not name them is valid.
    TablesRemovedEarly,
    /// The persisted number passes writes that other memtables still have.
    PersistedEarly,
    /// A merged memtable is as young as the youngest that it was merged from.
    MergedFloorRaised,
    /// Writes are persisted though the journal does not have a tombstone that a merge dropped.
    MergedUnreached,
    /// The persisted number passes range deletes that the manifest does not have.
    DeletesUnsettled,
    /// The persisted number is durable before ingested tables are.
    IngestedLate,
    /// A flush drops tombstones as if nothing were below.
    TombstonesDropped,
    /// Tables are named though the journal does not have the writes in them.
    JournalUnasked,
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
