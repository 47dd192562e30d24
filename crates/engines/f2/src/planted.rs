//! Bugs that models and tests plant to show that they would be found; nothing outside of them.

#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use in_tests::{
    before_link, between_cuts, is_planted, meanwhile_before_link, meanwhile_between_cuts,
    must_be_found,
};
#[cfg(any(loom, shuttle, not(test)))]
pub(crate) use sync::planted::is_planted;
pub(crate) use sync::planted::relaxed_if;

/// A way to break an index, a record in memory, the read cache, or a look-up.
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
    /// What was trimmed is used again at once.
    ReusedEarly,
    /// A splitter copies entries that can still change.
    NoFreeze,
    /// What was not found is believed absent without another look at the level.
    AbsenceUnchecked,
    /// A new bucket's level is published before its entries.
    PublishedEarly,
    /// [P1] is relaxed: who finds a record may not see what it says.
    RelaxedLink,
    /// [P2] is relaxed: who works on a new bucket may not see its entries.
    RelaxedBirth,
    /// [P3] is relaxed: who finds a moved entry freed may believe that its chain is absent.
    RelaxedFree,
    /// [P4] is relaxed: who knows of a level may not know of its buckets.
    RelaxedLevel,
    /// [P5] is relaxed: who could not change an entry may not know why.
    RelaxedFailure,
    /// A reader of a record does not look at its state again.
    NoSecondLookAtState,
    /// The fence behind a record's lock is left out: a reader may see a part of a change.
    NoFenceInLock,
    /// The fence before a reader's second look is left out.
    NoFenceInRead,
    /// A record is unlocked without release: a reader may see the new state and the old value.
    RelaxedUnlock,
    /// A read-modify-write appends what it computes without sealing what it computed it from.
    NoSeal,
    /// A reader of the directory does not look at its level again.
    NoSecondLookAtLevel,
    /// Who changes the directory does not look whether it was doubled.
    NoLookAtLevelToChange,
    /// A word of the directory is changed from whatever it is.
    ChangeWithoutCompare,
    /// W1 of the directory is relaxed: who finds a chunk may not see what it says.
    RelaxedChange,
    /// W2 of the directory is relaxed: who knows of a level may not know of its words.
    RelaxedDoubling,
    /// A copy is cached over whatever the entry says by now, not over what was seen.
    CachedUnseen,
    /// An evicted record's entry is led back although it leads elsewhere by now.
    EvictedBlindly,
    /// A record that gets a second chance takes its entry back from whatever came since.
    KeptBlindly,
    /// A look-up that comes to a chain's end believes it, whatever was truncated meanwhile.
    ChainEndBelieved,
    /// A look-up takes what a chunk names and the cold log has given up for another key's record.
    GoneBelieved,
    /// An evicted page is filled anew although somebody may still read it.
    FreedEarly,
    /// A copy is cached although the entry is not what was noted.
    NotedUncompared,
    /// A copy is cached at an entry without address, whatever was truncated since it was noted.
    TruncatedUnseen,
    /// A record is appended on the old value's word, whatever was linked since.
    NewPartUnsearched,
    /// The same, whatever was linked and has left the log since.
    BeginUnlookedAt,
    /// The log begins further on before that is counted.
    BegunUncounted,
    /// The log begins further on without release: who sees that may not know that it was counted.
    RelaxedBegin,
    /// Truncations are counted when the entry was read already.
    CountedLate,
    /// Entries are freed while somebody may hold what was read from them.
    ScrubbedEarly,
    /// A page's memory is given up while somebody may read it.
    GivenUpEarly,
    /// What is left of a page is no filler.
    EndUnfilled,
    /// What is left of a block where the log is cut is no filler.
    BlockUnfilled,
    /// Who finds a page full turns it, whoever has.
    TurnedTwice,
    /// Changes in place go on while the log is cut.
    CutWithoutHold,
    /// The tail is only looked at where it needs no filler to be cut.
    CutByLooking,
    /// What a cut has is written out although somebody may still change it.
    CutWithoutEpoch,
    /// Files go before the superblock that does not need them is committed.
    RemovedBeforeNamed,
    /// The hot log begins behind records that no chunk names yet.
    BegunBeforeNamed,
    /// Cold-to-cold compaction judges records that hot-to-cold has not named yet.
    UnnamedJudged,
    /// What lies above a cut of the hot log moves before the cold index is cut.
    FrontierPassed,
    /// The cold log is cut before the chunk log.
    CutsSwapped,
    /// A checkpoint waits for sessions that do nothing.
    SessionsAwaited,
    /// Who gives an allocation up leaves a hole.
    GivenUpUnstamped,
    /// A delete of a key without a chain in the hot index leaves no tombstone.
    TombstoneLeftOut,
    /// A read-modify-write that comes to a tombstone goes on to the cold log.
    TombstonePassed,
    /// Who writes works off a compaction that is due.
    CompactedByWriter,
    /// A compaction cannot go on where it meets a record whose chain has no entry in the hot index.
    EntryWanted,
    /// A session begins only while no checkpoint is made and nothing is compacted.
    SessionsAtRest,
    /// A store that was opened says nothing of the checkpoint that it was opened from.
    RecoveredUntold,
}

/// Where the chunk log is cut and the cold log is not, or the other way round: only tests do anything
/// there.
#[cfg(any(loom, shuttle, not(test)))]
#[inline]
pub(crate) const fn between_cuts() {}

/// Where a record is written and not linked yet: only tests do anything there.
#[cfg(any(loom, shuttle, not(test)))]
#[inline]
pub(crate) const fn before_link() {}

/// Without a checker, for schedules that a test makes by itself: on the thread that plants it.
#[cfg(all(test, not(any(loom, shuttle))))]
mod in_tests {
    use std::cell::Cell;

    use super::Planted;

    /// What is done once at some place.
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

    /// Does what is to be done there.
    pub(crate) fn between_cuts() {
        if let Some(work) = BETWEEN_CUTS.take() {
            work();
        }
    }

    /// Has this thread do `work` once, when it has written the next record of a put and not linked it.
    /// The thread is protected, so the work must not wait for memory.
    pub(crate) fn meanwhile_before_link(work: impl FnOnce() + 'static) {
        BEFORE_LINK.set(Some(Box::new(work)));
    }

    /// Does what is to be done there.
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
