//! Read-modify-writes of one key, which are complete or wait for the lookup of an old value.
//!
//! 1. *In memory.* Under the key's lock the engine looks the old value up, as far as memory knows
//!    it. The operator decides the new one, which is committed like any write (I4, and steps 3 and
//!    4 of [`crate::write`]). If the engine orders writes itself, the lock is shared, and the
//!    engine does all of it. If the device has to be read, the key is unlocked, with nothing
//!    changed.
//! 2. *With an old value.* The lookup is completed with no lock held. Then the key is locked
//!    exclusively, and the lookup says whether its value still is the newest (law L7 of the engine
//!    contract). If so, the operator decides, and the new value is committed. Otherwise the update
//!    begins again with 1.
//! 3. *Waiting.* A caller that waits does 1, and if the device is needed completes the lookup and
//!    does 2, until one of them has succeeded. Others have the lookup completed on a
//!    [`crate::Session`].
//!
//! Both begin with a reservation of room, with the key unlocked. The bytes of the new value are
//! known only later. If they are too many, and there is no more room without a wait, the key is
//! unlocked, the update waits for that much room, keeps it, and begins again (I4 of
//! [`crate::write`]).
//!
//! # Invariants
//! - M1. From the lookup of the key's present value until the new one is applied, no other write of
//!   the key is applied: its lock is held, or the engine ensures it.
//! - M2. While an update waits for a read of the device, it holds neither a lock nor a number of
//!   the sequence. So no other write, no snapshot and no flush waits for that read.
//! - M3. It holds neither while it waits for room. While it waits for a read, it holds no room.
//! - M4. An update that ended without a commit has changed nothing. So a read that failed is an
//!   error of its caller alone.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use codec::SeqNo;
use engine::{
    At, Change, Error as EngineError, Lookup, Op, Operator, PendingLookup, Reservation, Ticket,
    Updated, check_key,
};
use journal::Durability;

use crate::database::Inner;
use crate::error::Result;
use crate::expiry::{OnStored, ValueForm, expiry_of};
use crate::key_locks::Held;
use crate::keyspace_entry::{KeyspaceEntry, KeyspaceInstance};
use crate::rooms::Granted;
use crate::write::{Part, check_op};

/// The result of a read-modify-write that does not wait for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It is complete; without a number if it changed nothing.
    Done(Option<SeqNo>),
    /// The device has to be read; nothing has changed.
    NeedsRead,
    /// It would have to wait for room, the journal or a lock; nothing has changed. Only of calls
    /// that must not wait ([`crate::Keyspace::try_rmw`]).
    MustWait,
}

/// The result of an attempt with the key locked.
pub(crate) enum Attempt {
    /// It is complete; without a number if it changed nothing.
    Done(Option<SeqNo>),
    /// The device has to be read, or another write was first; nothing has changed. With the
    /// lookup, if it has begun.
    NeedsRead(Option<PendingOld>),
    /// There is no room for this now; nothing has changed.
    NeedsRoom(Wanted),
}

/// The write for which an update has found no room.
pub(crate) enum Wanted {
    /// The change that the operator has decided.
    Change(Change),
    /// A value with this number of bytes, which the engine has not kept.
    Value(u64),
}

/// The progress of a read-modify-write.
pub(crate) enum Advance {
    /// It is complete; without a number if it changed nothing.
    Done(Option<SeqNo>),
    /// The device has to be read for the old value; nothing has changed.
    Pending(PendingOld),
}

/// The lookup of an old value, and the engine that it reads.
pub(crate) struct PendingOld {
    pub(crate) instance: Arc<KeyspaceInstance>,
    pub(crate) lookup: Box<dyn PendingLookup>,
}

/// An old value that a lookup has found.
#[derive(Clone, Copy)]
pub(crate) struct Old<'a> {
    pub(crate) key: &'a [u8],
    /// The value, if the key had one.
    pub(crate) value: Option<&'a [u8]>,
    /// The engine that was read; none if the keyspace was cleared since.
    pub(crate) instance: Option<&'a Arc<KeyspaceInstance>>,
    pub(crate) lookup: &'a dyn PendingLookup,
}

impl Old<'_> {
    /// Returns whether the value is the newest of the key in the engine `current`, if the caller
    /// excludes other writes of the key.
    pub(crate) fn is_newest_in(&self, current: &Arc<KeyspaceInstance>) -> bool {
        let is_current = self.instance.is_some_and(|read| Arc::ptr_eq(read, current));
        is_current && self.lookup.is_newest()
    }
}

impl Inner {
    /// Replaces one key's value by what `operator` makes of it. `None` if it changed nothing. Waits
    /// for the device where the old value is there. [M2]
    pub(crate) fn rmw(
        &self,
        entry: &KeyspaceEntry,
        form: ValueForm,
        key: &[u8],
        operator: &mut dyn Operator,
        durability: Durability,
    ) -> Result<Option<SeqNo>> {
        let seqno = self.on_stored(entry, form, operator, |operator| {
            self.rmw_not_durable(entry, key, operator)
        })?;
        self.wait_rmw_durable(entry, seqno, durability)
    }

    /// The same with values in their stored form, without a wait for its durability.
    pub(crate) fn rmw_not_durable(
        &self,
        entry: &KeyspaceEntry,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Option<SeqNo>> {
        let mut value = Vec::new();
        loop {
            let PendingOld { instance, lookup } = match self.advance_stored(entry, key, operator)? {
                Advance::Done(seqno) => return Ok(seqno),
                Advance::Pending(pending) => pending,
            };
            let completed = instance.reads.complete_pending(lookup, &mut value);
            let (is_found, lookup) = instance.placed(completed)?;
            let value = is_found.then_some(value.as_slice());
            let old = Old { key, value, instance: Some(&instance), lookup: &*lookup };
            if let Some(seqno) = self.try_with_old(entry, &old, operator)? {
                return Ok(seqno);
            }
        }
    }

    /// Does a read-modify-write as far as memory knows the old value. Does not wait until the write
    /// is durable.
    pub(crate) fn advance_rmw(
        &self,
        entry: &KeyspaceEntry,
        form: ValueForm,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Advance> {
        self.on_stored(entry, form, operator, |operator| self.advance_stored(entry, key, operator))
    }

    fn advance_stored(
        &self,
        entry: &KeyspaceEntry,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Advance> {
        self.lifecycle.check_writable()?;
        check_key(key)?;
        let mut wanted = None;
        loop {
            let instance = entry.current()?;
            let granted = self.reserve_to_update(entry, &instance, key, wanted.as_ref())?;
            match self.rmw_locked(entry, &instance, key, operator, granted)? {
                Attempt::Done(seqno) => return Ok(Advance::Done(seqno)),
                Attempt::NeedsRead(Some(pending)) => return Ok(Advance::Pending(pending)),
                Attempt::NeedsRead(None) => {
                    if let Some(pending) = self.lookup_old(entry, key)? {
                        return Ok(Advance::Pending(pending));
                    }
                }
                Attempt::NeedsRoom(change) => wanted = Some(change),
            }
        }
    }

    /// Begins to look an old value up, with nothing locked; none if memory knows it now.
    pub(crate) fn lookup_old(
        &self,
        entry: &KeyspaceEntry,
        key: &[u8],
    ) -> Result<Option<PendingOld>> {
        let instance = entry.instance()?;
        let lookup = instance.lookup(key, At::ForUpdate, &mut Vec::new())?;
        let Lookup::Pending(lookup) = lookup else { return Ok(None) };
        Ok(Some(PendingOld { instance, lookup }))
    }

    /// Reserves room for an update of the key, with nothing locked: for the change that has found
    /// none, or for a value of a usual length. Returns `None` if such a value is refused, because
    /// the operator may decide otherwise.
    fn reserve_to_update<'g>(
        &self,
        entry: &KeyspaceEntry,
        instance: &'g KeyspaceInstance,
        key: &[u8],
        wanted: Option<&Wanted>,
    ) -> Result<Option<Granted<'g>>> {
        self.wait_for_journal_of(entry);
        let (change, bytes_max) = match wanted {
            Some(Wanted::Change(change)) => (change, 0),
            Some(Wanted::Value(bytes)) => (&Change::Keep, *bytes),
            None => (&Change::Keep, engine::VALUE_BYTES_GUESSED),
        };
        if let Some(op) = op_of(change, key, true) {
            return Granted::reserve(instance, std::slice::from_ref(&op)).map(Some);
        }
        match Granted::reserve_for_value(instance, key, bytes_max) {
            Err(_) if wanted.is_none() && !entry.orders_writes => Ok(None),
            granted => granted.map(Some),
        }
    }

    /// Calls `with` with an operator on stored values, which does what `operator` does on values in
    /// that form.
    #[inline]
    pub(crate) fn on_stored<T>(
        &self,
        entry: &KeyspaceEntry,
        form: ValueForm,
        operator: &mut dyn Operator,
        with: impl FnOnce(&mut dyn Operator) -> Result<T>,
    ) -> Result<T> {
        if !entry.options.expiring {
            return with(operator);
        }
        let mut on_stored = OnStored::new(operator, form, &self.options.environment);
        let done = with(&mut on_stored);
        on_stored.outcome(done)
    }

    /// Does it in memory, with the room that was reserved.
    fn rmw_locked(
        &self,
        entry: &KeyspaceEntry,
        instance: &Arc<KeyspaceInstance>,
        key: &[u8],
        operator: &mut dyn Operator,
        granted: Option<Granted<'_>>,
    ) -> Result<Attempt> {
        if entry.orders_writes {
            return self.rmw_in_engine(entry, instance, key, operator, granted);
        }
        let _held = self.locks.one(entry.lock_id, key);
        // Again, since a thread that closes the database does so with everything locked.
        self.lifecycle.check_writable()?;
        if !entry.is_filled_by(instance)? {
            return Ok(Attempt::NeedsRead(None));
        }
        let mut value = Vec::new();
        let had_value = match instance.lookup(key, At::ForUpdate, &mut value)? {
            Lookup::Found => true,
            Lookup::Absent => false,
            Lookup::Pending(lookup) => {
                let instance = Arc::clone(instance);
                return Ok(Attempt::NeedsRead(Some(PendingOld { instance, lookup })));
            }
        };
        let change = decide(operator, had_value, value);
        self.commit_change(instance, key, had_value, change, granted)
    }

    /// Continues with an old value that was looked up. Does not wait until the write is durable.
    /// Returns none, with nothing changed, if the value is not the newest any more.
    pub(crate) fn rmw_with_old(
        &self,
        entry: &KeyspaceEntry,
        form: ValueForm,
        old: &Old<'_>,
        operator: &mut dyn Operator,
    ) -> Result<Option<Option<SeqNo>>> {
        self.on_stored(entry, form, operator, |operator| self.try_with_old(entry, old, operator))
    }

    fn try_with_old(
        &self,
        entry: &KeyspaceEntry,
        old: &Old<'_>,
        operator: &mut dyn Operator,
    ) -> Result<Option<Option<SeqNo>>> {
        self.lifecycle.check_writable()?;
        let mut wanted = None;
        loop {
            let instance = entry.current()?;
            let granted = self.reserve_to_update(entry, &instance, old.key, wanted.as_ref())?;
            match self.rmw_of_stored(entry, &instance, old, operator, granted)? {
                Attempt::Done(seqno) => return Ok(Some(seqno)),
                Attempt::NeedsRead(_) => return Ok(None),
                Attempt::NeedsRoom(change) => wanted = Some(change),
            }
        }
    }

    /// Does it with the old value, and the room that was reserved.
    fn rmw_of_stored(
        &self,
        entry: &KeyspaceEntry,
        instance: &Arc<KeyspaceInstance>,
        old: &Old<'_>,
        operator: &mut dyn Operator,
        granted: Option<Granted<'_>>,
    ) -> Result<Attempt> {
        let _held = self.locks.one(entry.lock_id, old.key);
        self.lifecycle.check_writable()?;
        if !entry.is_filled_by(instance)? || !old.is_newest_in(instance) {
            return Ok(Attempt::NeedsRead(None));
        }
        let change = operator.update(old.value);
        self.commit_change(instance, old.key, old.value.is_some(), change, granted)
    }

    /// Waits until a read-modify-write has reached `durability`, if it changed anything.
    pub(crate) fn wait_rmw_durable(
        &self,
        entry: &KeyspaceEntry,
        seqno: Option<SeqNo>,
        durability: Durability,
    ) -> Result<Option<SeqNo>> {
        let acknowledge = |seqno| self.acknowledge(seqno, entry.options.journaled, durability);
        seqno.map(acknowledge).transpose()
    }

    /// How one key is locked that a single write changes.
    pub(crate) fn lock_one(&self, entry: &KeyspaceEntry, key: &[u8]) -> Held<'_> {
        match entry.orders_writes {
            true => self.locks.shared(entry.lock_id, key),
            false => self.locks.one(entry.lock_id, key),
        }
    }

    /// Commits the change that the operator has decided, if there is room; the key is locked for
    /// this update alone.
    fn commit_change(
        &self,
        instance: &KeyspaceInstance,
        key: &[u8],
        had_value: bool,
        change: Change,
        granted: Option<Granted<'_>>,
    ) -> Result<Attempt> {
        let Some(op) = op_of(&change, key, had_value) else { return Ok(Attempt::Done(None)) };
        check_op(&op)?;
        let ops = std::slice::from_ref(&op);
        let Some(room) = Granted::or_more(granted, instance, ops)? else {
            return Ok(Attempt::NeedsRoom(Wanted::Change(change)));
        };
        let seqno = self.commit_reserved(&mut [Part { instance, ops, room }])?;
        instance.updates.note_written(&op);
        Ok(Attempt::Done(Some(seqno)))
    }

    /// Leaves a read-modify-write to the engine, if no journal has to agree.
    fn rmw_in_engine(
        &self,
        entry: &KeyspaceEntry,
        instance: &Arc<KeyspaceInstance>,
        key: &[u8],
        operator: &mut dyn Operator,
        granted: Option<Granted<'_>>,
    ) -> Result<Attempt> {
        let _held = self.locks.shared(entry.lock_id, key);
        // Again, since a close of the database flushes it under all locks.
        self.lifecycle.check_writable()?;
        if !entry.is_filled_by(instance)? {
            return Ok(Attempt::NeedsRead(None));
        }
        let mut room = granted.map_or_else(Reservation::uncounted, |granted| granted.room);
        let ticket = self.order.begin(&self.options.environment);
        self.rmw_numbered(instance, key, operator, &mut room, ticket)
    }

    /// The same with its number; the key is locked, shared.
    pub(crate) fn rmw_numbered(
        &self,
        instance: &KeyspaceInstance,
        key: &[u8],
        operator: &mut dyn Operator,
        room: &mut Reservation<'_>,
        ticket: Ticket<'_>,
    ) -> Result<Attempt> {
        let mut witness = Witness {
            operator,
            expiring: instance.expiry.is_some(),
            changes: false,
            put_bytes: None,
            expiry_ms: None,
        };
        let seqno = ticket.seqno();
        // Whether it will change anything is not known before.
        self.order.note_write(instance, &[Op::Delete { key }], seqno);
        let Some(updates) = instance.engine.updates() else {
            unreachable!("an engine that orders writes has updates")
        };
        match updates.try_update(key, &mut witness, seqno, room) {
            Ok(Updated::Done) => {}
            Ok(Updated::NeedsRead) => return Ok(Attempt::NeedsRead(None)),
            Ok(Updated::NeedsRoom { bytes }) => {
                return Ok(Attempt::NeedsRoom(Wanted::Value(bytes)));
            }
            Err(error) if error.is_refused() => return Err(error.into()),
            // Of the bytes that were read; nothing was written [M4].
            Err(error @ (EngineError::Corruption(_) | EngineError::NewerVersion(_))) => {
                return Err(error.into());
            }
            Err(error) => return Err(self.lifecycle.fail_for_good(error.into())),
        }
        if !witness.changes {
            return Ok(Attempt::Done(None));
        }
        instance.note_applied(seqno);
        if let Some(bytes) = witness.put_bytes {
            instance.updates.note_put(key, bytes);
        }
        // Not before it is there: a pass that began in between would forget the end, and not find
        // it.
        if let (Some(expiry), Some(expiry_ms)) = (&instance.expiry, witness.expiry_ms) {
            expiry.note_expiry(expiry_ms);
        }
        drop(ticket);
        Ok(Attempt::Done(Some(seqno)))
    }
}

/// Returns the change that an operator decides on, given the key's value if it has one.
pub(crate) fn decide(operator: &mut dyn Operator, had_value: bool, mut value: Vec<u8>) -> Change {
    if had_value && operator.update_in_place(&mut value) {
        return Change::Put(value);
    }
    operator.update(had_value.then_some(value.as_slice()))
}

/// Returns the step that makes this change, if there is one. A delete of a key without a value
/// writes no tombstone.
pub(crate) fn op_of<'a>(change: &'a Change, key: &'a [u8], had_value: bool) -> Option<Op<'a>> {
    match change {
        Change::Put(value) => Some(Op::Put { key, value }),
        Change::Delete if had_value => Some(Op::Delete { key }),
        Change::Delete | Change::Keep => None,
    }
}

/// An operator, and its last decision.
struct Witness<'a> {
    operator: &'a mut dyn Operator,
    expiring: bool,
    changes: bool,
    /// Bytes of the value that it has put, unless it was changed in place.
    put_bytes: Option<usize>,
    /// The expiry of the value that it has put.
    expiry_ms: Option<u64>,
}

impl Witness<'_> {
    fn expiry_of(&self, stored: &[u8]) -> Option<u64> {
        if self.expiring { expiry_of(stored) } else { None }
    }
}

impl Operator for Witness<'_> {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        self.put_bytes = None;
        self.changes = self.operator.update_in_place(value);
        self.expiry_ms = if self.changes { self.expiry_of(value) } else { None };
        self.changes
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let change = match self.operator.update(value) {
            // A key without a value gets no tombstone.
            Change::Delete if value.is_none() => Change::Keep,
            change => change,
        };
        self.changes = change != Change::Keep;
        (self.put_bytes, self.expiry_ms) = match &change {
            Change::Put(stored) => (Some(stored.len()), self.expiry_of(stored)),
            Change::Delete | Change::Keep => (None, None),
        };
        change
    }
}
