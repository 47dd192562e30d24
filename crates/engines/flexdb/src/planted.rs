//! Mutants of a store that models find, one line of the product each.
//! They are in `docs/reliability/planted-flex.md`. Outside of models nothing is planted.

/// A way to break a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A commit takes a memtable to which a writer may still be writing.
    CommittedUnsealed,
    /// Memtables that were committed leave the state before the base comes that has them.
    TakenOutFirst,
    /// A new memtable's floor passes writes that have begun and are in no memtable yet.
    FloorPassesOpen,
    /// The thread that closes a store takes the state away though another thread is making the next
    /// one.
    ClosedUninstalled,
    /// The thread that replaces a state leaves it to gets that hold it to free the parts that only
    /// it had.
    LeftToReaders,
    /// The change that was planned first is made first.
    OutOfTurn,
}
