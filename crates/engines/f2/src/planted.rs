//! Bugs that models and tests plant to show that they would be found; nothing outside of them.

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use in_tests::{
    before_link, between_cuts, is_planted, meanwhile_before_link, meanwhile_between_cuts,
    must_be_found,
};
#[cfg(any(loom, shuttle, not(test)))]
pub(crate) use sync::planted::is_planted;
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
    /// An inserter does not look whether the bucket was trimmed.
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
    /// A lookup that reaches a chain's end believes it, whatever was truncated meanwhile.
    ChainEndBelieved,
    /// A lookup takes an address that a chunk names, and that the cold log has dropped, for another
    /// key's record.
    GoneBelieved,
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
    /// Reserved pages are counted after the log was found to have room.
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
    /// Files are removed before the superblock that does not need them is committed.
    RemovedBeforeNamed,
    /// The hot log begins behind records that no chunk names yet.
    BegunBeforeNamed,
    /// Cold-to-cold compaction checks the liveness of records that hot-to-cold has not named yet.
    LivenessOfUnnamed,
    /// Records above a cut of the hot log move before the cold index is cut.
    GatePassed,
    /// The cold log is cut before the chunk log.
    CutsSwapped,
    /// A thread that abandons an allocation leaves a hole.
    GivenUpUnstamped,
    /// A delete of a key without a chain in the hot index leaves no tombstone.
    TombstoneLeftOut,
    /// A read-modify-write that reaches a tombstone continues to the cold log.
    TombstonePassed,
    /// A writer does a compaction that is due.
    CompactedByWriter,
    /// A compaction cannot continue if it meets a record whose chain has no entry in the hot index.
    EntryWanted,
    /// A store that was opened does not report the checkpoint that it was opened from.
    RecoveredUntold,
}

/// Called when the chunk log is cut and the cold log is not, or the other way round: only tests do
/// anything there.
#[cfg(any(loom, shuttle, not(test)))]
#[inline]
pub(crate) const fn between_cuts() {}

/// Called when a record is written and not linked yet: only tests do anything there.
#[cfg(any(loom, shuttle, not(test)))]
#[inline]
pub(crate) const fn before_link() {}

/// Without a checker, for schedules that a test makes by itself: on the thread that plants it.
#[cfg(all(test, not(any(loom, shuttle))))]
mod in_tests {
    use std::cell::Cell;

    use super::Planted;

    /// Work that is done once at some place.
    type Work = Option<Box<dyn FnOnce()>>;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
        static BETWEEN_CUTS: Cell<Work> = const { Cell::new(None) };
        static BEFORE_LINK: Cell<Work> = const { Cell::new(None) };
    }

    /// Has this thread do `work` once, between two cuts of a checkpoint.
    pub(crate) fn meanwhile_between_cuts(work: impl FnOnce() + 'static) {
        BETWEEN_CUTS.set(Some(Box::new(work)));
    }

    /// Does the work that is set for this place.
    pub(crate) fn between_cuts() {
        if let Some(work) = BETWEEN_CUTS.take() {
            work();
        }
    }

    /// Has this thread do `work` once, when it has written the next record of a put and not linked
    /// it. The thread is protected, so the work must not wait for memory.
    pub(crate) fn meanwhile_before_link(work: impl FnOnce() + 'static) {
        BEFORE_LINK.set(Some(Box::new(work)));
    }

    /// Does the work that is set for this place.
    pub(crate) fn before_link() {
        if let Some(work) = BEFORE_LINK.take() {
            work();
        }
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
