//! Transactions: reads of one moment, and writes that are made only if those reads are still
//! current.
//!
//! 1. *Begin*: writes are noted from now on ([`engine::RecentWrites`]), and a moment is pinned.
//! 2. *Reads* show that moment and the transaction's own writes. In a keyspace that keeps an order,
//!    a view shows the moment. In one that keeps none, the newest value is read. It is the value of
//!    the moment unless the key was noted since; then the read fails immediately with a conflict.
//!    Reads of others' writes are remembered, by key or by range ([`reads`]).
//! 3. *Writes* are kept in memory, and block no other thread. A merge is made at the commit, from
//!    the value that is there then, and is no read.
//! 4. *Commit*: the engines reserve room for the writes. The stripes of all keys that were written
//!    or read are locked, or every stripe if a range was read or is deleted. The notes show whether
//!    any key that was read was written since the moment. If none was, the writes are one batch
//!    like any other (steps 4 to 6 of [`crate::write`]). A transaction without writes has nothing
//!    to commit.
//!
//! # Invariants
//! - X1. Everything that a transaction reads is as of its moment, whether it is committed or not.
//! - X2. A transaction that commits writes could have run alone, at the moment when it took its
//!   number. From the check of its reads until its writes are applied, no write of a key that it
//!   read is under way. Writes that ended earlier were noted before they were applied. A write
//!   holds its key's lock from before it is noted until after it is applied.
//! - X3. A transaction without writes could have run alone, at its moment (X1).
//! - X4. No lock is held while a transaction is open, nor while it waits for a durability, for
//!   room, or for an engine that slows writers down. If there is no room for the results of its
//!   merges, it waits for room with nothing locked, and checks and merges again.
//!
//! # Concurrency
//! Lock order: key locks as always, then a shard of the notes. A transaction's own lock is held
//! only to remember its reads and writes.

mod body;
mod held;
mod reads;
mod scan;
#[cfg(test)]
mod tests;
mod writes;

use std::fmt;
use std::sync::Arc;

use codec::SeqNo;
use device::OfProcess;
use engine::{Demand, Direction, InOrder, KeyRange, Op, Pin, Watch, check_key, check_value};
use journal::Durability;
use sync::locks::Mutex;

use crate::database::{Db, OpenGuard};
use crate::error::{Error, Result};
use crate::expiry::ClockReading;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::KeyspaceInstance;
use crate::old_values::OldValues;
use crate::rooms::{Rooms, in_groups};
use crate::snapshot::PinnedEngines;
use crate::write::check_op;

pub use body::TransactionOptions;
use held::Held;
use reads::Reads;
pub use scan::TransactionScan;
use writes::{Made, Own, Writes};

/// A transaction: see [`Db::begin`]. Dropping it rolls it back.
pub struct Transaction {
    inner: Arc<OpenGuard>,
    durability: Durability,
    pin: OfProcess<Arc<Pin>>,
    /// The clock reading that decides which values have expired.
    clock: ClockReading,
    watch: OfProcess<Watch>,
    state: OfProcess<Mutex<State>>,
}

struct State {
    /// The engines of the moment, by the entries' lock ids.
    instances: Vec<(u32, Arc<KeyspaceInstance>)>,
    reads: Reads,
    writes: Writes,
    held: Held,
    /// Of a read: it cannot commit any more.
    conflict: Option<Error>,
}

impl Db {
    /// Begins a transaction over any keyspaces of this database. It shows their present state with
    /// its own writes, and locks no other thread out. [`Transaction::commit`] makes its writes, all
    /// or none, if no other writer has written a key that it read. [`Db::transaction`] starts over
    /// by itself after such a conflict.
    ///
    /// Transactions are serializable, also with all other writes. The place of each in that order
    /// is between its beginning and the end of its commit. By the clock no value expires during a
    /// transaction: a value that had not expired at its beginning stays visible.
    ///
    /// An open transaction holds back old versions, as a snapshot does. The keys that other threads
    /// write are noted, in at most a 64th of [`crate::Options::memory_bytes`]. If more is written
    /// while the transaction is open, it cannot commit ([`Error::TransactionTooOld`]).
    ///
    /// The keys that it has read and its pending writes count as used memory until it commits. If
    /// no memory is left, it may hold a 64th of the memory, or 64 KiB. Beyond that, its reads and
    /// writes are refused ([`Error::TransactionTooLarge`]), and the transaction is unchanged.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use thermocline::{Db, Error, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let stock = db.keyspace("stock", Default::default())?;
    /// stock.put(b"apples", b"1")?;
    ///
    /// let sale = db.begin()?;
    /// assert_eq!(sale.get(&stock, b"apples")?.as_deref(), Some(&b"1"[..]));
    /// sale.put(&stock, b"apples", b"0")?;
    /// stock.put(b"apples", b"7")?; // somebody else's delivery
    /// let Err(Error::Conflict { keyspace, key }) = sale.commit() else { panic!("a lost update") };
    /// assert_eq!((keyspace.as_str(), &key[..]), ("stock", &b"apples"[..]));
    /// assert_eq!(stock.get(b"apples")?.as_deref(), Some(&b"7"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn begin(&self) -> Result<Transaction> {
        self.inner.lifecycle.check_open()?;
        let watch = OfProcess::new(self.inner.order.watch());
        let pinned = self.inner.pin_engines(|_| true)?;
        let PinnedEngines { pin, moment: clock, instances } = pinned;
        let (reads, writes, conflict) = Default::default();
        let held = Held::new(&self.inner.factory.memory.shares().whole);
        let state = OfProcess::new(Mutex::new(State { instances, reads, writes, held, conflict }));
        let (inner, pin) = (Arc::clone(&self.inner), OfProcess::new(pin));
        Ok(Transaction { inner, durability: self.durability, pin, clock, watch, state })
    }
}

impl State {
    /// Counts an entry of these lengths, which is about to be remembered, in addition to all
    /// others.
    fn hold(&mut self, more: usize) -> Result<()> {
        self.held.reach(self.reads.bytes() + self.writes.bytes() + entry_bytes(more))
    }

    /// Returns the engine that filled the keyspace at the moment. For a keyspace that was made
    /// later it is the first engine, which had no pairs at the moment.
    fn instance(&mut self, keyspace: &Keyspace) -> Result<Arc<KeyspaceInstance>> {
        let lock_id = keyspace.entry.lock_id;
        if let Some((_, known)) = self.instances.iter().find(|(id, _)| *id == lock_id) {
            return Ok(Arc::clone(known));
        }
        let made_later = keyspace.entry.instance()?;
        self.instances.push((lock_id, Arc::clone(&made_later)));
        Ok(made_later)
    }
}

/// Returns the bytes of memory that a key takes, with a value of its own or an operand; all its
/// bytes are `len`.
const fn entry_bytes(len: usize) -> u64 {
    /// Lengths and pointers, and its share of a tree or a table.
    const OVERHEAD_BYTES: u64 = 80;
    len as u64 + OVERHEAD_BYTES
}

impl Transaction {
    /// Returns the newest write of others that it shows.
    pub fn seqno(&self) -> SeqNo {
        self.pin.seqno()
    }

    /// Returns the key's value at the transaction's moment, or the one that the transaction has
    /// given it.
    ///
    /// # Errors
    /// [`Error::Conflict`] for a keyspace that keeps no order, if the key was written since: its
    /// value at the moment is not known any more. Otherwise as [`Keyspace::get`].
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.multi_get(keyspace, &[key])?.pop().flatten())
    }

    /// The same for many keys, in their order. In a keyspace that keeps no order, the reads of its
    /// device overlap, as in [`Keyspace::multi_get`].
    ///
    /// # Errors
    /// As [`Transaction::get`], of any of them. All of them count as read then, too.
    pub fn multi_get(&self, keyspace: &Keyspace, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.check(keyspace)?;
        let mut values = vec![None; keys.len()];
        // The keys to read from others' writes, and their places.
        let (mut wanted, mut places) = (Vec::new(), Vec::new());
        // The operands that are merged into those values.
        let mut merges = Vec::new();
        let mut state = self.state.lock();
        let instance = state.instance(keyspace)?;
        for (place, key) in keys.iter().enumerate() {
            match state.writes.get(keyspace, key) {
                Some(Own::Value(stored)) => {
                    let shown = stored.as_ref().map(|stored| keyspace.shown(stored).to_vec());
                    values[place] = shown;
                    continue;
                }
                Some(own) => merges.push((place, own.clone())),
                None => {}
            }
            state.hold(key.len())?;
            state.reads.add_key(keyspace, &instance, key);
            wanted.push(*key);
            places.push(place);
        }
        drop(state);
        if wanted.is_empty() {
            return Ok(values);
        }
        let mut found = |index: usize, value: Option<&[u8]>| {
            values[places[index]] = value.map(<[u8]>::to_vec);
        };
        self.read_others(keyspace, &instance, &wanted, &mut found)?;
        for (place, own) in merges {
            values[place] = own.over(keyspace, self.clock, keys[place], values[place].take())?;
        }
        Ok(values)
    }

    /// Reads the values that others had given the keys at the moment; these keys are already
    /// counted among the reads.
    fn read_others(
        &self,
        keyspace: &Keyspace,
        instance: &KeyspaceInstance,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        if keyspace.is_ordered() {
            let (at, mut value) = ((self.clock, self.pin.as_ref()), Vec::new());
            for (index, key) in keys.iter().enumerate() {
                let is_there = instance.get_pinned(keyspace.form, at, key, &mut value)?;
                found(index, is_there.then_some(&value));
            }
            return Ok(());
        }
        instance.multi_get_at(keyspace.form, self.clock, keys, found)?;
        // After the reads: a write that they may have seen is already noted [X1].
        let recent = &self.inner.order.recent;
        let check = |key: &&[u8]| recent.check_key(instance.id, key, self.seqno());
        keys.iter().try_for_each(check).map_err(|overtaken| {
            let conflict = Error::overtaken(keyspace, overtaken);
            self.state.lock().conflict = Some(conflict.clone());
            conflict
        })
    }

    /// Gives `key` the value `value` when the transaction commits; this transaction sees it
    /// immediately.
    ///
    /// # Errors
    /// [`crate::error::Engine::KeyTooLong`], [`crate::error::Engine::ValueTooLong`].
    pub fn put(&self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        self.put_stored(keyspace, key, &keyspace.stored(value)?)
    }

    /// The same with a value that expires, as [`crate::ExpiringKeyspace::put`] does. An expiry that
    /// was past when the transaction began removes the key.
    ///
    /// # Errors
    /// [`Error::NotExpiring`]; otherwise as [`Transaction::put`].
    pub fn put_with_expiry(
        &self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
    ) -> Result<()> {
        self.put_stored(keyspace, key, &keyspace.stored_with_expiry(value, expiry_ms)?)
    }

    fn put_stored(&self, keyspace: &Keyspace, key: &[u8], stored: &[u8]) -> Result<()> {
        self.check(keyspace)?;
        check_key(key)?;
        check_value(stored)?;
        let value = keyspace.put_op_at(self.clock, key, stored).value();
        let mut state = self.state.lock();
        state.hold(key.len() + value.map_or(0, <[u8]>::len))?;
        state.writes.set(keyspace, key, value);
        Ok(())
    }

    /// Merges `operand` into the key's value when the transaction commits. The keyspace's merge
    /// operator makes the new value from `operand` and the key's value at that time, or the value
    /// that this transaction has given it. This transaction sees the result immediately. The key
    /// does not count as read unless the transaction reads it, so transactions that merge into the
    /// same keys do not conflict. Values that are on disk are read at the commit, with the
    /// transaction's keys locked.
    ///
    /// # Errors
    /// As [`Keyspace::merge`]. If the operator refuses the value that the key has at the commit,
    /// the commit fails.
    pub fn merge(&self, keyspace: &Keyspace, key: &[u8], operand: &[u8]) -> Result<()> {
        self.check(keyspace)?;
        check_key(key)?;
        check_value(operand)?;
        let mut state = self.state.lock();
        state.hold(key.len() + operand.len())?;
        state.writes.merge(keyspace, self.clock, key, operand)
    }

    /// Removes `key` when the transaction commits; this transaction sees it immediately.
    ///
    /// # Errors
    /// [`crate::error::Engine::KeyTooLong`].
    pub fn delete(&self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        self.check(keyspace)?;
        check_key(key)?;
        let mut state = self.state.lock();
        state.hold(key.len())?;
        state.writes.set(keyspace, key, None);
        Ok(())
    }

    /// Removes every key in `range` when the transaction commits, also keys that others have put
    /// there until then. This transaction sees it immediately, and its later puts to the range
    /// stay. Nothing of the range counts as read.
    ///
    /// # Errors
    /// [`crate::error::Engine::Unordered`] from an engine that keeps no order, and
    /// [`crate::error::Engine::NoRangeDeletes`] from one that cannot: now, and nothing has changed.
    pub fn delete_range(&self, keyspace: &Keyspace, range: &KeyRange) -> Result<()> {
        self.check(keyspace)?;
        let Some((start, end)) = range.half_open() else { return Ok(()) };
        let op = Op::DeleteRange { start: &start, end: end.as_deref() };
        check_op(&op)?;
        let instance = keyspace.entry.instance()?;
        if !instance.engine.capabilities().deletes_ranges {
            // The engine's own error.
            drop(instance.reserve(&Demand::Ops(&[op]))?);
        }
        let mut state = self.state.lock();
        state.hold(start.len() + end.as_ref().map_or(0, Vec::len))?;
        state.writes.delete_range(keyspace, start, end);
        Ok(())
    }

    /// Returns a scan of the pairs of `range` in key order, at the transaction's moment and with
    /// its writes so far. The part of the range that the scan has passed counts as read: if another
    /// writer writes a key there, even a new one, the transaction does not commit.
    ///
    /// # Errors
    /// [`crate::error::Engine::Unordered`] from a keyspace that keeps no order.
    pub fn scan(&self, keyspace: &Keyspace, range: KeyRange) -> Result<TransactionScan<'_>> {
        self.scan_in(keyspace, range, Direction::Forward)
    }

    /// The same from the last pair to the first.
    pub fn scan_reverse(
        &self,
        keyspace: &Keyspace,
        range: KeyRange,
    ) -> Result<TransactionScan<'_>> {
        self.scan_in(keyspace, range, Direction::Backward)
    }

    /// The same in the order of `direction`.
    pub fn scan_in(
        &self,
        keyspace: &Keyspace,
        range: KeyRange,
        direction: Direction,
    ) -> Result<TransactionScan<'_>> {
        self.check(keyspace)?;
        keyspace.check_order(InOrder::Scan)?;
        let mut state = self.state.lock();
        let instance = state.instance(keyspace)?;
        let own = state.writes.in_range(keyspace, &range, direction);
        let own = (own, state.writes.deleted(keyspace));
        state.hold(0)?;
        let place = state.reads.add_range(keyspace, &instance, range.clone());
        drop(state);
        let at = (self.clock, Arc::clone(&self.pin));
        let cursor = instance.scan(keyspace.form, at, range, direction)?;
        let shown = (keyspace.clone(), self.clock);
        let cursor = (cursor, instance);
        Ok(TransactionScan::new(&self.state, shown, place, cursor, own, direction))
    }

    /// Makes the writes, all of them or none. When this returns they are visible and have reached
    /// the durability of the handle that began the transaction. Returns their number, or `None` if
    /// there were none.
    ///
    /// If a range was read or is deleted, every other write of the database waits for the check and
    /// the application, as it does for a [`Keyspace::clear`]. Otherwise only writes to keys of the
    /// same stripes wait.
    ///
    /// # Errors
    /// [`Error::Conflict`] and [`Error::TransactionTooOld`]: nothing was written, and the same
    /// transaction may well succeed if it is begun again ([`Error::is_conflict`]). Otherwise as
    /// [`Db::write`].
    pub fn commit(self) -> Result<Option<SeqNo>> {
        let Self { inner, durability, pin, clock, watch, state } = self;
        let (pin, watch, state) = (pin.into_inner()?, watch.into_inner()?, state.into_inner()?);
        let State { reads, writes, held, conflict, .. } = state.into_inner();
        // From now on it is like a batch. If a full keyspace has room for the batch, the
        // transaction's own memory must not cause a refusal.
        drop(held);
        if let Some(conflict) = conflict {
            return Err(conflict);
        }
        if writes.is_empty() {
            return Ok(None);
        }
        inner.lifecycle.check_writable()?;
        let moment = pin.seqno();
        // Nothing is read any more, and versions that a pin holds back count as memory.
        drop(pin);
        if reads.has_ranges() {
            // A transaction that fails should not fail with everything locked.
            reads.check(&inner.order.recent, moment)?;
        }
        inner.wait_for_journal();
        let (mut wanted, mut watch): (Option<Made<'_>>, _) = (None, Some(watch));
        let mut old = OldValues::default();
        let (seqno, instances) = loop {
            let instances = writes.instances()?;
            let rooms = match &wanted {
                None => writes.reserve(&instances)?,
                Some(made) => in_groups(writes.steps(&instances, made), Rooms::reserve)?,
            };
            let held = match reads.has_ranges() || writes.has_ranges() {
                true => inner.locks.all(),
                false => inner.locks.these(writes.keys().chain(reads.keys())),
            };
            // Again, because a thread that closes the database does so with everything locked.
            inner.lifecycle.check_writable()?;
            if !writes.are_filled_by(&instances)? {
                continue;
            }
            reads.check(&inner.order.recent, moment)?;
            let made = writes.resolve(&instances, clock, &mut old)?;
            if old.are_missing() {
                drop((held, rooms));
                old.read_missing()?;
                continue;
            }
            let steps = || writes.steps(&instances, &made);
            if steps().is_empty() {
                return Ok(None);
            }
            let committed = in_groups(steps(), |groups| {
                let Some(mut parts) = rooms.of_parts(groups)? else { return Ok(None) };
                // The notes are not needed any more, and its own writes need none for its sake.
                let outlived = watch.take().map(Watch::end);
                inner.commit_reserved(&mut parts).map(|seqno| Some((seqno, outlived)))
            })?;
            let Some((seqno, outlived)) = committed else {
                // The results of merges are known only now.
                drop(held);
                wanted = Some(made);
                continue;
            };
            writes.note_made(&instances, &made);
            drop(held);
            drop(outlived);
            break (seqno, instances);
        };
        let journaled = instances.iter().any(|instance| instance.journaled);
        inner.acknowledge(seqno, journaled, durability).map(Some)
    }

    /// Forgets the writes; the same as dropping it.
    pub fn rollback(self) {}

    fn check(&self, keyspace: &Keyspace) -> Result<()> {
        self.inner.lifecycle.check_open()?;
        if Arc::ptr_eq(&keyspace.inner, &self.inner) {
            return Ok(());
        }
        Err(Error::NoKeyspace { name: keyspace.name().to_owned() })
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("seqno", &self.seqno()).finish_non_exhaustive()
    }
}
