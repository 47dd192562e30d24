//! The write path: reserve room, lock keys, journal, apply, unlock, wait.
//!
//! The numbers are those of `ARCHITECTURE.md`.
//!
//! 1. The call checks keys and values. A writer waits here if the journal is far too long and is
//!    being shortened (`background.rs`).
//! 2. Each engine reserves room for its steps; nothing was written yet, so a refusal is clean. An
//!    engine may slow the writer down, so the writer holds no lock that others wait for [I4].
//! 3. The keys' stripes are locked ([`crate::key_locks`]): shared, for one step to a keyspace that
//!    is not journaled and whose engine orders writes itself; all of them, for a range that is
//!    deleted.
//! 4. Under the journal's lock the write takes its number and is appended as one record. A write
//!    to keyspaces that are not journaled only takes a number.
//! 5. If a transaction is open, the keys are noted for it ([`engine::RecentWrites`]); otherwise
//!    that costs one load. Each engine applies its steps under the number; the ticket is finished,
//!    and the keys are unlocked.
//! 6. The writer waits for the durability it asked for, together with all other waiting writers.
//!
//! # Invariants
//! - I1. A failure in 4 to 6 stops all later writes ([`Error::ReadOnly`]): the journal and the
//!   engines may differ, and only recovery can find out by which writes.
//! - I2. The ticket outlives 5, so no snapshot is between a write's journaling and its application,
//!   nor in the middle of a batch.
//! - I3. No writer waits for a number under the journal's lock. A flush may wait for the journal
//!   while another write with a number waits for the journal's lock. Under the lock a writer takes
//!   a number only if there is one without waiting. Otherwise it unlocks the journal and waits for
//!   room ([`engine::Sequence::try_begin`]).
//! - I4. No writer waits for room in an engine, or for a read of the device, while it holds a
//!   stripe. Otherwise a thread that locks all stripes waits for it while holding the stripes that
//!   it has, and every writer of every keyspace waits for that thread. Old values that are on the
//!   device are read with nothing locked ([`crate::old_values`] names the exception;
//!   [`crate::rmw`]). Room is reserved before the keys are locked. A write that depends on a value
//!   read with the keys locked is known only then: it reserves room for a value of a usual length.
//!   If that does not suffice, it asks for more without waiting. If there is none, the writer
//!   unlocks the keys, waits for the room that it now knows of, keeps that, and starts over.
//! - I5. A writer that holds room in an engine waits at most for room in engines with larger ids,
//!   for stripes, for the journal's buffer, and for the ring of numbers. A writer that holds a
//!   stripe waits for the last two at most. Both end without it: a write of the journal's buffer
//!   needs no stripe, and a writer that holds a number waits for nothing (law L8). So none of these
//!   waits is in a circle. A reservation that is replaced by a larger one is dropped before the
//!   wait.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use codec::SeqNo;
use engine::{Demand, Op, Reservation, Ticket};
use journal::Durability;

use crate::batch::{Batch, Step};
use crate::database::Inner;
use crate::error::{Error, Result};
use crate::expiry::ClockReading;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::{KeyspaceEntry, KeyspaceInstance};
use crate::merge;
use crate::old_values::OldValues;
use crate::record;
use crate::rooms::{Group, Rooms, USUAL_VALUE, in_groups};

/// The steps of a write that go to one engine, and their room in it.
pub(crate) struct Part<'a> {
    pub(crate) instance: &'a KeyspaceInstance,
    pub(crate) ops: &'a [Op<'a>],
    pub(crate) room: Reservation<'a>,
}

impl Part<'_> {
    /// Notifies the thread that removes expired values of new expiries.
    #[inline]
    fn note_ends(&self) {
        if let Some(expiry) = &self.instance.expiry {
            self.ops.iter().filter_map(Op::value).for_each(|stored| expiry.note_written(stored));
        }
    }
}

pub(crate) fn check_op(op: &Op<'_>) -> Result<()> {
    Ok(op.check()?)
}

impl Inner {
    /// Writes one step. Returns its number once it has reached `durability`.
    pub(crate) fn write_one(
        &self,
        entry: &KeyspaceEntry,
        op: Op<'_>,
        durability: Durability,
    ) -> Result<SeqNo> {
        self.lifecycle.check_writable()?;
        check_op(&op)?;
        let ops = std::slice::from_ref(&op);
        loop {
            self.wait_for_journal_of(entry);
            let instance = entry.current()?;
            let room = instance.reserve(&Demand::Ops(ops))?;
            let held = match op.is_range() {
                true => self.locks.all(),
                false => self.lock_one(entry, op.key()),
            };
            // Again, since a thread that closes the database does so with everything locked.
            self.lifecycle.check_writable()?;
            if !entry.is_filled_by(&instance)? {
                continue;
            }
            let seqno = self.commit_reserved(&mut [Part { instance: &instance, ops, room }])?;
            drop(held);
            return self.acknowledge(seqno, instance.journaled, durability);
        }
    }

    /// Waits for a journal that is too long, with nothing locked, before a write to a keyspace is
    /// admitted [I4].
    #[inline]
    pub(crate) fn wait_for_journal_of(&self, entry: &KeyspaceEntry) {
        if entry.options.journaled {
            self.wait_for_journal();
        }
    }

    /// Does steps 4 and 5 of a write for which room is reserved, for keys that the caller has
    /// checked and locked.
    pub(crate) fn commit_reserved(&self, parts: &mut [Part<'_>]) -> Result<SeqNo> {
        let journaled = parts.iter().any(|part| part.instance.journaled);
        if journaled {
            check_size(parts)?;
        }
        let ticket = self.number(journaled, |record| encode(parts, record))?;
        self.apply_numbered(parts, ticket)
    }

    /// The same without waiting: returns `None`, and nothing was written, if it would have to.
    pub(crate) fn try_commit_reserved(
        &self,
        parts: &mut [Part<'_>],
        journaled: bool,
    ) -> Result<Option<SeqNo>> {
        if journaled {
            check_size(parts)?;
        }
        let ticket = self.try_number(journaled, |record| encode(parts, record))?;
        ticket.map(|ticket| self.apply_numbered(parts, ticket)).transpose()
    }

    /// Step 5.
    fn apply_numbered(&self, parts: &mut [Part<'_>], ticket: Ticket<'_>) -> Result<SeqNo> {
        let seqno = ticket.seqno();
        self.order.note(parts, seqno);
        for part in &mut *parts {
            let applied = part.instance.engine.apply(part.ops, seqno, &mut part.room);
            applied.map_err(|error| self.lifecycle.fail_for_good(error.into()))?;
            part.instance.note_applied(seqno);
            part.note_ends();
        }
        drop(ticket);
        Ok(seqno)
    }

    /// Step 4: the write's number; if it is journaled, `encode` writes the record. [I3]
    pub(crate) fn number(
        &self,
        journaled: bool,
        encode: impl Fn(&mut Vec<u8>),
    ) -> Result<Ticket<'_>> {
        if !journaled {
            return Ok(self.order.begin(&self.options.environment));
        }
        loop {
            let mut taken = None;
            let number = || Some(taken.insert(self.order.sequence.try_begin()?).seqno());
            let appended = self.journal.append_numbered(number, |_, record| encode(record));
            appended.map_err(|error| self.lifecycle.fail(error.into()))?;
            match taken {
                Some(ticket) => {
                    self.look_at_journal();
                    return Ok(ticket);
                }
                None => self.order.wait_for_number(&self.options.environment),
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
            return Ok(self.order.sequence.try_begin());
        }
        let mut taken = None;
        let number = || Some(taken.insert(self.order.sequence.try_begin()?).seqno());
        let appended = self.journal.try_append(number, |_, record| encode(record));
        appended.map_err(|error| self.lifecycle.fail(error.into()))?;
        self.look_at_journal();
        Ok(taken)
    }

    /// Step 6: returns the number of an applied write once it has reached `durability`.
    pub(crate) fn acknowledge(
        &self,
        seqno: SeqNo,
        journaled: bool,
        durability: Durability,
    ) -> Result<SeqNo> {
        let durable = self.wait_as_writer(seqno, journaled, durability);
        durable.map_err(|error| error.of_applied(seqno))
    }

    /// [`Inner::wait_durable`] for a writer, whose long waits are counted.
    pub(crate) fn wait_as_writer(
        &self,
        seqno: SeqNo,
        journaled: bool,
        durability: Durability,
    ) -> Result<SeqNo> {
        if !journaled || durability == Durability::Buffered {
            return Ok(seqno);
        }
        let wait = || self.wait_durable(seqno, journaled, durability);
        self.order.durable_waits.time(&self.options.environment, wait)
    }

    /// Waits until the journal has the writes up to `seqno`, as far as `durability` says.
    pub(crate) fn wait_durable(
        &self,
        seqno: SeqNo,
        journaled: bool,
        durability: Durability,
    ) -> Result<SeqNo> {
        if journaled && durability != Durability::Buffered {
            self.journal
                .wait(seqno, durability)
                .map_err(|error| self.lifecycle.fail(error.into()))?;
        }
        Ok(seqno)
    }
}

impl Inner {
    /// Steps 2 to 5 of a batch; none if there is nothing to write. `has_room` is called once room
    /// is reserved.
    pub(crate) fn write_batch(
        &self,
        batch: &Batch,
        has_room: impl FnOnce(),
    ) -> Result<Option<SeqNo>> {
        let steps = batch.steps();
        let moment = self.check_steps(steps)?;
        let mut has_room = Some(has_room);
        if steps.is_empty() {
            has_room.take().into_iter().for_each(|has_room| has_room());
            return Ok(None);
        }
        let merges = steps.iter().any(|step| step.operand().is_some());
        let mut wanted: Option<(Vec<merge::batch::Made>, ClockReading)> = None;
        let mut old = OldValues::default();
        loop {
            let instances = instances(steps)?;
            if instances.iter().any(|instance| instance.journaled) {
                self.wait_for_journal();
            }
            let rooms = match &wanted {
                None => reserve_for_steps(&instances, steps, moment)?,
                Some((made, moment)) => {
                    let made = merge::batch::made_steps(steps, &instances, made, *moment);
                    in_groups(made, Rooms::reserve)?
                }
            };
            has_room.take().into_iter().for_each(|has_room| has_room());
            let held = if steps.iter().any(|step| step.op(moment).is_range()) {
                self.locks.all()
            } else {
                self.locks.many(steps.iter().map(Step::place))
            };
            self.lifecycle.check_writable()?;
            if !are_filled_by(steps, &instances)? {
                continue;
            }
            if !merges {
                let written = pairs(&instances, steps, moment);
                let seqno = in_groups(written, |groups| self.commit_in(groups, rooms))?;
                debug_assert!(seqno.is_some(), "room was reserved for the same operations");
                if seqno.is_some() {
                    return Ok(seqno);
                }
                continue;
            }
            match self.commit_merges(steps, &instances, rooms, &mut old)? {
                Merged::Done(written) => return Ok(written),
                Merged::NeedsRoom(made, moment) => wanted = Some((made, moment)),
                Merged::NeedsRead => {}
            }
            drop(held);
            old.read_missing()?;
        }
    }

    /// Does steps 4 and 5 of a write whose keys the caller has checked and locked. Returns `None`,
    /// and nothing was written, if the reserved room does not suffice and there is no more.
    pub(crate) fn commit_in(
        &self,
        groups: &[Group<'_, '_>],
        rooms: Rooms<'_>,
    ) -> Result<Option<SeqNo>> {
        match rooms.of_parts(groups)? {
            Some(mut parts) => self.commit_reserved(&mut parts).map(Some),
            None => Ok(None),
        }
    }

    /// Refuses steps that are never written. Returns the moment that decides which values have
    /// expired.
    pub(crate) fn check_steps(&self, steps: &[Step]) -> Result<ClockReading> {
        self.lifecycle.check_writable()?;
        let moment = ClockReading::now(&self.options.environment);
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

/// Returns the step, or a put of a usual value in place of a merge.
fn expected_op(step: &Step, moment: ClockReading) -> Op<'_> {
    match step.operand() {
        Some(_) => Op::Put { key: step.place().1, value: &USUAL_VALUE },
        None => step.op(moment),
    }
}

/// Does step 2 of a batch. The values of its merges are not known yet.
fn reserve_for_steps<'g>(
    instances: &'g [Arc<KeyspaceInstance>],
    steps: &[Step],
    moment: ClockReading,
) -> Result<Rooms<'g>> {
    let each = || instances.iter().zip(steps);
    let all = each().map(|(one, step)| (&**one, expected_op(step, moment)));
    let is_known = |step: &Step| step.operand().is_none();
    match in_groups(all.collect(), Rooms::reserve) {
        Err(_) if !steps.iter().all(is_known) => {
            // If the results of the merges are to be refused, this is reported once they are known.
            let known = each().filter(|(_, step)| is_known(step));
            let known = known.map(|(one, step)| (&**one, step.op(moment)));
            in_groups(known.collect(), Rooms::reserve)
        }
        reserved => reserved,
    }
}

impl Inner {
    /// Makes the merges of a batch into puts and deletes, and does steps 4 and 5 if there is room;
    /// all keys are locked.
    fn commit_merges(
        &self,
        steps: &[Step],
        instances: &[Arc<KeyspaceInstance>],
        rooms: Rooms<'_>,
        old: &mut OldValues,
    ) -> Result<Merged> {
        // Read with the keys locked [E1 of `expiry`].
        let moment = ClockReading::now(&self.options.environment);
        let made = merge::batch::resolve(steps, instances, moment, old)?;
        if old.are_missing() {
            return Ok(Merged::NeedsRead);
        }
        let written = merge::batch::made_steps(steps, instances, &made, moment);
        if written.is_empty() {
            return Ok(Merged::Done(None));
        }
        let written = in_groups(written, |groups| self.commit_in(groups, rooms))?;
        Ok(match written {
            Some(seqno) => {
                merge::batch::note_made(steps, instances, &made);
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
    NeedsRoom(Vec<merge::batch::Made>, ClockReading),
    /// Nothing is: old values have to be read first.
    NeedsRead,
}

/// The engines that take the steps now.
pub(crate) fn instances(steps: &[Step]) -> Result<Vec<Arc<KeyspaceInstance>>> {
    steps.iter().map(|step| step.keyspace.entry.instance()).collect()
}

/// The steps by the clock at `moment`, each with its engine.
pub(crate) fn pairs<'a>(
    instances: &'a [Arc<KeyspaceInstance>],
    steps: &'a [Step],
    moment: ClockReading,
) -> Vec<(&'a KeyspaceInstance, Op<'a>)> {
    instances.iter().zip(steps).map(|(one, step)| (&**one, step.op(moment))).collect()
}

/// Returns whether these engines still fill the keyspaces of the steps, whose keys are locked.
pub(crate) fn are_filled_by(steps: &[Step], instances: &[Arc<KeyspaceInstance>]) -> Result<bool> {
    for (step, instance) in steps.iter().zip(instances) {
        if !step.keyspace.entry.is_filled_by(instance)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn encode(parts: &[Part<'_>], record: &mut Vec<u8>) {
    for part in parts.iter().filter(|part| part.instance.journaled) {
        for op in part.ops {
            record::encode(part.instance.id, op, record);
        }
    }
}

fn check_size(parts: &[Part<'_>]) -> Result<()> {
    let journaled = parts.iter().filter(|part| part.instance.journaled);
    let bytes = journaled.flat_map(|part| part.ops).map(record::encoded_bytes_max).sum::<u64>();
    let limit = journal::Options::RECORD_BYTES_MAX as u64;
    if bytes > limit { Err(Error::WriteTooLarge { bytes, limit }) } else { Ok(()) }
}
