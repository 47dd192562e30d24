//! Read-modify-writes of one key: at once, of an old value that a seat has looked up, and both by turns
//! for who waits.
//!
//! 1. *At once*: under the key's lock the engine is asked for the old value, as far as memory knows it,
//!    and the operator for the new one, which is committed like any write (I4, and steps 3 and 4
//!    of [`crate::write`]). Where the engine orders writes itself the lock is shared, and the engine does
//!    it all. Where the device would have to be read it is given up, with nothing changed.
//! 2. *Of an old value*: a seat has looked it up with no lock held. Now the key is locked, for this one
//!    alone, and the engine asked whether the value still is the newest (law L7 of the engine
//!    contract). If so the operator is asked and the new value committed; otherwise it begins anew
//!    with 1.
//!
//! For either the engine is asked for room before the key is locked. How much the new value takes is known
//! only then: if there is no room for it at once, the key is given up, room is waited for, and the update begins
//! anew (I4 of [`crate::write`]).
//! 3. *Waiting*: 1, and where the device is needed a look-up on a seat of the engine's
//!    [pool](crate::seat::pool), and 2, until one of them has done it. Where there is no seat to be had,
//!    1 to its end, reading the device.
//!
//! # Invariants
//! - M1. From when the old value is the key's present one until the new one is applied, no other write
//!   of the key is applied: its lock is held, or the engine sees to it.
//! - M2. While anything waits for a read of the device, neither a lock nor a number of the sequence is
//!   held for it. So no other write, no snapshot and no flush waits for that read. They do where the
//!   process has no queue of the device left.
//! - M3. Nor is either held while anything waits for room of which is known that there is none.
//! - M4. What ended without a commit has changed nothing. So a read that failed is an error of the one
//!   who asked, and of nobody else.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use codec::SeqNo;
use engine::{
    BegunOld, Change, Engine, Error as EngineError, Listener, Old, Op, Operator, Ticket, check_key,
};
use journal::Durability;

use crate::database::Inner;
use crate::error::Result;
use crate::expiry::{Form, OnStored, end_of};
use crate::key_locks::Held;
use crate::planted::Planted;
use crate::slot::{Generation, Slot};
use crate::write::{Part, Waited, check_op};

/// Look-ups at once of a seat of who waits for one.
const DEPTH: usize = 1;

/// Whether the device may be waited for with the key locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Device {
    LeftAlone,
    WaitedFor,
}

/// What has come of a read-modify-write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It is over; without a number if it changed nothing.
    Done(Option<SeqNo>),
    /// The device has to be read; nothing has changed.
    NeedsDevice,
    /// It would have to wait for room, the journal or a lock; nothing has changed. Only of calls that
    /// must not wait ([`crate::Keyspace::try_rmw`]).
    MustWait,
}

/// What has come of an attempt with the key locked.
pub(crate) enum Attempt {
    /// It is over; without a number if it changed nothing.
    Done(Option<SeqNo>),
    /// The device has to be read, or another write has come first; nothing has changed.
    NeedsDevice,
    /// There is no room for this now; nothing has changed.
    NeedsRoom(Change),
}

impl Inner {
    /// Replaces one key's value by what `operator` makes of it. `None` if it changed nothing. Waits for
    /// the device where the old value is there. [M2]
    pub(crate) fn rmw(
        &self,
        slot: &Slot,
        form: Form,
        key: &[u8],
        operator: &mut dyn Operator,
        durability: Durability,
    ) -> Result<Option<SeqNo>> {
        let seqno = self
            .on_stored(slot, form, operator, |operator| self.rmw_unsettled(slot, key, operator))?;
        self.settle_rmw(slot, seqno, durability)
    }

    /// The same with values as they are stored, and not settled.
    pub(crate) fn rmw_unsettled(
        &self,
        slot: &Slot,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Option<SeqNo>> {
        self.ask_room(slot, key)?;
        let mut waited = Waited::default();
        loop {
            let attempt = match self.rmw_locked(slot, key, operator, Device::LeftAlone, &waited)? {
                Attempt::NeedsDevice => self.rmw_by_look_up(slot, key, operator, &waited)?,
                attempt => attempt,
            };
            match attempt {
                Attempt::Done(seqno) => return Ok(seqno),
                Attempt::NeedsDevice => {}
                Attempt::NeedsRoom(change) => {
                    self.wait_to_change(slot, key, &change, &mut waited)?
                }
            }
        }
    }

    /// The same as far as memory knows the old value. Not settled.
    pub(crate) fn rmw_at_once(
        &self,
        slot: &Slot,
        form: Form,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Tried> {
        self.ask_room(slot, key)?;
        self.on_stored(slot, form, operator, |operator| {
            self.until_there_is_room(slot, key, |waited| {
                self.rmw_locked(slot, key, operator, Device::LeftAlone, waited)
            })
        })
    }

    /// Makes `attempt` again and again, as long as it finds no room.
    fn until_there_is_room(
        &self,
        slot: &Slot,
        key: &[u8],
        mut attempt: impl FnMut(&Waited) -> Result<Attempt>,
    ) -> Result<Tried> {
        let mut waited = Waited::default();
        loop {
            match attempt(&waited)? {
                Attempt::Done(seqno) => return Ok(Tried::Done(seqno)),
                Attempt::NeedsDevice => return Ok(Tried::NeedsDevice),
                Attempt::NeedsRoom(change) => {
                    self.wait_to_change(slot, key, &change, &mut waited)?
                }
            }
        }
    }

    /// Waits, with nothing locked, until the engine has room for what an update makes of the key.
    fn wait_to_change(
        &self,
        slot: &Slot,
        key: &[u8],
        change: &Change,
        waited: &mut Waited,
    ) -> Result<()> {
        let Some(op) = op_of(change, key, true) else { return Ok(()) };
        let (generation, ops) = (slot.current()?, std::slice::from_ref(&op));
        self.wait_for_room(&[Part { generation: &generation, ops }], waited)
    }

    /// Waits, with nothing locked, until the engine has room for a write of the key [I4 of `write`].
    fn ask_room(&self, slot: &Slot, key: &[u8]) -> Result<()> {
        self.check_writable()?;
        check_key(key)?;
        if slot.orders_writes {
            // Nobody asks again.
            return Ok(slot.current()?.engine.admit_rmw(key)?);
        }
        self.wait_like_a_write(slot, key)
    }

    /// Has `with` work with what makes of stored values what `operator` makes of values in that form.
    #[inline]
    pub(crate) fn on_stored<T>(
        &self,
        slot: &Slot,
        form: Form,
        operator: &mut dyn Operator,
        with: impl FnOnce(&mut dyn Operator) -> Result<T>,
    ) -> Result<T> {
        if !slot.options.values_end {
            return with(operator);
        }
        let mut on_stored = OnStored::new(operator, form, &self.options.environment);
        let done = with(&mut on_stored);
        on_stored.outcome(done)
    }

    /// Once room was asked for.
    fn rmw_locked(
        &self,
        slot: &Slot,
        key: &[u8],
        operator: &mut dyn Operator,
        device: Device,
        waited: &Waited,
    ) -> Result<Attempt> {
        self.check_writable()?;
        check_key(key)?;
        if slot.orders_writes {
            return self.rmw_in_engine(slot, key, operator, device, waited);
        }
        let is_locked = !self.planted.has(Planted::UpdatedUnlocked);
        let _held = is_locked.then(|| self.locks.one(slot.lock_id, key));
        let generation = slot.current()?;
        let mut value = Vec::new();
        let looked = match device {
            Device::LeftAlone => generation.engine.get_at_once(key, &mut value)?,
            Device::WaitedFor => Some(generation.engine.get(key, &mut value)?),
        };
        let Some(had_value) = looked else { return Ok(Attempt::NeedsDevice) };
        let change = decide(operator, had_value, value);
        self.commit_change(&generation, key, had_value, change, waited)
    }

    /// Goes on with the old value that was looked up in the engine of `generation`. Not settled.
    pub(crate) fn rmw_of_old(
        &self,
        slot: &Slot,
        form: Form,
        generation: &Arc<Generation>,
        old: &Old<'_>,
        operator: &mut dyn Operator,
    ) -> Result<Tried> {
        self.wait_like_a_write(slot, old.key)?;
        let tried = self.on_stored(slot, form, operator, |operator| {
            self.until_there_is_room(slot, old.key, |waited| {
                self.rmw_of_stored(slot, generation, old, operator, waited)
            })
        })?;
        match tried {
            Tried::Done(_) => Ok(tried),
            Tried::NeedsDevice | Tried::MustWait => self.rmw_at_once(slot, form, old.key, operator),
        }
    }

    /// Once room was asked for. It begins anew if the value is not the newest any more.
    fn rmw_of_stored(
        &self,
        slot: &Slot,
        generation: &Arc<Generation>,
        old: &Old<'_>,
        operator: &mut dyn Operator,
        waited: &Waited,
    ) -> Result<Attempt> {
        self.check_writable()?;
        let _held = self.locks.one(slot.lock_id, old.key);
        let current = slot.current()?;
        if !Arc::ptr_eq(&*current, generation) || !old.is_newest() {
            return Ok(Attempt::NeedsDevice);
        }
        let change = operator.update(old.value);
        self.commit_change(&current, old.key, old.value.is_some(), change, waited)
    }

    /// Waits until a read-modify-write has reached `durability`, if it changed anything.
    pub(crate) fn settle_rmw(
        &self,
        slot: &Slot,
        seqno: Option<SeqNo>,
        durability: Durability,
    ) -> Result<Option<SeqNo>> {
        seqno.map(|seqno| self.settle(seqno, slot.options.journaled, durability)).transpose()
    }

    /// Looks the old value up, waiting for the device, and goes on with it. Not settled.
    fn rmw_by_look_up(
        &self,
        slot: &Slot,
        key: &[u8],
        operator: &mut dyn Operator,
        waited: &Waited,
    ) -> Result<Attempt> {
        let generation = slot.generation()?;
        let Some(mut seat) = generation.seats.lend(|| generation.engine.seat(DEPTH)) else {
            return self.rmw_locked(slot, key, operator, Device::WaitedFor, waited);
        };
        if generation.placed(seat.get().begin_old(0, key))? != BegunOld::Pending {
            // Somebody has written it meanwhile.
            return Ok(Attempt::NeedsDevice);
        }
        // If somebody has written it meanwhile, it begins anew.
        let mut outcome = Ok(Attempt::NeedsDevice);
        let mut with =
            |old: Old<'_>| outcome = self.rmw_of_stored(slot, &generation, &old, operator, waited);
        let mut ended = Ended { with: &mut with, error: None };
        while seat.get().pending() > 0 {
            generation.placed(seat.get().complete(true, &mut ended))?;
        }
        let Ended { error, .. } = ended;
        error.map_or(outcome, |error| Err(error.in_dir(&generation.dir).into()))
    }

    /// How one key is locked that a single write changes.
    pub(crate) fn lock_one(&self, slot: &Slot, key: &[u8]) -> Held<'_> {
        match slot.orders_writes {
            true => self.locks.shared(slot.lock_id, key),
            false => self.locks.one(slot.lock_id, key),
        }
    }

    /// Commits what the operator has decided, if there is room; the key is locked for this one alone.
    fn commit_change(
        &self,
        generation: &Generation,
        key: &[u8],
        had_value: bool,
        change: Change,
        waited: &Waited,
    ) -> Result<Attempt> {
        let Some(op) = op_of(&change, key, had_value) else { return Ok(Attempt::Done(None)) };
        check_op(&op)?;
        let parts = [Part { generation, ops: std::slice::from_ref(&op) }];
        Ok(match self.commit_if_room(&parts, waited)? {
            Some(seqno) => {
                generation.updates.note_written(&op);
                Attempt::Done(Some(seqno))
            }
            None => Attempt::NeedsRoom(change),
        })
    }

    /// Leaves a read-modify-write to the engine, where there is no journal that must agree.
    fn rmw_in_engine(
        &self,
        slot: &Slot,
        key: &[u8],
        operator: &mut dyn Operator,
        device: Device,
        waited: &Waited,
    ) -> Result<Attempt> {
        let _held = self.locks.shared(slot.lock_id, key);
        // Again, since whoever closes the database flushes it under all locks.
        self.check_writable()?;
        let generation = slot.current()?;
        self.rmw_numbered(&generation, key, operator, device, waited, self.sequence.begin())
    }

    /// The same with its number; the key is locked, shared.
    pub(crate) fn rmw_numbered(
        &self,
        generation: &Generation,
        key: &[u8],
        operator: &mut dyn Operator,
        device: Device,
        waited: &Waited,
        ticket: Ticket<'_>,
    ) -> Result<Attempt> {
        let engine: &dyn Engine = &*generation.engine;
        let mut witness = Witness {
            operator,
            engine,
            key,
            waited,
            values_end: generation.expiry.is_some(),
            changes: false,
            put_bytes: None,
            end_ms: None,
            held_up: None,
        };
        let seqno = ticket.seqno();
        // Whether it will change anything nobody knows before.
        self.note(&[Part { generation, ops: &[Op::Delete { key }] }], seqno);
        let done = match device {
            Device::LeftAlone => engine.rmw_at_once(key, &mut witness, seqno),
            Device::WaitedFor => engine.rmw(key, &mut witness, seqno).map(|()| true),
        };
        match done {
            Ok(true) => {}
            Ok(false) => return Ok(Attempt::NeedsDevice),
            Err(error) if error.is_refusal() => return Err(error.into()),
            // Of what was read; nothing was written [M4].
            Err(error @ (EngineError::Corruption(_) | EngineError::NewerVersion(_))) => {
                return Err(error.into());
            }
            // The same: an engine whose own writes fail takes no more of them, and says so.
            Err(error @ EngineError::Device(_)) if device == Device::WaitedFor => {
                return Err(error.into());
            }
            Err(error) => return Err(self.fail_for_good(error.into())),
        }
        match witness.held_up {
            Some(Ok(change)) => return Ok(Attempt::NeedsRoom(change)),
            Some(Err(refusal)) => return Err(refusal.into()),
            None if !witness.changes => return Ok(Attempt::Done(None)),
            None => {}
        }
        generation.note_applied(seqno);
        if let Some(bytes) = witness.put_bytes {
            generation.updates.note_put(key, bytes);
        }
        // Not before it is there: a pass that began in between would forget the end, and not meet it.
        if let (Some(expiry), Some(end_ms)) = (&generation.expiry, witness.end_ms) {
            expiry.note_end(end_ms);
        }
        drop(ticket);
        Ok(Attempt::Done(Some(seqno)))
    }
}

/// What an operator makes of the value that the key has, if it has one.
pub(crate) fn decide(operator: &mut dyn Operator, had_value: bool, mut value: Vec<u8>) -> Change {
    if had_value && operator.update_in_place(&mut value) {
        return Change::Put(value);
    }
    operator.update(had_value.then_some(value.as_slice()))
}

/// The step that such a decision takes, if any: no tombstone for what is not there.
pub(crate) fn op_of<'a>(change: &'a Change, key: &'a [u8], had_value: bool) -> Option<Op<'a>> {
    match change {
        Change::Put(value) => Some(Op::Put { key, value }),
        Change::Delete if had_value => Some(Op::Delete { key }),
        Change::Delete | Change::Keep => None,
    }
}

/// Told of the one look-up of a seat.
struct Ended<'a> {
    with: &'a mut dyn FnMut(Old<'_>),
    error: Option<EngineError>,
}

impl Listener for Ended<'_> {
    fn value(&mut self, _tag: u64, _value: engine::Result<Option<&[u8]>>) {
        unreachable!("no get was begun")
    }

    fn old(&mut self, _tag: u64, old: engine::Result<Old<'_>>) {
        match old {
            Ok(old) => (self.with)(old),
            Err(error) => self.error = Some(error),
        }
    }
}

/// An operator, and what its last answer was, of which the engine is told where it has room for it.
struct Witness<'a> {
    operator: &'a mut dyn Operator,
    engine: &'a dyn Engine,
    key: &'a [u8],
    waited: &'a Waited,
    values_end: bool,
    changes: bool,
    /// Bytes of the value that it has put, unless it was changed in place.
    put_bytes: Option<usize>,
    /// When the value ends that it has put.
    end_ms: Option<u64>,
    /// What there was no room for, or why it was refused; then nothing changes.
    held_up: Option<engine::Result<Change>>,
}

impl Witness<'_> {
    fn end_of(&self, stored: &[u8]) -> Option<u64> {
        if self.values_end { end_of(stored) } else { None }
    }

    /// The change if there is room for it, or no change.
    fn if_room(&mut self, change: Change) -> Change {
        let Some(op) = op_of(&change, self.key, true) else { return change };
        let ops = std::slice::from_ref(&op);
        if self.waited.is_enough_for(ops) {
            return change;
        }
        self.held_up = match self.engine.admit_at_once(ops) {
            Ok(true) => return change,
            Ok(false) => Some(Ok(change)),
            Err(refusal) => Some(Err(refusal)),
        };
        Change::Keep
    }
}

impl Operator for Witness<'_> {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        (self.held_up, self.put_bytes) = (None, None);
        self.changes = self.operator.update_in_place(value);
        self.end_ms = if self.changes { self.end_of(value) } else { None };
        self.changes
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let change = match self.operator.update(value) {
            // No tombstone for what is not there.
            Change::Delete if value.is_none() => Change::Keep,
            change => change,
        };
        self.held_up = None;
        let change = self.if_room(change);
        self.changes = change != Change::Keep;
        (self.put_bytes, self.end_ms) = match &change {
            Change::Put(stored) => (Some(stored.len()), self.end_of(stored)),
            Change::Delete | Change::Keep => (None, None),
        };
        change
    }
}
