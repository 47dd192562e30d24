//! Mutants that only models find (`docs/reliability/planted-lsm.md`).
//!
//! Each of them is a line `mutant!` of the engine. The mutants that ordinary tests find are patches
//! in `reliability/mutants/lsm`.

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
}
