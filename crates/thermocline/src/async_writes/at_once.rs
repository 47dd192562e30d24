//! Writing for who must not wait: all of it, or nothing.
//!
//! It is the way of [`crate::write`] and [`crate::rmw`], with each step that may wait left out, or given up
//! where it would: the engine is asked whether it takes the write at once, keys are locked if nobody else has
//! them, a number is taken if there is one, and the journal appends if its group has room. A long value is left
//! to others, so that what is asked for before it is known covers it.

use codec::SeqNo;
use engine::{Change, Op, Operator, check_key};
use journal::Durability;

use crate::batch::{Batch, Step};
use crate::database::Inner;
use crate::error::Result;
use crate::expiry::Form;
use crate::keyspace::Keyspace;
use crate::rmw::{Attempt, Device, decide, op_of};
use crate::slot::Slot;
use crate::write::{Part, Waited, bytes_of, check_op, generations, has_room, in_parts, pairs};

/// What is longer, keys and values together, is left to those who may wait.
const BYTES_MAX: usize = 64 << 10;
/// As are batches of more steps: so many keys are locked by a poll, and so much is applied.
const STEPS_MAX: usize = 128;

impl Keyspace {
    /// Whether what is written has reached the handle's durability with that.
    pub(super) fn settles_at_once(&self) -> bool {
        !self.slot.options.journaled || self.durability == Durability::Buffered
    }
}

impl Inner {
    /// A put or a delete; none if it would have to wait, and nothing was written.
    pub(super) fn write_at_once(&self, slot: &Slot, op: &Op<'_>) -> Result<Option<SeqNo>> {
        self.check_writable()?;
        check_op(op)?;
        let key = op.key();
        let held = match slot.orders_writes {
            true => self.locks.try_shared(slot.lock_id, key),
            false => self.locks.try_one(slot.lock_id, key),
        };
        let Some(_held) = held else { return Ok(None) };
        // Again, since whoever closes the database does so with everything locked.
        self.check_writable()?;
        let generation = slot.current()?;
        self.commit_if_at_once(&[Part { generation: &generation, ops: std::slice::from_ref(op) }])
    }

    /// A batch; none if it would have to wait, and nothing was written. So it is with one that deletes ranges, for
    /// which every key is locked, or that merges, for which values may be read from the device.
    pub(super) fn write_batch_at_once(&self, batch: &Batch) -> Result<Option<SeqNo>> {
        let steps = batch.steps();
        let moment = self.check_steps(steps)?;
        let is_left = |step: &Step| step.operand().is_some() || step.op(moment).is_range();
        if steps.is_empty() || steps.len() > STEPS_MAX || steps.iter().any(is_left) {
            return Ok(None);
        }
        let held = self.locks.try_many(steps.iter().map(Step::place));
        let Some(_held) = held else { return Ok(None) };
        self.check_writable()?;
        let generations = generations(steps)?;
        let steps = pairs(&generations, steps, moment);
        in_parts(steps, |parts| self.commit_if_at_once(parts))
    }

    /// Steps 3 and 4 of a write, for keys that the caller has checked and locked; none if that would have to wait,
    /// and nothing was written.
    fn commit_if_at_once(&self, parts: &[Part<'_>]) -> Result<Option<SeqNo>> {
        let bytes: usize = parts.iter().map(|part| bytes_of(part.ops)).sum();
        let take = |part: &Part<'_>| {
            let (engine, ops) = (&part.generation.engine, part.ops);
            engine.takes_at_once(ops.len(), bytes_of(ops) as u64)
        };
        if bytes > BYTES_MAX || !parts.iter().all(take) {
            return Ok(None);
        }
        // What an engine never takes it says here, before anything is journaled.
        match has_room(parts, &Waited::default())? {
            true => self.commit_at_once(parts),
            false => Ok(None),
        }
    }

    /// A read-modify-write; none if it would have to wait, and nothing has changed.
    pub(super) fn rmw_if_at_once(
        &self,
        slot: &Slot,
        form: Form,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Option<Option<SeqNo>>> {
        self.check_writable()?;
        check_key(key)?;
        self.on_stored(slot, form, operator, |operator| {
            let limit = BYTES_MAX.saturating_sub(key.len());
            let mut short = Short { operator, limit, is_too_long: false };
            let done = match slot.orders_writes {
                true => self.rmw_in_engine_at_once(slot, key, &mut short),
                false => self.rmw_locked_at_once(slot, key, &mut short),
            }?;
            Ok(done.filter(|_| !short.is_too_long))
        })
    }

    fn rmw_locked_at_once(
        &self,
        slot: &Slot,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Option<Option<SeqNo>>> {
        let Some(_held) = self.locks.try_one(slot.lock_id, key) else { return Ok(None) };
        self.check_writable()?;
        let generation = slot.current()?;
        let mut value = Vec::new();
        let looked = generation.engine.get_at_once(key, &mut value)?;
        let Some(had_value) = looked else { return Ok(None) };
        let change = decide(operator, had_value, value);
        let Some(op) = op_of(&change, key, had_value) else { return Ok(Some(None)) };
        check_op(&op)?;
        let parts = [Part { generation: &generation, ops: std::slice::from_ref(&op) }];
        Ok(self.commit_if_at_once(&parts)?.map(Some))
    }

    fn rmw_in_engine_at_once(
        &self,
        slot: &Slot,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Option<Option<SeqNo>>> {
        let Some(_held) = self.locks.try_shared(slot.lock_id, key) else { return Ok(None) };
        self.check_writable()?;
        let generation = slot.current()?;
        // Room for whatever the operator may put.
        if !generation.engine.takes_at_once(1, BYTES_MAX as u64) {
            return Ok(None);
        }
        let Some(ticket) = self.sequence.try_begin() else { return Ok(None) };
        let (device, waited) = (Device::LeftAlone, Waited::default());
        let attempt = self.rmw_numbered(&generation, key, operator, device, &waited, ticket)?;
        Ok(match attempt {
            Attempt::Done(seqno) => Some(seqno),
            Attempt::NeedsDevice | Attempt::NeedsRoom(_) => None,
        })
    }
}

/// An operator that changes nothing where its value is long.
struct Short<'a> {
    operator: &'a mut dyn Operator,
    limit: usize,
    /// Of the last call.
    is_too_long: bool,
}

impl Operator for Short<'_> {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        self.is_too_long = false;
        self.operator.update_in_place(value)
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let change = self.operator.update(value);
        self.is_too_long = matches!(&change, Change::Put(value) if value.len() > self.limit);
        if self.is_too_long { Change::Keep } else { change }
    }
}
