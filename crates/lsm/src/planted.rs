//! Bugs that models plant to show that they would be found (`docs/reliability/planted-lsm.md`); nothing
//! outside of them.

pub(crate) use sync::planted::is_planted;
#[cfg(all(test, shuttle))]
pub(crate) use sync::planted::with_planted;

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
}
