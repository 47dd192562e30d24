//! Bugs that models plant to show that they would be found; nothing outside of them.

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
}
