//! Commits: the writes of memtables go to the space, in place (Flex 5.3).
//!
//! 1. The commit takes all memtables that wait (C6). It leaves out versions that younger memtables
//!    replace (memtable, M6). The journal reaches the newest write of the memtables (law L3), and
//!    the newest write that replaces one of theirs.
//! 2. Several threads (`commit/plan_parallel.rs`) plan the changes of the intervals of these keys
//!    (`commit/plan.rs`). One thread makes the changes in the order of the keys, in the space and
//!    in the index (`commit/changing.rs`). Meanwhile readers look into the previous base, which
//!    does not change.
//! 3. The store's header records how far the writes are now in the space.
//! 4. The space is synced. The cache of pairs forgets the keys. The next state has the present
//!    base, and no longer has the memtables.
//!
//! # Invariants
//! - C1. Steps 2 and 3 are in one hold of the space's writers' lock, so a crash leaves all of their
//!   changes or none. But if the collector has to make room in between, or something fails, a crash
//!   can leave some of the writes; the journal has all of them.
//! - C2. If a pin is between the writes of the memtables, the writes up to it are put in first, and
//!   a base of that moment is kept for it (state, S2). No later pin can be between them: all these
//!   writes already have their numbers.
//! - C3. A memtable is committed after all older ones.
//! - C4. With a journal, memtables wait while there are no more than [`KEPT`] of them and no writer
//!   needs room, so that more of them are committed as one.
//! - C5. A change is of one whole interval, at the offset and with the length for which it was
//!   planned. Any other change is refused before it touches a byte, and then the store is
//!   read-only.
//! - C6. Memtables that wait are committed as one, with the newest version of each key, so that an
//!   interval is changed once for the updates of all of them. A commit that did not finish is done
//!   again with the same memtables: the base that an earlier try has kept for a pin has no writes
//!   of younger ones.
//!
//! If there is no room, the commit stops, and continues from that point after the collector has
//! run; it does not put again the updates that are already in the space. If the collector emptied
//! nothing, the keys that memtables delete are taken out first (`commit/reclaim_deletes.rs`). If
//! that does not help, if step 1 fails, or if something cannot be read in step 2, the memtables
//! stay, and a later commit continues or repeats all of it. Updates that are already in the space
//! do no harm, because readers look into the memtable first. Meanwhile no more writes are admitted
//! than memtables have room for (`admission.rs`). So a snapshot that holds too much room stops
//! writes only while it is held. Each other failure turns the store read-only (law L5).

mod changing;
mod coarsen_index;
mod compacting;
mod defragment_idle;
mod defragment_scanned;
mod merging;
mod plan;
mod plan_parallel;
mod reclaim_deletes;
mod rewrite_run;
mod take_updates;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

use codec::SeqNo;
use engine::{Error, Result};
use flexspace::space::{self, Together};
use sync::mutant;
use workers::Class;

use crate::background_errors::COMMIT;
use crate::error::from_space;
#[cfg(test)]
use crate::index;
use crate::index::{Index, Key};
use crate::memtable::{Batch, Memtable};
use crate::pair::StoreHeader;
use crate::planted::Planted;
use crate::state::{self, Base, Pinned, State};
use crate::store::Shared;
use changing::Changing;
#[cfg(all(test, not(shuttle)))]
pub(crate) use plan::TAIL_MAX;
use reclaim_deletes::is_for_want_of_room;
use take_updates::take_updates;

/// Bytes of memtables from which on a commit asks the allocator to return freed memory to the
/// system.
const TRIM_BYTES_MIN: u64 = 256 << 10;
/// Memtables that wait for one more although they could be committed, next to the one that is
/// written to. More memtables in one commit mean more updates of each interval, and only the newest
/// version of a key that is written again.
const KEPT: usize = crate::memory_split::MEMTABLES as usize - 2;
/// Eighths of the memtables' share above which none waits.
const FULL_EIGHTHS: u64 = 7;
/// Runs of the collector that emptied nothing after which there is no room: the first may have
/// found segments that readers had released.
const IN_VAIN_MAX: u32 = 2;

/// The state that a commit changes, and the progress of a commit that was broken off.
#[derive(Debug)]
pub(crate) struct Committer {
    index: Index,
    /// Bases of pins, of a commit that is not done.
    kept: BTreeMap<SeqNo, Arc<Base>>,
    /// Whether it was refused for lack of room.
    is_short_of_room: bool,
    /// The youngest memtable of one that has begun and is not done (C6).
    youngest: Option<u64>,
    /// The point from which that commit continues.
    stopped: Option<Place>,
    /// The place of the commit when deletes freed room, and the newest write of all memtables at
    /// that time.
    relieved: Option<(Option<Place>, SeqNo)>,
    /// Whether the space and the index are being changed, so that they may not agree; for ever
    /// after a panic in the middle of it.
    is_amid: bool,
}

/// How far a commit has got.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The memtables, from the oldest to the youngest.
    ids: (u64, u64),
    /// The writes of the memtables above the first number, up to the second, are in the space if
    /// their keys are below this key; `None` is above all keys.
    range: (SeqNo, SeqNo),
    key: Option<Key>,
}

impl Committer {
    pub(crate) fn new(index: Index) -> Self {
        let (kept, is_short_of_room, is_amid) = (BTreeMap::new(), false, false);
        let (youngest, stopped, relieved) = (None, None, None);
        Self { index, kept, is_short_of_room, youngest, stopped, relieved, is_amid }
    }

    /// Returns the key from which writes of memtables between two numbers continue or begin; none
    /// if all are in the space.
    fn place_of(&self, ids: (u64, u64), range: (SeqNo, SeqNo)) -> Option<Key> {
        let is_there = |place: &&Place| (place.ids, place.range) == (ids, range);
        match self.stopped.as_ref().filter(is_there) {
            Some(place) => place.key.clone(),
            None => Some(Key::default()),
        }
    }

    /// Whether a commit that is not done keeps a base for this pin.
    fn keeps(&self, pin: SeqNo) -> bool {
        self.kept.contains_key(&pin)
    }

    /// Whether a change of the space and the index has begun and not ended.
    pub(crate) fn is_amid(&self) -> bool {
        self.is_amid
    }

    /// Drops all state of a store that is closed.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(Index::default());
    }

    /// The index is sound; for tests.
    #[cfg(test)]
    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        index::check(&self.index)
    }

    /// The same, to be broken by tests.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn index_mut(&mut self) -> &mut Index {
        &mut self.index
    }

    /// Returns the index in its present state.
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }
}

impl Shared {
    /// Returns whether a memtable that waits is to be committed (C4), if memtables may take no more
    /// than `bytes_max`.
    fn is_commit_due(&self, bytes_max: u64) -> bool {
        let state = self.state.load();
        let waiting = state.as_ref().map_or(0, |state| state.sealed.len());
        let kept = if self.host.barrier.is_journaled() { KEPT } else { 0 };
        let full = self.memory_split().memtables_bytes / 8 * FULL_EIGHTHS;
        waiting > kept || waiting > 0 && self.writes.memory_bytes() > full.min(bytes_max)
    }

    /// Schedules a commit of memtables that wait if one is due, and returns whether it is. If it
    /// returns false, there was room when it checked: memtables took no more than `bytes_max`, or
    /// none waited.
    pub(crate) fn schedule_commit(self: &Arc<Self>, bytes_max: u64) -> bool {
        if !self.is_commit_due(bytes_max) {
            return false;
        }
        if self.writes.is_commit_queued.swap(true, SeqCst) {
            return true;
        }
        let shared = Arc::downgrade(self);
        let task = move |_stop: &workers::StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            let number = shared.writes.commits.begin();
            let committed = shared.commit_oldest(u64::MAX);
            // Until here a thread that sealed a memtable found this task and queued none: its task
            // would wait for this one, on a thread of the pool on which others plan.
            shared.writes.is_commit_queued.store(false, SeqCst);
            shared.writes.commits.end(number, &committed.clone().map(drop));
            match committed {
                Ok(_) => _ = shared.schedule_commit(u64::MAX),
                Err(failure) => {
                    shared.background.errors.fail(COMMIT, &failure, &shared.host.environment);
                }
            }
        };
        // A pool that is stopping runs nothing more, and no thread waits for it.
        if self.background.group.submit(Class::Flush, "flexdb commit", task).is_err() {
            self.writes.is_commit_queued.store(false, SeqCst);
        }
        true
    }

    /// Makes all writes durable that were applied before the call.
    pub(crate) fn flush(self: &Arc<Self>) -> Result<()> {
        self.health.check_writable()?;
        let active = Arc::clone(&self.open_state()?.active);
        // An empty memtable holds nothing, but its floor may be old: nothing was written since.
        if !active.lift_if_empty(|| self.host.sequence.visible()) {
            self.seal(&active);
        }
        while self.commit_oldest(active.id())? {}
        // One that was made for the flush has the number of the store's newest write as its floor,
        // and other stores may have written since: the journal of all would be kept for that.
        self.open_state()?.active.lift_if_empty(|| self.host.sequence.visible());
        let mut committer = self.committer.lock();
        self.health.check_writable()?;
        let floor = self.open_state()?.floor_without(None);
        if floor <= self.writes.persisted() {
            // The opening may have found it in the page cache alone.
            return self.noted(self.space.begin());
        }
        let persisted = self.host.barrier.reach(floor)?.min(floor).max(self.writes.persisted());
        self.with_room(&mut committer, |space, _| self.put_header(space, persisted))?;
        self.make_durable(persisted)
    }

    /// Commits the oldest memtables that wait, if the oldest one's id is at most `upto`. Returns
    /// whether there may be others.
    pub(crate) fn commit_oldest(self: &Arc<Self>, upto: u64) -> Result<bool> {
        let mut committer = self.committer.lock();
        self.health.check_writable()?;
        let state = self.open_state()?;
        let Some(batch) = self.next_batch(&mut committer, &state, upto) else { return Ok(false) };
        // The steps begin before the wait for the device: memory that is filled meanwhile is no
        // longer room.
        let share = self.memory_split().memtables_bytes;
        let stepping = self.writes.begin_steps(&batch, share, &self.background.group);
        // Returns the memory that the cache borrowed while there were fewer writes.
        self.cache.shrink(self.cache_share());
        let newest = batch.newest();
        let pins = self.pins_below(newest);
        let floor = state.floor_without(Some(&batch));
        let reached = self.host.barrier.reach(newest.max(floor).max(batch.replaced_by()))?;
        // Below the newest write nothing is missing in the journal: numbers above the journal's are
        // of writes that were refused, or are not journaled.
        let persisted = floor.min(reached.max(newest)).max(self.writes.persisted());
        let is_cut = |pin: &SeqNo| !state.pinned.contains_key(pin);
        let cuts = pins.into_iter().filter(is_cut).collect();
        // Its base holds segments.
        drop(state);
        let work = Work { batch: &batch, cuts, persisted };
        let put =
            |space: &mut Together<'_>, committer: &mut Committer| self.put(space, committer, &work);
        match self.with_room(&mut committer, put) {
            Err(error)
                if is_for_want_of_room(&error) && self.reclaim_for_deletes(&mut committer)? =>
            {
                return Ok(true);
            }
            done => done?,
        }
        self.writes.steps.note_all_put(&self.background.group);
        committer.is_short_of_room = false;
        (committer.youngest, committer.stopped) = (None, None);
        self.make_durable(persisted)?;
        self.publish(&mut committer, &batch)?;
        self.background.errors.succeed(COMMIT);
        let bytes = batch.bytes();
        let counts = &self.figures.counts;
        counts.commits.fetch_add(1, Relaxed);
        counts.committed_memtables.fetch_add(batch.memtables().len() as u64, Relaxed);
        counts.committed_bytes.fetch_add(bytes, Relaxed);
        // The memtables' memory returns to the system, and writers that wait continue.
        drop(batch);
        drop(stepping);
        self.hold_index(&mut committer)?;
        drop(committer);
        self.schedule_rewriting();
        if bytes >= TRIM_BYTES_MIN {
            // The data that were read and planned for them were between other pieces, which stay.
            arena::trim_heaps();
        }
        Ok(true)
    }

    /// Returns the snapshots below `newest`. Waits for a snapshot that is being taken: it waits for
    /// writes that have numbers, and these wait for nothing (law L8).
    fn pins_below(&self, newest: SeqNo) -> Vec<SeqNo> {
        loop {
            if let Some(pins) = self.host.sequence.pins_below(newest) {
                return pins;
            }
            sync::thread::yield_now();
        }
    }

    /// Returns the memtables that are committed next (C6), sealed, with the versions marked that
    /// younger ones replace.
    fn next_batch(&self, committer: &mut Committer, state: &State, upto: u64) -> Option<Batch> {
        let oldest = state.sealed.last().filter(|it| it.id() <= upto)?;
        // The memtables with which the commit began may not be all that wait now.
        let upto = committer.youngest.unwrap_or(upto).max(oldest.id());
        let waits = state.sealed.iter().filter(|it| it.id() <= upto);
        let batch: Vec<Arc<Memtable>> = waits.cloned().collect();
        let youngest = batch.first()?.id();
        // The thread that replaced the newest one may not have sealed it yet, and a writer may be
        // writing.
        batch.iter().for_each(|it| mutant!(Planted::CommittedUnsealed, it.seal(), ()));
        if self.host.barrier.is_journaled() {
            batch.iter().for_each(|memtable| self.mark_replaced(state, memtable, youngest));
        }
        committer.youngest = Some(youngest);
        Some(Batch::of(batch))
    }

    /// Step 1: marks the versions of a memtable that memtables younger than all of the commit's
    /// replace.
    fn mark_replaced(&self, state: &State, memtable: &Memtable, youngest: u64) {
        let is_seen = |older, newer| self.host.sequence.is_seen(older, newer);
        let younger = state.memtables().filter(|it| it.id() > youngest);
        let count: u64 = younger.map(|it| memtable.mark_replaced(it, &is_seen)).sum();
        self.figures.counts.replaced.fetch_add(count, Relaxed);
    }

    /// Returns the space's result, with its error as an engine error. A failure stops all later
    /// writes. A refusal for lack of room does not, and neither does a temporary failure: both
    /// change nothing.
    fn noted<T>(&self, outcome: std::result::Result<T, space::Error>) -> Result<T> {
        outcome.map_err(|error| {
            let is_refused = is_refused(&error) || error.is_retryable();
            let error = from_space(error);
            if !is_refused && error != Error::Closed {
                self.health.fail(&error);
            }
            error
        })
    }

    /// Does `work`, which returns whether there was room for it, in one hold of the space's
    /// writers' lock. Repeats it as long as the collector can make room in between.
    fn with_room(
        &self,
        committer: &mut Committer,
        mut work: impl FnMut(&mut Together<'_>, &mut Committer) -> Result<bool>,
    ) -> Result<()> {
        let mut in_vain = 0;
        while in_vain < IN_VAIN_MAX {
            let is_done = match self.space.together(|space| Ok(work(space, committer))) {
                // It was refused before it began.
                Err(error) if is_refused(&error) => false,
                outcome => self.noted(outcome).flatten()?,
            };
            if is_done {
                return Ok(());
            }
            committer.is_short_of_room = true;
            in_vain = if self.make_room(committer)? { 0 } else { in_vain + 1 };
        }
        Err(from_space(space::Error::Uncollected))
    }

    /// Step 2 and 3; `false` if the collector has to make room first.
    fn put(
        self: &Arc<Self>,
        space: &mut Together<'_>,
        committer: &mut Committer,
        work: &Work<'_>,
    ) -> Result<bool> {
        let held = self.host.sequence.pins();
        let mut changing = Changing::new(self, space, committer);
        let mut above = SeqNo::ZERO;
        let cuts = work.cuts.iter().copied().filter(|pin| held.contains(pin));
        for upto in cuts.chain([SeqNo::MAX]) {
            if changing.committer.kept.contains_key(&upto) {
                // A try before this one has put them in.
                above = upto;
                continue;
            }
            if !changing.put_between(work.batch, above, upto)? {
                return Ok(false);
            }
            if upto < SeqNo::MAX {
                let base = changing.base()?;
                changing.committer.kept.insert(upto, Arc::new(base));
            }
            above = upto;
        }
        self.put_header(changing.space(), work.persisted)
    }

    /// Step 3; `false` if the collector has to make room first.
    fn put_header(&self, space: &mut Together<'_>, persisted: SeqNo) -> Result<bool> {
        let header = StoreHeader { persisted }.encode();
        match space.splice(0, StoreHeader::BYTES as u64, &header, 0) {
            Err(error) if is_refused(&error) => Ok(false),
            written => self.noted(written).map(|()| true),
        }
    }

    /// Runs the collector, and returns whether it has emptied a segment.
    ///
    /// The base of readers holds segments, so readers first get a base of the present state. They
    /// look into the memtable that is being committed first, and pins below the writes put so far
    /// have bases of their own (C2).
    fn make_room(&self, committer: &mut Committer) -> Result<bool> {
        self.renew_base(committer)?;
        self.figures.counts.room_made.fetch_add(1, Relaxed);
        let done = self.noted(self.space.collect())?;
        self.count_collected(&done);
        Ok(done.segments > 0)
    }

    /// Makes readers look into the present state of the space, even in the middle of a commit.
    /// Drops the bases of pins that no longer exist.
    pub(crate) fn renew_base(&self, committer: &mut Committer) -> Result<()> {
        let held = self.host.sequence.pins();
        committer.kept.retain(|pin, _| held.contains(pin));
        let base = Arc::new(self.base_of(&committer.index)?);
        let install = self.state.lock();
        let Some(state) = self.state.load_full() else { return Err(Error::Closed) };
        let pinned = self.pinned_after(&state, &committer.kept, None);
        self.state.replace(state.with_base(base, None, pinned));
        drop(install);
        state::release_state(state, &self.host);
        self.index_memory.count_nodes(&committer.index, &self.space);
        Ok(())
    }

    /// Makes the content of the space durable, which has everything up to `persisted`.
    fn make_durable(&self, persisted: SeqNo) -> Result<()> {
        self.noted(self.space.sync())?;
        self.writes.note_persisted(persisted);
        Ok(())
    }

    /// Step 4.
    fn publish(&self, committer: &mut Committer, committed: &Batch) -> Result<()> {
        let kept = std::mem::take(&mut committer.kept);
        let base = Arc::new(self.base_of(&committer.index)?);
        // From now on readers look in the base for the pairs that they found in the memtable (A1
        // and A2 of `cache`; S3).
        let changing = self.cache.pairs.change();
        if self.options.pairs {
            let memtables = committed.memtables().iter();
            memtables.for_each(|memtable| memtable.each_key(&mut |key| changing.forget(key)));
        }
        let install = self.state.lock();
        let Some(state) = self.state.load_full() else { return Err(Error::Closed) };
        let next = |base| {
            let pinned = self.pinned_after(&state, &kept, Some(committed));
            state.with_base(base, Some(committed), pinned)
        };
        mutant!(Planted::TakenOutFirst, (), self.state.replace(next(Arc::clone(&state.base))));
        let next = next(base);
        let commits = next.commits;
        self.state.replace(next);
        changing.done(commits);
        drop(install);
        state::release_state(state, &self.host);
        self.index_memory.count_nodes(&committer.index, &self.space);
        self.cache.shrink(self.cache_share());
        Ok(())
    }

    /// Returns the state of earlier commits that pins read from now on.
    fn pinned_after(
        &self,
        state: &State,
        kept: &BTreeMap<SeqNo, Arc<Base>>,
        committed: Option<&Batch>,
    ) -> BTreeMap<SeqNo, Pinned> {
        let held = self.host.sequence.pins();
        let mut pinned = state.pinned.clone();
        pinned.retain(|seqno, _| held.contains(seqno));
        for (seqno, left) in &mut pinned {
            // A writer that was slow has put a write to a younger memtable than later ones.
            let committed = committed.map_or(&[][..], Batch::memtables).iter();
            let slow = committed.filter(|committed| committed.oldest() <= *seqno);
            left.memtables.splice(0..0, slow.cloned());
        }
        for (seqno, base) in kept {
            pinned.insert(*seqno, Pinned { base: Arc::clone(base), memtables: Vec::new() });
        }
        pinned
    }

    fn base_of(&self, index: &Index) -> Result<Base> {
        let space = self.space.snapshot().map_err(from_space)?;
        Ok(Base { space, index: index.now().clone() })
    }
}

/// The work of one commit.
struct Work<'a> {
    batch: &'a Batch,
    /// The pins between their writes, the oldest first.
    cuts: Vec<SeqNo>,
    persisted: SeqNo,
}

/// Whether a change was refused for lack of room: nothing was done.
fn is_refused(error: &space::Error) -> bool {
    matches!(error, space::Error::NoSpace { .. } | space::Error::Uncollected)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
#[cfg(all(test, not(shuttle)))]
pub(crate) use tests::change_to_nothing_sound;
