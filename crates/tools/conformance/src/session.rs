//! Calls of one thread, many of them pending, as a host drives them.
//!
//! 1. A put and a delete never wait for the device. A get that does has a [`Ticket`].
//! 2. An update whose old value is on the device looks it up ([`At::ForUpdate`]). When the value is
//!    there, the session locks the key alone, and writes the new value if the old one is the
//!    newest. Otherwise the update begins again, under the same ticket.
//! 3. [`Session::complete_pending`] reports each pending call once.
//!
//! The engine puts the writes of one key in an order of its own, so puts, deletes and updates in
//! memory share the key's lock, as in a database without a journal. A writer reserves room before
//! it locks a key. Sessions of one store share their key locks, and every other writer of their
//! keys takes these locks too.

use std::fmt;
use std::sync::Arc;

use engine::{
    At, Change, Demand, Engine, Lookup, Op, Operator, PendingLookup, Reservation, Result, Sequence,
    Updated, VALUE_BYTES_GUESSED, Wait,
};
use memory_budget::MemoryBudget;
use reads::{InFlightReads, ReadPool};
use sync::locks::{RwLock, RwLockReadGuard};

/// Key locks; a power of two.
const STRIPES: usize = 64;

/// The key locks of a store's sessions.
#[derive(Debug)]
pub struct KeyLocks([RwLock<()>; STRIPES]);

impl Default for KeyLocks {
    fn default() -> Self {
        Self([const { RwLock::new(()) }; STRIPES])
    }
}

impl KeyLocks {
    fn of(&self, key: &[u8]) -> &RwLock<()> {
        &self.0[codec::hash64(0, key) as usize % STRIPES]
    }

    /// Locks a key for writes whose order the engine decides.
    fn share(&self, key: &[u8]) -> RwLockReadGuard<'_, ()> {
        self.of(key).read()
    }

    /// Replaces a value by the result of `operator`, and waits for the device.
    ///
    /// # Errors
    /// As [`Session::rmw`].
    pub fn rmw(
        &self,
        engine: &dyn Engine,
        sequence: &Sequence,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<()> {
        let store = Store { engine, sequence, locks: self };
        let reads = ReadPool::new(&Arc::new(MemoryBudget::new(u64::MAX)));
        let mut value = Vec::new();
        while let Some(lookup) = store.begin_update(key, operator)? {
            let (is_found, lookup) = reads.complete_pending(lookup, &mut value)?;
            let mut update = || operator.update(is_found.then_some(&value));
            if store.write_newest(key, &mut update, &|| lookup.is_newest())? {
                break;
            }
        }
        Ok(())
    }
}

/// A pending call of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// The beginning of a get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get {
    /// The key has a value, which is in the caller's buffer.
    Found,
    /// The key has no value.
    Absent,
    /// The device is read.
    Pending(Ticket),
    /// The device has to be read, and no more calls may be pending.
    Full,
}

/// The beginning of an update.
pub enum Update {
    /// It is done.
    Done,
    /// The device is read.
    Pending(Ticket),
    /// The device has to be read, and no more calls may be pending. The operator is returned.
    Full(Box<dyn Operator + Send>),
}

/// The end of a pending call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed<'a> {
    /// The value of a get.
    Value(Option<&'a [u8]>),
    /// An update is done.
    Updated,
}

/// How long [`Session::complete_pending`] waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Not at all.
    Now,
    /// Until a call has ended, if any is pending.
    One,
    /// Until no call is pending.
    All,
}

/// A pending call.
struct Pending {
    ticket: Ticket,
    key: Box<[u8]>,
    operator: Option<Box<dyn Operator + Send>>,
}

/// An engine, and the means to write its keys.
#[derive(Clone, Copy)]
struct Store<'e> {
    engine: &'e dyn Engine,
    sequence: &'e Sequence,
    locks: &'e KeyLocks,
}

/// The calls of one thread.
pub struct Session<'e> {
    store: Store<'e>,
    reads: InFlightReads<Pending>,
    /// Updates whose old value was not the newest, and lookups that found no room.
    again: Vec<Pending>,
    depth: usize,
    tickets: u64,
}

/// The callback of [`Session::complete_pending`].
pub type EachCompleted<'a> = dyn FnMut(Ticket, Result<Completed<'_>>) + 'a;

impl<'e> Session<'e> {
    /// Begins a session with room for `depth` pending calls, whose buffers are charged to `budget`.
    ///
    /// # Panics
    /// The engine does not order the writes of a key.
    pub fn new(
        engine: &'e dyn Engine,
        sequence: &'e Sequence,
        locks: &'e KeyLocks,
        budget: &Arc<MemoryBudget>,
        depth: usize,
    ) -> Self {
        assert!(engine.updates().is_some(), "the engine orders the writes of a key");
        let reads = InFlightReads::new(depth, budget);
        let store = Store { engine, sequence, locks };
        Self { store, reads, again: Vec::new(), depth, tickets: 0 }
    }

    /// Returns the number of pending calls.
    pub fn pending(&self) -> usize {
        self.reads.len() + self.again.len()
    }

    /// Returns whether no more calls may be pending.
    pub fn is_full(&self) -> bool {
        self.pending() >= self.depth
    }

    /// Gets a value, into `into` if memory has it.
    ///
    /// # Errors
    /// As [`Engine::lookup`].
    pub fn get(&mut self, key: &[u8], into: &mut Vec<u8>) -> Result<Get> {
        match self.store.engine.lookup(key, At::Newest, into)? {
            Lookup::Found => Ok(Get::Found),
            Lookup::Absent => Ok(Get::Absent),
            Lookup::Pending(_) if self.is_full() => Ok(Get::Full),
            Lookup::Pending(lookup) => {
                Ok(self.pend(lookup, key, None).map_or(Get::Full, Get::Pending))
            }
        }
    }

    /// Puts a value.
    ///
    /// # Errors
    /// As [`Engine::reserve`] and [`Engine::apply`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.write(key, &Op::Put { key, value })
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// The same.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.store.write(key, &Op::Delete { key })
    }

    /// Replaces a value by the result of `operator`. The update is done, unless the old value is on
    /// the device.
    ///
    /// # Errors
    /// The same, and as [`Engine::lookup`]. The operator is dropped then.
    pub fn rmw(&mut self, key: &[u8], mut operator: Box<dyn Operator + Send>) -> Result<Update> {
        match self.store.begin_update(key, &mut *operator)? {
            None => Ok(Update::Done),
            Some(_) if self.is_full() => Ok(Update::Full(operator)),
            Some(lookup) => {
                self.tickets += 1;
                let ticket = Ticket(self.tickets);
                let pending = Pending { ticket, key: key.into(), operator: Some(operator) };
                if let Err((_, pending)) = self.reads.start(lookup, pending) {
                    self.again.push(pending);
                }
                Ok(Update::Pending(ticket))
            }
        }
    }

    /// Completes pending calls, and calls `each` for every call that has ended. Returns their
    /// number.
    pub fn complete_pending(&mut self, until: Until, each: &mut EachCompleted<'_>) -> usize {
        let mut count = 0;
        loop {
            count += self.begin_again(each);
            let waits = until == Until::All || until == Until::One && count == 0;
            count += self.complete_some(waits, each);
            let is_over = until == Until::Now || until == Until::One && count > 0;
            if is_over || self.pending() == 0 {
                return count;
            }
        }
    }

    fn pend(
        &mut self,
        lookup: Box<dyn PendingLookup>,
        key: &[u8],
        operator: Option<Box<dyn Operator + Send>>,
    ) -> Option<Ticket> {
        let ticket = Ticket(self.tickets + 1);
        let pending = Pending { ticket, key: key.into(), operator };
        self.reads.start(lookup, pending).ok()?;
        self.tickets += 1;
        Some(ticket)
    }

    /// Begins the updates again whose old value was not the newest.
    fn begin_again(&mut self, each: &mut EachCompleted<'_>) -> usize {
        let mut count = 0;
        for mut pending in std::mem::take(&mut self.again) {
            let Some(operator) = &mut pending.operator else { continue };
            match self.store.begin_update(&pending.key, &mut **operator) {
                Ok(None) => {
                    count += 1;
                    each(pending.ticket, Ok(Completed::Updated));
                }
                Ok(Some(lookup)) => {
                    if let Err((_, pending)) = self.reads.start(lookup, pending) {
                        self.again.push(pending);
                    }
                }
                Err(error) => {
                    count += 1;
                    each(pending.ticket, Err(error));
                }
            }
        }
        count
    }

    fn complete_some(&mut self, waits: bool, each: &mut EachCompleted<'_>) -> usize {
        let Self { store, reads, again, .. } = self;
        let before = again.len();
        let count = reads.complete(waits, &mut |mut pending, done| {
            let Some(operator) = &mut pending.operator else {
                let value = done.value.map(|value| value.map(|value| value.as_slice()));
                return each(pending.ticket, value.map(Completed::Value));
            };
            let is_done = done.value.and_then(|old| {
                let is_newest = || done.lookup.is_newest();
                let mut update = || operator.update(old.as_ref().map(|old| old.as_slice()));
                store.write_newest(&pending.key, &mut update, &is_newest)
            });
            match is_done {
                Ok(true) => each(pending.ticket, Ok(Completed::Updated)),
                Ok(false) => again.push(pending),
                Err(error) => each(pending.ticket, Err(error)),
            }
        });
        count - (again.len() - before)
    }
}

impl<'e> Store<'e> {
    /// Reserves room for a write, and waits for it.
    fn reserve(&self, demand: &Demand<'_>) -> Result<Reservation<'e>> {
        let room = self.engine.reserve(demand, Wait::Yes)?;
        Ok(room.unwrap_or_else(Reservation::uncounted))
    }

    fn write(&self, key: &[u8], op: &Op<'_>) -> Result<()> {
        let ops = std::slice::from_ref(op);
        let mut room = self.reserve(&Demand::Ops(ops))?;
        let _shared = self.locks.share(key);
        let number = self.sequence.begin();
        self.engine.apply(ops, number.seqno(), &mut room)
    }

    /// Updates the value in memory, or returns the lookup of the old value.
    fn begin_update(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Option<Box<dyn PendingLookup>>> {
        let mut bytes_max = VALUE_BYTES_GUESSED;
        let Some(updates) = self.engine.updates() else { return Ok(None) };
        loop {
            let mut room = self.reserve(&Demand::Update { key, bytes_max })?;
            let shared = self.locks.share(key);
            let number = self.sequence.begin();
            let updated = updates.try_update(key, operator, number.seqno(), &mut room)?;
            drop((number, shared, room));
            match updated {
                Updated::Done => return Ok(None),
                Updated::NeedsRoom { bytes } => bytes_max = bytes,
                Updated::NeedsRead => {
                    let looked_up = self.engine.lookup(key, At::ForUpdate, &mut Vec::new())?;
                    // Otherwise another thread has brought the value to memory.
                    if let Lookup::Pending(lookup) = looked_up {
                        return Ok(Some(lookup));
                    }
                }
            }
        }
    }

    /// Writes the result of an update, if its old value is the newest. Returns whether it was.
    fn write_newest(
        &self,
        key: &[u8],
        update: &mut dyn FnMut() -> Change,
        is_newest: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let mut bytes_max = VALUE_BYTES_GUESSED;
        loop {
            let mut room = self.reserve(&Demand::Update { key, bytes_max })?;
            let _locked = self.locks.of(key).write();
            if !is_newest() {
                return Ok(false);
            }
            let change = update();
            let op = match &change {
                Change::Put(value) => Op::Put { key, value },
                Change::Delete => Op::Delete { key },
                Change::Keep => return Ok(true),
            };
            let bytes = op.value().map_or(0, |value| value.len() as u64);
            if bytes > bytes_max {
                bytes_max = bytes;
                continue;
            }
            let number = self.sequence.begin();
            self.engine.apply(&[op], number.seqno(), &mut room)?;
            return Ok(true);
        }
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("pending", &self.pending()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("Done"),
            Self::Pending(ticket) => f.debug_tuple("Pending").field(ticket).finish(),
            Self::Full(_) => f.write_str("Full"),
        }
    }
}
