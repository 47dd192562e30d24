//! Bugs that models and tests plant to show that they would be found (`docs/reliability/planted-lsm.md`); nothing
//! outside of them.

#[cfg(all(test, not(shuttle)))]
pub(crate) use in_tests::{is_planted, must_be_found};
#[cfg(any(not(test), shuttle))]
pub(crate) use sync::planted::is_planted;

/// A way to break a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A commit makes the next state of one that it has read before it locked out all others.
    InstalledOverOthers,
    /// A range delete ends though a memtable has what it hides.
    OverInMemory,
    /// A get asks for range deletes in a later state than it searches.
    DeletesOfLater,
    /// Whoever confirms an old value does not count the range deletes that have come.
    DeletesUncounted,
    /// A hint is believed that is older than an ingested table.
    OldHintBelieved,
    /// What is ingested lies above memtables that go on being written to.
    MemtablesKept,
    /// Tables are ingested one after the other.
    IngestedByParts,
    /// A writer writes to the memtable that it was routed to though that was sealed meanwhile.
    SealedEntered,
    /// The lookup index takes what comes, whatever number it has.
    NumbersUncompared,
    /// A memtable enters the range index after it takes writes.
    IndexedLate,
    /// A memtable is in the range index under less than the bounds of what it may hold.
    IndexedUnderStart,
    /// Memtables are flushed the youngest first.
    YoungestFlushedFirst,
    /// A merge takes what was sealed meanwhile for merged.
    MergedUnread,
    /// A job of Level 0 leaves out tables older than those it has.
    OldestLeft,
    /// A flush or a compaction keeps of each key the newest version alone.
    SnapshotsForgotten,
    /// A table is not synced before the manifest names it.
    TableUnsynced,
    /// The names of new tables are not made durable before the manifest has them.
    NamesUnsynced,
    /// An edit is not synced before the superblock says that it stands.
    EditUnsynced,
    /// The name of a manifest that is written anew is not made durable.
    ManifestUnnamed,
    /// The old manifest goes before the superblock names the new one.
    ManifestRemovedEarly,
    /// Tables go before an edit stands that does not name them.
    TablesRemovedEarly,
    /// What is persisted passes what other memtables still have.
    PersistedEarly,
    /// A merged memtable is as young as the youngest that it was merged from.
    MergedFloorRaised,
    /// Writes are persisted though the journal does not have a tombstone that a merge dropped.
    MergedUnreached,
    /// What is persisted passes range deletes that the manifest does not have.
    DeletesUnsettled,
    /// How far writes are persisted is durable before what was ingested is.
    IngestedLate,
    /// A flush drops tombstones as if nothing were below.
    TombstonesDropped,
    /// Tables are named though the journal does not have what is in them.
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
