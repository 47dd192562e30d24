//! Calls of one thread, many of them pending, as a host drives them.
//!
//! 1. A put and a delete never wait for the device. A get that does has a [`Ticket`].
//! 2. An update whose old value is on the device looks it up ([`At::ForUpdate`]). When the value is
//!    there, the session locks the key, and writes the new value if the old one is the newest.
//!    Otherwise the update begins again, under the same ticket.
//! 3. [`Session::complete_pending`] reports each pending call once.
//!
//! Sessions of one store share their key locks (law L6), and no other thread writes their keys.

use std::fmt;
use std::sync::Arc;

use engine::{
    At, BlockingWrites, Change, Demand, Engine, Lookup, Op, Operator, PendingLookup, Reservation,
    Result, Sequence, Updated, VALUE_BYTES_GUESSED, Wait,
};
use memory_budget::MemoryBudget;
use reads::InFlightReads;
use sync::locks::{Mutex, MutexGuard};

/// Key locks; a power of two.
const STRIPES: usize = 64;

/// The key locks of a store's sessions.
#[derive(Debug)]
pub struct KeyLocks([Mutex<()>; STRIPES]);

impl Default for KeyLocks {
    fn default() -> Self {
        Self([const { Mutex::new(()) }; STRIPES])
    }
}

impl KeyLocks {
    fn of(&self, key: &[u8]) -> &Mutex<()> {
        &self.0[codec::hash64(0, key) as usize % STRIPES]
    }

    /// Locks a key for a write without a session.
    pub fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.of(key).lock()
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

/// The calls of one thread.
pub struct Session<'e> {
    engine: &'e dyn Engine,
    sequence: &'e Sequence,
    locks: &'e KeyLocks,
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
    pub fn new(
        engine: &'e dyn Engine,
        sequence: &'e Sequence,
        locks: &'e KeyLocks,
        budget: &Arc<MemoryBudget>,
        depth: usize,
    ) -> Self {
        let reads = InFlightReads::new(depth, budget);
        Self { engine, sequence, locks, reads, again: Vec::new(), depth, tickets: 0 }
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
        match self.engine.lookup(key, At::Newest, into)? {
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
        let _locked = self.locks.of(key).lock();
        self.engine.write_next(&[Op::Put { key, value }], self.sequence).map(drop)
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// The same.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        let _locked = self.locks.of(key).lock();
        self.engine.write_next(&[Op::Delete { key }], self.sequence).map(drop)
    }

    /// Replaces a value by the result of `operator`. The update is done, unless the old value is on
    /// the device.
    ///
    /// # Errors
    /// The same, and as [`Engine::lookup`]. The operator is dropped then.
    pub fn rmw(&mut self, key: &[u8], mut operator: Box<dyn Operator + Send>) -> Result<Update> {
        match self.begin_update(key, &mut *operator)? {
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

    /// Completes pending calls, and calls `each` for every call that has ended. Returns their number.
    ///
    /// # Errors
    /// An update could not begin again.
    pub fn complete_pending(
        &mut self,
        until: Until,
        each: &mut EachCompleted<'_>,
    ) -> Result<usize> {
        let mut count = 0;
        loop {
            count += self.begin_again(each)?;
            let waits = until == Until::All || until == Until::One && count == 0;
            count += self.complete_some(waits, each);
            let is_over = until == Until::Now || until == Until::One && count > 0;
            if is_over || self.pending() == 0 {
                return Ok(count);
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

    /// Updates the value in memory, or returns the lookup of the old value.
    fn begin_update(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
    ) -> Result<Option<Box<dyn PendingLookup>>> {
        let mut bytes_max = VALUE_BYTES_GUESSED;
        loop {
            if let Some(updates) = self.engine.updates() {
                let demand = Demand::Update { key, bytes_max };
                let room = self.engine.reserve(&demand, Wait::Yes)?;
                let mut room = room.unwrap_or_else(Reservation::uncounted);
                let _locked = self.locks.of(key).lock();
                let number = self.sequence.begin();
                match updates.try_update(key, operator, number.seqno(), &mut room)? {
                    Updated::Done => return Ok(None),
                    Updated::NeedsRoom { bytes } => {
                        bytes_max = bytes;
                        continue;
                    }
                    Updated::NeedsRead => {}
                }
            }
            let mut old = Vec::new();
            match self.engine.lookup(key, At::ForUpdate, &mut old)? {
                Lookup::Pending(lookup) => return Ok(Some(lookup)),
                // Another thread has brought it to memory.
                Lookup::Found | Lookup::Absent => {}
            }
        }
    }

    /// Begins the updates again whose old value was not the newest.
    fn begin_again(&mut self, each: &mut EachCompleted<'_>) -> Result<usize> {
        let mut count = 0;
        for mut pending in std::mem::take(&mut self.again) {
            let Some(operator) = &mut pending.operator else { continue };
            match self.begin_update(&pending.key, &mut **operator) {
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
        Ok(count)
    }

    fn complete_some(&mut self, waits: bool, each: &mut EachCompleted<'_>) -> usize {
        let Self { engine, sequence, locks, reads, again, .. } = self;
        let before = again.len();
        let count = reads.complete(waits, &mut |mut pending, done| {
            let Some(operator) = &mut pending.operator else {
                let value = done.value.map(|value| value.map(|value| value.as_slice()));
                return each(pending.ticket, value.map(Completed::Value));
            };
            let is_done = done.value.and_then(|old| {
                let change = operator.update(old.map(|old| old.as_slice()));
                let is_newest = || done.lookup.is_newest();
                write(*engine, sequence, locks.of(&pending.key), &pending.key, &change, &is_newest)
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

/// Writes the result of an update, if its old value is the newest. Returns whether it was.
fn write(
    engine: &dyn Engine,
    sequence: &Sequence,
    lock: &Mutex<()>,
    key: &[u8],
    change: &Change,
    is_newest: &dyn Fn() -> bool,
) -> Result<bool> {
    let op = match change {
        Change::Put(value) => Op::Put { key, value },
        Change::Delete => Op::Delete { key },
        Change::Keep => {
            let _locked = lock.lock();
            return Ok(is_newest());
        }
    };
    let ops = [op];
    let room = engine.reserve(&Demand::Ops(&ops), Wait::Yes)?;
    let mut room = room.unwrap_or_else(Reservation::uncounted);
    let _locked = lock.lock();
    if !is_newest() {
        return Ok(false);
    }
    let number = sequence.begin();
    engine.apply(&ops, number.seqno(), &mut room)?;
    Ok(true)
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
