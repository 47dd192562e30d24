//! Group commit: one writer and one syncer for all threads that wait.
//!
//! To wait until record `n` is flushed:
//! 1. If it is, return. If the journal has stopped, return the reason.
//! 2. If no thread has the writer's role, take it, and with it the whole active group; write that
//!    without the lock; publish; release the role and wake the threads that wait for it. Else wait:
//!    the first waiter spins for a moment until the end, since a write into the kernel's memory
//!    takes less time than falling asleep and being woken.
//! 3. Begin again.
//!
//! To wait until it is synced:
//! 1. As above.
//! 2. If no thread has the syncer's role, take it. Write the active group (taking the writer's role
//!    for that long), so that the sync covers all appends until now. Sync all bytes that were
//!    written until then; publish; release the role and wake. Else wait.
//! 3. Begin again.
//!
//! A group that begins a segment is written by a holder of both roles, see `rotate.rs`.
//!
//! # Invariants
//! - A sync publishes only records that were written before the sync began.
//! - A role is released whatever the device returns, and all threads that could take it are woken.
//! - After the first failure no group is written and no sync is begun.
//! - A group for which there is no room, or no descriptor for its segment, is no such failure: it
//!   is kept unchanged and written before any other ([`State::unwritten`]). The caller that tried
//!   gets the error, and so does each caller that tries again.

use codec::SeqNo;
use device::SyncKind;
use sync::atomic::Ordering::Relaxed;
use sync::thread::spin_loop;
use sync::{Condvar, MutexGuard};

use crate::end::{self, End};
use crate::error::{Error, Result};
use crate::journal::{Journal, State};
use crate::options::Durability;
use crate::planted::Planted;
use crate::rotate::Taken;
use crate::segment::Kind;

/// How often to look whether a write has ended, before falling asleep: some six microseconds. To
/// fall asleep and to be woken takes several times as long.
const LOOKS: usize = if cfg!(shuttle) { 2 } else { 512 };

impl Journal {
    /// Blocks until every record up to `upto` that was appended before the call is at least as safe
    /// as `durability` says. `Buffered` never blocks, `Flushed` costs at most one write for all
    /// that wait, `Synced` one write and one sync.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::NoRoom`] or [`Error::Closed`], unless the records were that
    /// safe already.
    pub fn wait(&self, upto: SeqNo, durability: Durability) -> Result<()> {
        let mut state = self.state.lock();
        let upto = upto.min(state.last);
        match durability {
            Durability::Buffered if upto <= state.flushed => Ok(()),
            Durability::Buffered => state.check(),
            Durability::Flushed => self.flush_upto(&mut state, upto),
            Durability::Synced => self.sync_upto(&mut state, upto),
        }
    }

    /// Refuses further appends, writes and syncs everything, and marks the journal's end. Costs
    /// three writes and three syncs.
    ///
    /// # Errors
    /// [`Error::Stopped`] if the journal had stopped or stops now; [`Error::Closed`] the second
    /// time.
    pub fn close(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.check_open()?;
        state.closing = true;
        self.wait_for_both_roles(&mut state)?;
        state.syncing = true;
        // The close says that everything before it is synced, the last seal too.
        let left = self.write_unwritten(&mut state);
        let result = left.and_then(|()| {
            [Kind::LastSeal, Kind::Close].into_iter().try_for_each(|end| {
                self.write_active(&mut state, end)?;
                self.sync_written(&mut state)
            })
        });
        let result = result.and_then(|()| self.note_end(&mut state));
        // However it ended, nothing is written any more: another process may open the journal as
        // soon as the caller unlocks its directory. Set before other threads are woken, which would
        // continue to write.
        state.stopped.get_or_insert(result.clone().err().unwrap_or(Error::Closed));
        self.return_sync_role(&mut state);
        result
    }

    /// Notes how far the journal reaches, once everything is synced.
    fn note_end(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        let end = End { journal: state.id, index: state.existing, last: state.last_record };
        let noted = MutexGuard::unlocked(state, || end::note(&*self.store, &end));
        noted.map_err(|cause| state.stop(cause))
    }

    fn flush_upto(&self, state: &mut MutexGuard<'_, State>, upto: SeqNo) -> Result<()> {
        while state.flushed < upto {
            state.check()?;
            if state.may_write() {
                self.write_group(state)?;
            } else {
                self.wait_for_writer(state);
            }
        }
        Ok(())
    }

    /// Waits until the writer's role may be free. One thread at a time spins for it before falling
    /// asleep.
    fn wait_for_writer(&self, state: &mut MutexGuard<'_, State>) {
        if state.writing && !state.looking {
            let before = self.writes.load(Relaxed);
            let ended = || self.writes.load(Relaxed) != before;
            state.looking = true;
            MutexGuard::unlocked(state, || {
                (0..LOOKS).any(|_| {
                    spin_loop();
                    ended()
                })
            });
            state.looking = false;
            // The number only changes under the lock: if it has not changed, the same write is
            // still under way.
            if sync::mutant!(Planted::EndUnheeded, ended(), false) {
                return;
            }
        }
        self.written.wait(state);
    }

    pub(crate) fn sync_upto(&self, state: &mut MutexGuard<'_, State>, upto: SeqNo) -> Result<()> {
        let result = self.sync_upto_by_turns(state, upto);
        // A thread that was woken to lead the next sync, and had no need to, wakes another.
        if !state.syncing {
            self.wake_leader(state.sync_turn);
        }
        result
    }

    fn sync_upto_by_turns(&self, state: &mut MutexGuard<'_, State>, upto: SeqNo) -> Result<()> {
        while state.synced < upto {
            state.check()?;
            if state.syncing {
                let covered = state.sync_covers.is_none_or(|last| upto <= last);
                let turn = state.sync_turn + u64::from(!covered);
                self.synced_in(turn).wait(state);
                continue;
            }
            state.syncing = true;
            let result = self.write_and_sync(state);
            self.return_sync_role(state);
            result?;
        }
        Ok(())
    }

    /// Writes the active group, then syncs; by the holder of the syncer's role.
    fn write_and_sync(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        while state.writing {
            self.written.wait(state);
        }
        state.check()?;
        self.write_unwritten(state)?;
        if state.active.len() > 0 {
            self.write_active(state, Kind::Seal)?;
        }
        self.sync_written(state)
    }

    /// Takes the writer's role, and the syncer's if the group begins a segment, writes the group
    /// that there was no room for, or else the active one, and gives the roles back.
    /// [`State::may_write`] must hold.
    pub(crate) fn write_group(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        let begins_segment = state.begins_segment();
        if begins_segment {
            state.syncing = true;
        }
        let result = match state.unwritten {
            Some(_) => self.write_unwritten(state),
            None => self.write_active(state, Kind::Seal),
        };
        if begins_segment {
            self.return_sync_role(state);
        }
        result
    }

    /// Takes the writer's role, writes the active group, ended by a mark of the kind `end`, and
    /// gives the role back. If the group begins a segment, the caller holds the syncer's role.
    pub(crate) fn write_active(&self, state: &mut MutexGuard<'_, State>, end: Kind) -> Result<()> {
        debug_assert!(state.unwritten.is_none(), "groups are written in their order");
        let taken = self.take(state, end);
        self.write_group_taken(state, taken)
    }

    /// The same of the group that there was no room for, if there is one.
    fn write_unwritten(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        state.unwritten.take().map_or(Ok(()), |taken| self.write_group_taken(state, taken))
    }

    fn write_group_taken(&self, state: &mut MutexGuard<'_, State>, taken: Taken) -> Result<()> {
        state.writing = true;
        let result = MutexGuard::unlocked(state, || self.write_taken(&taken));
        state.writing = false;
        self.writes.fetch_add(1, Relaxed);
        self.written.notify_all();
        match result {
            Ok(file) => {
                self.publish_written(state, taken, file);
                Ok(())
            }
            Err(cause) if cause.is_retryable() => {
                state.unwritten = Some(taken);
                state.has_lacked_room = true;
                Err(Error::NoRoom { cause })
            }
            Err(cause) => Err(state.stop(cause)),
        }
    }

    /// Syncs the written bytes; called by the holder of the syncer's role.
    fn sync_written(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        let (upto, end, records) = (state.flushed, state.written_end, state.flushed_records);
        let file = state.file.clone();
        state.sync_covers = Some(upto);
        let began = self.environment.now();
        let result = MutexGuard::unlocked(state, || file.sync(SyncKind::Data));
        let took = self.environment.now() - began;
        result.map_err(|cause| state.stop(cause))?;
        let upto = sync::mutant!(Planted::PublishedTooMuch, upto, state.flushed);
        state.publish_synced(upto, records);
        // A group that was taken during the sync may have moved the active group to a new segment,
        // of which `end` is no offset.
        if state.opens.is_none() {
            state.synced_end = end;
        }
        state.stats.syncs += 1;
        state.stats.sync_time += took;
        state.stats.sync_time_max = state.stats.sync_time_max.max(took);
        Ok(())
    }

    pub(crate) fn wait_for_both_roles(&self, state: &mut MutexGuard<'_, State>) -> Result<()> {
        while state.writing || state.syncing {
            let turn = state.sync_turn;
            let role = if state.writing { &self.written } else { self.synced_in(turn) };
            role.wait(state);
        }
        state.check()
    }

    /// Ends a turn: wakes all threads that waited for it, one that waits for the next turn, to lead
    /// it, and the thread that waits to begin a segment. After a failure there is no next turn:
    /// wakes all.
    pub(crate) fn return_sync_role(&self, state: &mut MutexGuard<'_, State>) {
        let turn = state.sync_turn;
        state.syncing = false;
        state.sync_covers = None;
        state.sync_turn += 1;
        self.synced_in(turn).notify_all();
        if state.stopped.is_some() {
            self.synced_in(turn + 1).notify_all();
        } else {
            self.wake_leader(turn + 1);
        }
        self.written.notify_all();
    }

    /// Wakes one of the threads that wait for this turn, to lead its sync.
    fn wake_leader(&self, turn: u64) {
        if sync::mutant!(Planted::WakeForgotten, true, false) {
            self.synced_in(turn).notify_one();
        }
    }

    /// Returns the variable on which threads wait for the sync of this turn.
    fn synced_in(&self, turn: u64) -> &Condvar {
        if turn.is_multiple_of(2) { &self.synced[0] } else { &self.synced[1] }
    }
}

impl State {
    /// Returns whether the roles that writing the active group takes are free.
    pub(crate) fn may_write(&self) -> bool {
        !self.writing && (!self.begins_segment() || !self.syncing)
    }

    /// Returns whether the group that is written next begins a segment.
    fn begins_segment(&self) -> bool {
        let next = self.unwritten.as_ref().map_or(&self.opens, |unwritten| &unwritten.opens);
        next.is_some()
    }

    /// Makes known that everything up to `upto` is on the device.
    pub(crate) fn publish_synced(&mut self, upto: SeqNo, records: u64) {
        if upto > self.synced {
            self.synced = upto;
            self.stats.synced_records = records;
        }
    }
}

#[cfg(all(test, shuttle))]
mod tests;
