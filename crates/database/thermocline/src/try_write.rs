//! Writes that must not wait: each is done as a whole, or nothing of it is.
//!
//! They follow [`crate::write`] and [`crate::rmw`] without each step that may wait. A write is
//! abandoned before it has changed anything in these cases:
//! 1. The journal is far too long, and a flush is making it shorter (`background.rs`).
//! 2. The engine has no room now, or slows writers down ([`engine::Wait::No`]).
//! 3. Another thread holds the lock of a key for longer than a write in memory takes.
//! 4. There is no number, or the group of the journal is full.
//!
//! Then a thread that may wait has to do it: the keyspace's thread for a future
//! ([`crate::async_writes`]), a thread of the caller for [`Keyspace::try_put`].

#[cfg(test)]
mod tests;

use std::time::Duration;

use codec::SeqNo;
use engine::{At, Change, Demand, Lookup, Op, Operator, check_key};

use crate::batch::{Batch, Step};
use crate::database::{Db, Inner};
use crate::error::Result;
use crate::expiry::ValueForm;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::{KeyspaceEntry, KeyspaceInstance};
use crate::rmw::{Attempt, Old, Tried, Wanted, decide, op_of};
use crate::rooms::{Granted, Group, Rooms, bytes_of, in_groups};
use crate::write::{Part, check_op, instances, pairs};

/// Limits of a write that must not wait. Longer ones are left to a thread that may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of keys and values.
    bytes: usize,
    /// Steps. Each locks a key and applies a change.
    steps: usize,
    /// The time to wait for a lock of a key. Another thread holds it for a write in memory, unless
    /// that waits.
    lock_wait: Duration,
}

impl Limits {
    /// Of a future's poll, which shares its thread with other futures.
    pub(crate) const POLL: Self = Self { bytes: 64 << 10, steps: 128, lock_wait: Duration::ZERO };
    /// Of a call, whose caller chooses the bytes and steps. Several threads may update one key in
    /// turn, so it waits for their updates in memory.
    pub(crate) const CALL: Self =
        Self { bytes: usize::MAX, steps: usize::MAX, lock_wait: Duration::from_micros(100) };
    /// Bytes of a new value that an engine makes itself.
    const UNKNOWN_BYTES_MAX: u64 = 64 << 10;
}

impl Keyspace {
    /// [`Keyspace::put`] without waiting for room in the engine, a shorter journal, a lock that
    /// another thread holds for long, or the handle's durability ([`Db::wait`] does). Returns
    /// `None` if it would have to wait; then nothing has changed, and a thread that may wait calls
    /// [`Keyspace::put`].
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn try_put(&self, key: &[u8], value: &[u8]) -> Result<Option<SeqNo>> {
        let stored = self.stored(value)?;
        self.inner.try_write_one(&self.entry, &self.put_op(key, &stored), Limits::CALL)
    }

    /// [`Keyspace::rmw_with`] as far as memory knows the old value, and without waiting, as
    /// [`Keyspace::try_put`]. If memory does not know it, a [`crate::Session`] looks the old value
    /// up. In a keyspace without a journal, a new value of more than 64 KiB has to wait, since its
    /// length is not known before it is made.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    #[inline]
    pub fn try_rmw(&self, key: &[u8], operator: &mut dyn Operator) -> Result<Tried> {
        self.inner.try_rmw(&self.entry, self.form, key, operator, Limits::CALL)
    }

    /// Waits for room for a short write in its engine, and while the journal is far too long. It
    /// keeps no room: the caller still has to be ready to wait, in [`Keyspace::put`].
    ///
    /// # Errors
    /// The database is closed, or takes no writes.
    pub fn wait_to_write(&self) -> Result<()> {
        self.inner.lifecycle.check_writable()?;
        self.inner.wait_for_journal_of(&self.entry);
        let instance = self.entry.current()?;
        // If that is refused, the write reports it.
        let _refused = Granted::reserve_for_value(&instance, b"any", engine::VALUE_BYTES_GUESSED);
        Ok(())
    }

    /// Returns whether a write has reached the handle's durability when it becomes visible.
    pub(crate) fn is_durable_without_wait(&self) -> bool {
        !self.entry.options.journaled || self.durability == journal::Durability::Buffered
    }
}

impl Db {
    /// [`Db::write`] without waiting, as [`Keyspace::try_put`]. A batch that merges or deletes
    /// ranges always has to wait.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn try_write(&self, batch: &Batch) -> Result<Option<SeqNo>> {
        if batch.steps().is_empty() {
            self.inner.lifecycle.check_writable()?;
            return Ok(Some(self.inner.order.sequence.visible()));
        }
        self.inner.try_write_batch(batch, Limits::CALL)
    }
}

impl Inner {
    /// Writes a put or a delete.
    pub(crate) fn try_write_one(
        &self,
        entry: &KeyspaceEntry,
        op: &Op<'_>,
        limits: Limits,
    ) -> Result<Option<SeqNo>> {
        self.lifecycle.check_writable()?;
        check_op(op)?;
        let key = op.key();
        let held = match entry.orders_writes {
            true => self.locks.try_shared(entry.lock_id, key, limits.lock_wait),
            false => self.locks.try_one(entry.lock_id, key, limits.lock_wait),
        };
        let Some(_held) = held else { return Ok(None) };
        // Again, since a close of the database holds all locks.
        self.lifecycle.check_writable()?;
        let instance = entry.current()?;
        self.try_commit(&[Group { instance: &instance, ops: std::slice::from_ref(op) }], limits)
    }

    /// Writes a batch. A batch that deletes ranges locks every key, and one that merges may read
    /// values from the device, so both are abandoned.
    pub(crate) fn try_write_batch(&self, batch: &Batch, limits: Limits) -> Result<Option<SeqNo>> {
        let steps = batch.steps();
        let moment = self.check_steps(steps)?;
        let is_left = |step: &Step| step.operand().is_some() || step.op(moment).is_range();
        if steps.is_empty() || steps.len() > limits.steps || steps.iter().any(is_left) {
            return Ok(None);
        }
        let held = self.locks.try_many(steps.iter().map(Step::place), limits.lock_wait);
        let Some(_held) = held else { return Ok(None) };
        self.lifecycle.check_writable()?;
        let instances = instances(steps)?;
        let steps = pairs(&instances, steps, moment);
        in_groups(steps, |groups| self.try_commit(groups, limits))
    }

    /// Steps 3 and 4 of a write, for keys that the caller has checked and locked.
    pub(crate) fn try_commit(
        &self,
        groups: &[Group<'_, '_>],
        limits: Limits,
    ) -> Result<Option<SeqNo>> {
        let bytes: usize = groups.iter().map(|group| bytes_of(group.ops)).sum();
        if bytes > limits.bytes {
            return Ok(None);
        }
        let journaled = groups.iter().any(|group| group.instance.journaled);
        if journaled && self.must_wait_for_journal() {
            return Ok(None);
        }
        // An engine refuses here what it never takes, before anything is journaled.
        if let [Group { instance, ops }] = groups {
            let Some(room) = Granted::or_more(None, instance, ops)? else { return Ok(None) };
            return self.try_commit_reserved(&mut [Part { instance, ops, room }], journaled);
        }
        match Rooms::default().of_parts(groups)? {
            Some(mut parts) => self.try_commit_reserved(&mut parts, journaled),
            None => Ok(None),
        }
    }

    /// Does a read-modify-write as far as memory knows the old value. Does not wait until the write
    /// is durable.
    pub(crate) fn try_rmw(
        &self,
        entry: &KeyspaceEntry,
        form: ValueForm,
        key: &[u8],
        operator: &mut dyn Operator,
        limits: Limits,
    ) -> Result<Tried> {
        self.lifecycle.check_writable()?;
        check_key(key)?;
        self.on_stored(entry, form, operator, |operator| match entry.orders_writes {
            true => self.try_rmw_in_engine(entry, key, operator, limits),
            false => self.try_rmw_locked(entry, key, operator, limits),
        })
    }

    /// Continues with an old value that was looked up. Does not wait until the write is durable.
    pub(crate) fn try_rmw_with_old(
        &self,
        entry: &KeyspaceEntry,
        form: ValueForm,
        old: &Old<'_>,
        operator: &mut dyn Operator,
    ) -> Result<Tried> {
        let limits = Limits::CALL;
        self.lifecycle.check_writable()?;
        let tried = self.on_stored(entry, form, operator, |operator| {
            let held = self.locks.try_one(entry.lock_id, old.key, limits.lock_wait);
            let Some(_held) = held else { return Ok(Tried::MustWait) };
            self.lifecycle.check_writable()?;
            let current = entry.current()?;
            if !old.is_newest_in(&current) {
                return Ok(Tried::NeedsRead);
            }
            let change = operator.update(old.value);
            self.try_change(&current, old.key, old.value.is_some(), &change, limits)
        })?;
        match tried {
            Tried::NeedsRead => self.try_rmw(entry, form, old.key, operator, limits),
            tried => Ok(tried),
        }
    }

    fn try_rmw_locked(
        &self,
        entry: &KeyspaceEntry,
        key: &[u8],
        operator: &mut dyn Operator,
        limits: Limits,
    ) -> Result<Tried> {
        let held = self.locks.try_one(entry.lock_id, key, limits.lock_wait);
        let Some(_held) = held else { return Ok(Tried::MustWait) };
        self.lifecycle.check_writable()?;
        let instance = entry.current()?;
        let mut value = Vec::new();
        let had_value = match instance.lookup(key, At::ForUpdate, &mut value)? {
            Lookup::Found => true,
            Lookup::Absent => false,
            Lookup::Pending(_) => return Ok(Tried::NeedsRead),
        };
        let change = decide(operator, had_value, value);
        self.try_change(&instance, key, had_value, &change, limits)
    }

    /// Commits the change that an operator has decided; the key is locked for this one alone.
    fn try_change(
        &self,
        instance: &KeyspaceInstance,
        key: &[u8],
        had_value: bool,
        change: &Change,
        limits: Limits,
    ) -> Result<Tried> {
        let Some(op) = op_of(change, key, had_value) else { return Ok(Tried::Done(None)) };
        check_op(&op)?;
        let group = Group { instance, ops: std::slice::from_ref(&op) };
        Ok(match self.try_commit(&[group], limits)? {
            Some(seqno) => {
                instance.updates.note_written(&op);
                Tried::Done(Some(seqno))
            }
            None => Tried::MustWait,
        })
    }

    /// Leaves a read-modify-write to the engine, if no journal has to agree.
    fn try_rmw_in_engine(
        &self,
        entry: &KeyspaceEntry,
        key: &[u8],
        operator: &mut dyn Operator,
        limits: Limits,
    ) -> Result<Tried> {
        let held = self.locks.try_shared(entry.lock_id, key, limits.lock_wait);
        let Some(_held) = held else { return Ok(Tried::MustWait) };
        self.lifecycle.check_writable()?;
        let instance = entry.current()?;
        let mut bytes_max = engine::VALUE_BYTES_GUESSED;
        loop {
            let room = instance.try_reserve(&Demand::Update { key, bytes_max })?;
            let Some(mut room) = room else { return Ok(Tried::MustWait) };
            let Some(ticket) = self.order.sequence.try_begin() else { return Ok(Tried::MustWait) };
            match self.rmw_numbered(&instance, key, operator, &mut room, ticket)? {
                Attempt::Done(seqno) => return Ok(Tried::Done(seqno)),
                Attempt::NeedsRead(_) => return Ok(Tried::NeedsRead),
                Attempt::NeedsRoom(Wanted::Value(bytes)) if bytes <= Limits::UNKNOWN_BYTES_MAX => {
                    bytes_max = bytes;
                }
                Attempt::NeedsRoom(_) => return Ok(Tried::MustWait),
            }
        }
    }
}
