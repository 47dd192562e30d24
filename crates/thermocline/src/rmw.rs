//! Read-modify-writes of one key: waiting for the device, at once, and of an old value that a seat has
//! looked up.
//!
//! 1. Under the key's lock the engine is asked for the old value, and the operator for the new one,
//!    which is committed like any write (steps 2 to 4 of [`crate::write`]). Where the engine orders
//!    writes itself the lock is shared, and the engine does it all.
//! 2. *At once*: the same, but given up, with nothing changed, where the device would have to be read.
//! 3. *Of an old value*: a seat has looked it up with no lock held. Now the key is locked, for this one
//!    alone, and the engine asked whether the value still is the newest (law L7 of the engine
//!    contract). If so the operator is asked and the new value committed; otherwise it begins anew
//!    with 2.
//!
//! # Invariants
//! - M1. From when the old value is the key's present one until the new one is applied, no other write
//!   of the key is applied: its lock is held, or the engine sees to it.
//! - M2. A seat's read-modify-writes hold a lock only while nothing waits for a read of the device, but
//!   for those that were pending when their keyspace was cleared.
//! - M3. What ended without a commit has changed nothing.

use std::sync::Arc;

use codec::SeqNo;
use engine::{Change, Engine, Old, Op, Operator, check_key};
use journal::Durability;

use crate::database::Inner;
use crate::error::Result;
use crate::key_locks::Held;
use crate::slot::{Generation, Slot};
use crate::write::{Part, check_op};

/// What has come of a read-modify-write.
#[derive(Debug)]
pub(crate) enum Tried {
    /// It is over; without a number if it changed nothing.
    Done(Option<SeqNo>),
    /// The device has to be read; nothing has changed.
    NeedsDevice,
}

/// Whether the device may be waited for, under the key's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    Waits,
    AtOnce,
}

impl Inner {
    /// Replaces one key's value by what `operator` makes of it. `None` if it changed nothing.
    pub(crate) fn rmw(
        &self,
        slot: &Slot,
        key: &[u8],
        operator: &mut dyn Operator,
        durability: Durability,
    ) -> Result<Option<SeqNo>> {
        let Tried::Done(seqno) = self.try_rmw(slot, key, operator, Patience::Waits)? else {
            unreachable!("who waits for the device comes to an end")
        };
        self.settle_rmw(slot, seqno, durability)
    }

    /// The same as far as memory knows the old value. Not settled.
    pub(crate) fn rmw_at_once(
        &self,
        slot: &Slot,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Tried> {
        self.try_rmw(slot, key, operator, Patience::AtOnce)
    }

    /// Goes on with the old value that was looked up in the engine of `generation`. Not settled.
    pub(crate) fn rmw_of_old(
        &self,
        slot: &Slot,
        generation: &Arc<Generation>,
        old: &Old<'_>,
        operator: &mut dyn Operator,
    ) -> Result<Tried> {
        self.check_writable()?;
        let held = self.locks.one(slot.lock_id, old.key);
        let current = slot.current()?;
        let is_current = Arc::ptr_eq(&*current, generation);
        if is_current && old.is_newest() {
            let change = operator.update(old.value);
            let had_value = old.value.is_some();
            return self.commit_change(&current, old.key, had_value, &change).map(Tried::Done);
        }
        drop((current, held));
        // The seat knows nothing of what fills a cleared keyspace, of which memory mostly knows all.
        let patience = if is_current { Patience::AtOnce } else { Patience::Waits };
        self.try_rmw(slot, old.key, operator, patience)
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

    fn try_rmw(
        &self,
        slot: &Slot,
        key: &[u8],
        operator: &mut dyn Operator,
        patience: Patience,
    ) -> Result<Tried> {
        self.check_writable()?;
        check_key(key)?;
        let _held = self.lock_one(slot, key);
        let generation = slot.current()?;
        if slot.orders_writes {
            return self.rmw_in_engine(&generation, key, operator, patience);
        }
        let mut value = Vec::new();
        let looked = match patience {
            Patience::Waits => Some(generation.engine.get(key, &mut value)?),
            Patience::AtOnce => generation.engine.get_at_once(key, &mut value)?,
        };
        let Some(had_value) = looked else { return Ok(Tried::NeedsDevice) };
        let change = if had_value && operator.update_in_place(&mut value) {
            Change::Put(value)
        } else {
            operator.update(had_value.then_some(value.as_slice()))
        };
        self.commit_change(&generation, key, had_value, &change).map(Tried::Done)
    }

    /// How one key is locked that a single write changes.
    pub(crate) fn lock_one(&self, slot: &Slot, key: &[u8]) -> Held<'_> {
        match slot.orders_writes {
            true => self.locks.shared(slot.lock_id, key),
            false => self.locks.one(slot.lock_id, key),
        }
    }

    /// Commits what the operator has decided; the key is locked for this one alone.
    fn commit_change(
        &self,
        generation: &Generation,
        key: &[u8],
        had_value: bool,
        change: &Change,
    ) -> Result<Option<SeqNo>> {
        let op = match change {
            Change::Put(value) => Op::Put { key, value },
            Change::Delete if had_value => Op::Delete { key },
            Change::Delete | Change::Keep => return Ok(None),
        };
        check_op(&op)?;
        self.commit(&[Part { generation, ops: std::slice::from_ref(&op) }]).map(Some)
    }

    /// Leaves a read-modify-write to the engine, where there is no journal that must agree.
    fn rmw_in_engine(
        &self,
        generation: &Generation,
        key: &[u8],
        operator: &mut dyn Operator,
        patience: Patience,
    ) -> Result<Tried> {
        self.check_writable()?;
        let engine: &dyn Engine = &*generation.engine;
        engine.admit(&[Op::Delete { key }])?;
        let mut witness = Witness { operator, changes: false };
        let ticket = self.sequence.begin();
        let seqno = ticket.seqno();
        let done = match patience {
            Patience::Waits => engine.rmw(key, &mut witness, seqno).map(|()| true),
            Patience::AtOnce => engine.rmw_at_once(key, &mut witness, seqno),
        };
        match done {
            Ok(true) => {}
            Ok(false) => return Ok(Tried::NeedsDevice),
            Err(error) if error.is_refusal() => return Err(error.into()),
            Err(error) => return Err(self.fail(error.into())),
        }
        if !witness.changes {
            return Ok(Tried::Done(None));
        }
        generation.note_applied(seqno);
        drop(ticket);
        Ok(Tried::Done(Some(seqno)))
    }
}

/// An operator, and whether its last answer changed anything.
struct Witness<'a> {
    operator: &'a mut dyn Operator,
    changes: bool,
}

impl Operator for Witness<'_> {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        self.changes = self.operator.update_in_place(value);
        self.changes
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let change = match self.operator.update(value) {
            // No tombstone for what is not there.
            Change::Delete if value.is_none() => Change::Keep,
            change => change,
        };
        self.changes = change != Change::Keep;
        change
    }
}
