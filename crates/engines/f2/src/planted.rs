//! The mutants that models plant to show that they find them; a normal build has none.
//!
//! Each is in the product as one line, and has a row in `docs/reliability/planted-f2.md`. Ordinary
//! tests find other mutants: the patches in `reliability/mutants/f2`.

pub(crate) use sync::mutant;
pub(crate) use sync::planted::relaxed_if;

/// A way to break an index, a record in memory, the read cache, or a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// An inserter does not look for a twin.
    SinglePhase,
    /// [F1] is left out where an inserter looks for twins and splits.
    NoFenceInInsert,
    /// [F2] is left out: a splitter may miss an inserter that misses the splitter.
    NoFenceInSplit,
    /// An inserter does not look whether a split has begun.
    NoSecondLook,
    /// A splitter does not wait for tentative entries.
    NoWaitForTentative,
    /// An inserter checks the bucket's lock alone: it misses a trim that has ended.
    TrimsUncounted,
    /// [F2] is left out where a bucket is trimmed.
    NoFenceInTrim,
    /// A line that leaves its chain is not locked.
    LeftOpen,
    /// A trimmed line is used again immediately.
    ReusedEarly,
    /// A splitter copies entries that can still change.
    NoFreeze,
    /// An entry that was not found is believed absent without another look at the level.
    AbsenceUnchecked,
    /// A new bucket's level is published before its entries.
    PublishedEarly,
    /// [P1] is relaxed: a thread that finds a record may not see its content.
    RelaxedLink,
    /// [P2] is relaxed: a thread that works on a new bucket may not see its entries.
    RelaxedBirth,
    /// [P3] is relaxed: a thread that finds a moved entry freed may believe that its chain is
    /// absent.
    RelaxedFree,
    /// [P4] is relaxed: a thread that knows of a level may not know of its buckets.
    RelaxedLevel,
    /// [P5] is relaxed: a thread that could not change an entry may not know why.
    RelaxedFailure,
    /// A reader of a record does not look at its state again.
    NoSecondLookAtState,
    /// The fence behind a record's lock is left out: a reader may see a part of a change.
    NoFenceInLock,
    /// The fence before a reader's second look is left out.
    NoFenceInRead,
    /// A record is unlocked without release: a reader may see the new state and the old value.
    RelaxedUnlock,
    /// A read-modify-write appends its new value without sealing the record of the old one.
    NoSeal,
    /// A reader of the directory does not look at its level again.
    NoSecondLookAtLevel,
    /// A thread that changes the directory does not look whether it was doubled.
    NoLookAtLevelToChange,
    /// A word of the directory is changed without comparing its old value.
    ChangeWithoutCompare,
    /// W1 of the directory is relaxed: a thread that finds a chunk may not see its content.
    RelaxedChange,
    /// W2 of the directory is relaxed: a thread that knows of a level may not know of its words.
    RelaxedDoubling,
    /// A copy is cached over the entry's present address, not over the one that was seen.
    CachedUnseen,
    /// An evicted record's entry is led back although it leads elsewhere since.
    EvictedBlindly,
    /// A record that gets a second chance takes its entry back, whatever was linked since.
    KeptBlindly,
    /// An evicted page is filled again although a thread may still read it.
    FreedEarly,
    /// A copy is cached although the entry is not the noted one.
    NotedUncompared,
    /// A copy is cached at an entry without address, whatever was truncated since it was noted.
    TruncatedUnseen,
    /// A record is appended on the old value's word, whatever was linked since.
    NewPartUnsearched,
    /// The same, whatever was linked and has left the log since.
    BeginUnlookedAt,
    /// The log's beginning moves before that is counted.
    BegunUncounted,
    /// The log's beginning moves without release: a thread that reads it may not know that it was
    /// counted.
    RelaxedBegin,
    /// Truncations are counted when the entry was read already.
    CountedLate,
    /// Entries are freed while a thread may hold an address that was read from them.
    ScrubbedEarly,
    /// A page's memory is released while a thread may read it.
    GivenUpEarly,
    /// The rest of a page is no filler.
    EndUnfilled,
    /// The rest of a block where the log is cut is no filler.
    BlockUnfilled,
    /// Credit is granted as if each record were written once.
    CreditForOneAttempt,
    /// A writer reads the sum of the reserved pages before it counts its own.
    PagesCountedLate,
    /// A writer that waits for pages believes that one flush has made room for them.
    RoomBelieved,
    /// A reservation that must not wait waits for room.
    WaitedAnyway,
    /// A close releases the files while a writer flushes.
    ClosedUnderFlush,
    /// A store that is closed refuses no write.
    ClosedUnsaid,
    /// A thread that finds a page full turns it, even if another one has.
    TurnedTwice,
    /// Changes in place continue while the log is cut.
    CutWithoutHold,
    /// The tail is only read, not exchanged, if it needs no filler to be cut.
    CutByLooking,
    /// The part below a cut is written out although a thread may still change it.
    CutWithoutEpoch,
}
