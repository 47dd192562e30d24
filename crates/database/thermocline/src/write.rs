//! The write path: admit, lock keys, journal, apply, unlock, wait.
//!
//! 1. Keys and values are checked. A writer waits here if the journal is far too long and is being
//!    shortened (`background.rs`). Then each engine admits its steps; nothing was written yet, so a
//!    refusal is clean. An engine may slow the writer down, so the writer holds no lock that others
//!    wait for [I4].
//! 2. The keys' stripes are locked ([`crate::key_locks`]): shared, for one step to a keyspace that
//!    is not journaled and whose engine orders writes itself; all of them, for a range that is
//!    deleted.
//! 3. Under the journal's lock the write takes its number and is appended as one record.
//! 4. If a transaction is open, the keys are noted for it ([`engine::RecentWrites`]); otherwise
//!    that costs one load. Each engine applies its steps under the number; the ticket is finished,
//!    and the keys are unlocked.
//! 5. The writer waits for the durability it asked for, together with all other waiting writers.
//!
//! # Invariants
//! - I1. A failure in 3 to 5 stops all later writes ([`Error::ReadOnly`]): the journal and the
//!   engines may differ, and only recovery can find out by which writes.
//! - I2. The ticket outlives 4, so no snapshot is between a write's journaling and its application,
//!   nor in the middle of a batch.
//! - I3. No writer waits for a number under the journal's lock. A write may wait for a flush in 4,
//!   and the flush for the journal. If the journal were locked by a writer that waits for a number
//!   until this very write ends, none of the three would end. Under the lock a writer takes a
//!   number only if there is one without waiting. Otherwise it unlocks the journal and waits for
//!   room ([`engine::Sequence::try_begin`]).
//! - I4. A writer holds no stripe while an engine makes it wait for room or slows it down for
//!   compactions. Otherwise a thread that locks all stripes waits for it while holding the stripes
//!   that it has, and every writer of every keyspace waits for that thread. A write that depends on
//!   a value read with the keys locked is known only then. So a write like it is admitted before
//!   ([`Inner::wait_like_a_write`]), and with the keys locked the engine is asked whether there is
//!   room without waiting ([`Inner::commit_if_room`]). If there is none, the writer unlocks the
//!   keys, waits for that much room ([`Inner::wait_for_room`]) and starts over. The code of a
//!   section cannot run twice ([`Db::atomically`]): its write is admitted with the keys locked, and
//!   may wait for a flush.
//! - I5. Room that was there when a write was admitted may be gone when it is applied, since other
//!   writers that were admitted meanwhile may have used it. Then the write waits in 4, for a flush
//!   at most, or takes memory beyond the limit.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{Op, Ticket};
use journal::Durability;

use crate::batch::{Batch, Step};
use crate::database::Inner;
use crate::error::{Error, Result};
use crate::expiry::Moment;
use crate::keyspace::Keyspace;
use crate::merge;
use crate::planted::{Planted, is_planted};
use crate::record;
use crate::slot::{Generation, Slot};

/// Times that a write unlocks its keys for lack of room. Then it is let in like a write that was
/// known, and admitted, before it had its locks [I5]. So among many writers that wait for one
/// flush, the ones that want the most room get through.
const ROUNDS_MAX: u32 = 16;

/// How often a write has unlocked its keys, and for how many bytes it waited the last time.
#[derive(Debug, Default)]
pub(crate) struct Waited {
    rounds: u32,
    bytes: usize,
}

impl Waited {
    /// Whether these may be written now without being asked about.
    pub(crate) fn is_enough_for(&self, ops: &[Op<'_>]) -> bool {
        self.rounds >= ROUNDS_MAX && bytes_of(ops) <= self.bytes
    }
}

pub(crate) fn bytes_of(ops: &[Op<'_>]) -> usize {
    ops.iter().map(Op::bytes).sum()
}

/// The steps of a write that go to one engine.
pub(crate) struct Part<'a> {
    pub(crate) generation: &'a Generation,
    pub(crate) ops: &'a [Op<'a>],
}

impl Part<'_> {
    /// Notifies the thread that removes expired values of new expiries.
    #[inline]
    fn note_ends(&self) {
        if let Some(expiry) = &self.generation.expiry {
            self.ops.iter().filter_map(Op::value).for_each(|stored| expiry.note_written(stored));
        }
    }
}

pub(crate) fn check_op(op: &Op<'_>) -> Result<()> {
    Ok(op.check()?)
}

impl Inner {
    /// Refuses once the database is closed or a write failed.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        match self.failure.get() {
            Some(cause) => Err(cause.clone()),
            None => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_process()?;
        if self.closed.load(Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Refuses in another process than the one that opened the database, before anything is locked
    /// or waited for. Costs one relaxed load.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.process.is_current() { Ok(()) } else { Err(self.forked()) }
    }

    /// Returns the error of a call in a child. Closes the child's copy of the directory's lock, so
    /// that only the parent keeps it.
    #[cold]
    fn forked(&self) -> Error {
        // Another thread of the parent may have held this lock at the fork.
        if let Some(mut lock) = self.directory_lock.try_lock() {
            drop(lock.take());
        }
        self.process.forked().into()
    }

    /// Refuses as soon as a thread begins to close the database, so that it need not wait for long
    /// work.
    pub(crate) fn check_staying_open(&self) -> Result<()> {
        if self.is_closing.load(Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Stops all later writes, unless the failed work may be tried again, and returns `error` for
    /// this one.
    pub(crate) fn fail(&self, error: Error) -> Error {
        if error.may_pass() { error } else { self.fail_for_good(error) }
    }

    /// Stops all later writes, whatever the error: some work was only half done.
    pub(crate) fn fail_for_good(&self, error: Error) -> Error {
        // Closing is no failure of the storage, and the first cause is the one to report.
        if error != Error::Closed {
            let _ = self.failure.set(error.poisoning());
        }
        error
    }

    /// Writes one step. Returns its number once it has reached `durability`.
    pub(crate) fn write_one(
        &self,
        slot: &Slot,
        op: Op<'_>,
        durability: Durability,
    ) -> Result<SeqNo> {
        self.check_writable()?;
        check_op(&op)?;
        let ops = std::slice::from_ref(&op);
        self.wait_for_journal_of(slot);
        slot.current()?.engine.admit(ops)?;
        let held = match op.is_range() {
            true => self.locks.all(),
            false => self.lock_one(slot, op.key()),
        };
        // Again, since a thread that closes the database does so with everything locked.
        self.check_writable()?;
        let generation = slot.current()?;
        let seqno = self.commit_admitted(&[Part { generation: &generation, ops }])?;
        drop(held);
        self.settle(seqno, generation.journaled, durability)
    }

    /// Waits, with nothing locked, as a write to `key` would before it is admitted. The write is
    /// not known yet: if it is to be refused, this is reported once it is known.
    pub(crate) fn wait_like_a_write(&self, slot: &Slot, key: &[u8]) -> Result<()> {
        self.wait_for_journal_of(slot);
        let _asked_again: engine::Result<()> = slot.current()?.engine.admit_rmw(key);
        Ok(())
    }

    /// Waits for a journal that is too long, with nothing locked, before a write to a keyspace is
    /// admitted [I4].
    #[inline]
    fn wait_for_journal_of(&self, slot: &Slot) {
        if slot.options.journaled {
            self.wait_for_journal();
        }
    }

    /// Does steps 3 and 4 of a write that depends on values read, for keys that the caller has
    /// checked and locked. If it would have to wait for room, does nothing and returns none [I4].
    pub(crate) fn commit_if_room(
        &self,
        parts: &[Part<'_>],
        waited: &Waited,
    ) -> Result<Option<SeqNo>> {
        self.check_writable()?;
        match has_room(parts, waited)? {
            true => self.commit_admitted(parts).map(Some),
            false => Ok(None),
        }
    }

    /// Waits for room for what found none, with nothing locked.
    ///
    /// # Errors
    /// That it is refused.
    pub(crate) fn wait_for_room(&self, parts: &[Part<'_>], waited: &mut Waited) -> Result<()> {
        self.check_writable()?;
        if parts.iter().any(|part| part.generation.journaled) {
            self.wait_for_journal();
        }
        admit(parts)?;
        let bytes = parts.iter().map(|part| bytes_of(part.ops)).sum();
        *waited = Waited { rounds: waited.rounds + 1, bytes };
        Ok(())
    }

    /// Admits the write of a section, and does steps 3 and 4, for keys that the caller has checked
    /// and locked [I4].
    pub(crate) fn commit(&self, parts: &[Part<'_>]) -> Result<SeqNo> {
        self.check_writable()?;
        admit(parts)?;
        self.commit_admitted(parts)
    }

    /// Does steps 3 and 4 of an admitted write, if the database is writable with the keys locked.
    pub(crate) fn commit_admitted(&self, parts: &[Part<'_>]) -> Result<SeqNo> {
        if parts.len() > 1 && is_planted(Planted::RecordOfEachPart) {
            let mut each = parts.chunks(1).map(|part| self.commit_admitted(part));
            return each.try_fold(SeqNo::ZERO, |_, written| written);
        }
        let journaled = parts.iter().any(|part| part.generation.journaled);
        if journaled {
            check_size(parts)?;
        }
        let ticket = self.number(journaled, |record| encode(parts, record))?;
        self.apply_numbered(parts, ticket)
    }

    /// The same without waiting: returns `None`, and nothing was written, if it would have to. The
    /// keys are locked, and the engines have admitted the steps ([`engine::Engine::try_admit`]).
    pub(crate) fn try_commit_admitted(
        &self,
        parts: &[Part<'_>],
        journaled: bool,
    ) -> Result<Option<SeqNo>> {
        if journaled {
            check_size(parts)?;
        }
        let ticket = self.try_number(journaled, |record| encode(parts, record))?;
        ticket.map(|ticket| self.apply_numbered(parts, ticket)).transpose()
    }

    /// Step 4.
    fn apply_numbered(&self, parts: &[Part<'_>], ticket: Ticket<'_>) -> Result<SeqNo> {
        let seqno = ticket.seqno();
        let noted_late = self.planted.has(Planted::NotedLate);
        if !noted_late {
            self.note(parts, seqno);
        }
        let ticket = (!self.planted.has(Planted::VisibleEarly)).then_some(ticket);
        for part in parts {
            let applied = part.generation.engine.apply(part.ops, seqno);
            applied.map_err(|error| self.fail_for_good(error.into()))?;
            part.generation.note_applied(seqno);
            part.note_ends();
            if ticket.is_none() {
                std::thread::yield_now();
            }
        }
        if noted_late {
            std::thread::yield_now();
            self.note(parts, seqno);
        }
        drop(ticket);
        Ok(seqno)
    }

    /// Step 3: the write's number; if it is journaled, `encode` writes the record. [I3]
    pub(crate) fn number(
        &self,
        journaled: bool,
        encode: impl Fn(&mut Vec<u8>),
    ) -> Result<Ticket<'_>> {
        if !journaled {
            return Ok(self.sequence.begin());
        }
        loop {
            let mut taken = None;
            let number = || Some(taken.insert(self.sequence.try_begin()?).seqno());
            let appended = self.journal.try_append(number, |_, record| encode(record));
            appended.map_err(|error| self.fail(error.into()))?;
            match taken {
                Some(ticket) => {
                    self.look_at_journal();
                    return Ok(ticket);
                }
                None => self.sequence.wait_for_room(),
            }
        }
    }

    /// The same without waiting: returns `None` if it would have to.
    fn try_number(
        &self,
        journaled: bool,
        encode: impl Fn(&mut Vec<u8>),
    ) -> Result<Option<Ticket<'_>>> {
        if !journaled {
            return Ok(self.sequence.try_begin());
        }
        let mut taken = None;
        let number = || Some(taken.insert(self.sequence.try_begin()?).seqno());
        let appended = self.journal.append_at_once(number, |_, record| encode(record));
        appended.map_err(|error| self.fail(error.into()))?;
        self.look_at_journal();
        Ok(taken)
    }

    /// Tells open transactions what is about to be written under the number that was taken: nothing
    /// of the write may be applied yet.
    #[inline]
    pub(crate) fn note(&self, parts: &[Part<'_>], seqno: SeqNo) {
        if self.recent.is_watched() {
            self.note_steps(parts, seqno);
        }
    }

    #[cold]
    fn note_steps(&self, parts: &[Part<'_>], seqno: SeqNo) {
        let recent = &self.recent;
        for Part { generation, ops } in parts {
            for op in *ops {
                match op {
                    Op::DeleteRange { .. } if is_planted(Planted::RangesUnnoted) => {}
                    Op::DeleteRange { start, end } => {
                        recent.note_range(generation.id, start, *end, seqno);
                    }
                    op => recent.note(generation.id, op.key(), seqno),
                }
            }
        }
    }

    /// Step 5.
    pub(crate) fn settle(
        &self,
        seqno: SeqNo,
        journaled: bool,
        durability: Durability,
    ) -> Result<SeqNo> {
        let is_waited_for = journaled && !is_planted(Planted::SettledEarly);
        if is_waited_for && durability != Durability::Buffered {
            self.journal.wait(seqno, durability).map_err(|error| self.fail(error.into()))?;
        }
        Ok(seqno)
    }
}

/// Hands steps over several engines to `with`, one part for each engine.
pub(crate) fn in_parts<T>(
    mut steps: Vec<(&Generation, Op<'_>)>,
    with: impl FnOnce(&[Part<'_>]) -> T,
) -> T {
    // Stable, so that of two steps on one key the later one stays later.
    steps.sort_by_key(|(generation, _)| generation.id);
    let ops: Vec<Op<'_>> = steps.iter().map(|(_, op)| *op).collect();
    let mut parts = Vec::new();
    let mut begin = 0;
    for run in steps.chunk_by(|(one, _), (other, _)| one.id == other.id) {
        let end = begin + run.len();
        parts.push(Part { generation: run[0].0, ops: &ops[begin..end] });
        begin = end;
    }
    with(&parts)
}

impl Inner {
    /// Steps 1 to 4 of a batch; none if there is nothing to write.
    pub(crate) fn write_batch(
        &self,
        batch: &Batch,
        has_room: impl FnOnce(),
    ) -> Result<Option<SeqNo>> {
        let steps = batch.steps();
        let moment = self.check_steps(steps)?;
        if steps.is_empty() {
            has_room();
            return Ok(None);
        }
        self.admit_steps(steps, moment)?;
        has_room();
        let merges = steps.iter().any(|step| step.operand().is_some());
        let mut waited = Waited::default();
        loop {
            let held = if steps.iter().any(|step| step.op(moment).is_range()) {
                self.locks.all()
            } else {
                self.locks.many(steps.iter().map(Step::place))
            };
            self.check_writable()?;
            let generations = generations(steps)?;
            if !merges {
                let parts = pairs(&generations, steps, moment);
                return in_parts(parts, |parts| self.commit_admitted(parts)).map(Some);
            }
            let held = (!self.planted.has(Planted::MergedUnlocked)).then_some(held);
            match self.commit_merges(steps, &generations, &waited)? {
                Merged::Done(written) => return Ok(written),
                Merged::NeedsRoom(made, moment) => {
                    drop(held);
                    let wanted = merge::batch::made_steps(steps, &generations, &made, moment);
                    in_parts(wanted, |parts| self.wait_for_room(parts, &mut waited))?;
                }
            }
        }
    }

    /// Refuses steps that are never written. Returns the moment that decides which values have
    /// expired.
    pub(crate) fn check_steps(&self, steps: &[Step]) -> Result<Moment> {
        self.check_writable()?;
        let moment = Moment::now(&self.options.environment);
        for step in steps {
            check_op(&step.op(moment))?;
            step.check_stored()?;
            let Keyspace { inner, .. } = &step.keyspace;
            if !std::ptr::eq(&***inner, self) {
                return Err(Error::NoKeyspace { name: step.keyspace.name().to_owned() });
            }
        }
        Ok(moment)
    }
}

impl Inner {
    /// Does step 1 of a batch. The writes of its merges are not known yet.
    pub(crate) fn admit_steps(&self, steps: &[Step], moment: Moment) -> Result<()> {
        let generations = generations(steps)?;
        if generations.iter().any(|generation| generation.journaled) {
            self.wait_for_journal();
        }
        let mut known = pairs(&generations, steps, moment);
        let mut merges = steps.iter().map(|step| step.operand().is_some());
        known.retain(|_| merges.next() == Some(false));
        in_parts(known, admit)?;
        for step in steps.iter().filter(|step| step.operand().is_some()) {
            self.wait_like_a_write(&step.keyspace.slot, step.place().1)?;
        }
        Ok(())
    }

    /// Makes the merges of a batch into puts and deletes, and does steps 3 and 4 if there is room;
    /// all keys are locked.
    fn commit_merges(
        &self,
        steps: &[Step],
        generations: &[Arc<Generation>],
        waited: &Waited,
    ) -> Result<Merged> {
        // Read with the keys locked [E1 of `expiry`].
        let moment = Moment::now(&self.options.environment);
        let made = merge::batch::resolve(steps, generations, moment)?;
        if self.planted.has(Planted::MergedUnlocked) {
            std::thread::yield_now();
        }
        let written = merge::batch::made_steps(steps, generations, &made, moment);
        if written.is_empty() {
            return Ok(Merged::Done(None));
        }
        let written = in_parts(written, |parts| self.commit_if_room(parts, waited))?;
        Ok(match written {
            Some(seqno) => {
                merge::batch::note_made(steps, generations, &made);
                Merged::Done(Some(seqno))
            }
            None => Merged::NeedsRoom(made, moment),
        })
    }
}

/// The outcome of a batch with merges.
enum Merged {
    /// It is written, unless there was nothing to write.
    Done(Option<SeqNo>),
    /// Nothing is; this was made of it, by the clock.
    NeedsRoom(Vec<merge::batch::Made>, Moment),
}

/// The engines that take the steps now.
pub(crate) fn generations(steps: &[Step]) -> Result<Vec<Arc<Generation>>> {
    steps.iter().map(|step| step.keyspace.slot.generation()).collect()
}

/// The steps by the clock at `moment`, each with its engine.
pub(crate) fn pairs<'a>(
    generations: &'a [Arc<Generation>],
    steps: &'a [Step],
    moment: Moment,
) -> Vec<(&'a Generation, Op<'a>)> {
    generations.iter().zip(steps).map(|(one, step)| (&**one, step.op(moment))).collect()
}

/// Step 1.
fn admit(parts: &[Part<'_>]) -> Result<()> {
    for part in parts {
        part.generation.engine.admit(part.ops)?;
    }
    Ok(())
}

/// Whether each engine takes them without waiting, or has been waited for long enough.
pub(crate) fn has_room(parts: &[Part<'_>], waited: &Waited) -> Result<bool> {
    for part in parts {
        if !waited.is_enough_for(part.ops) && !part.generation.engine.admit_at_once(part.ops)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn encode(parts: &[Part<'_>], record: &mut Vec<u8>) {
    for part in parts.iter().filter(|part| part.generation.journaled) {
        for op in part.ops {
            record::encode(part.generation.id, op, record);
        }
        if is_planted(Planted::PartsUnrecorded) {
            break;
        }
    }
}

fn check_size(parts: &[Part<'_>]) -> Result<()> {
    let journaled = parts.iter().filter(|part| part.generation.journaled);
    let bytes = journaled.flat_map(|part| part.ops).map(record::encoded_bytes_max).sum::<u64>();
    let limit = journal::Options::RECORD_BYTES_MAX as u64;
    if bytes > limit { Err(Error::WriteTooLarge { bytes, limit }) } else { Ok(()) }
}
