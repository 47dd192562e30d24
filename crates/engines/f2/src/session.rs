//! Sessions: a thread's seat, on which operations that need the disk are pending.
//!
//! 1. An operation that memory can answer is done at once. A put and a delete always are: they read
//!    nothing from disk.
//! 2. A get or a read-modify-write that needs the disk becomes a look-up in the session's flight, and
//!    its caller has a [`Ticket`].
//! 3. [`Session::complete_pending`] goes on with the look-ups whose reads are there, and tells of those
//!    that are done. A read-modify-write then appends its record, if no other write of the key came
//!    first; otherwise it begins anew, under the same ticket.
//!
//! # Invariants
//! - S1. What is pending has changed nothing. So dropping a session gives it up cleanly, at any moment.
//! - S2. A session that does nothing holds nobody up: it is protected only within a call, and takes a
//!   number of the host's sequence only for an attempt to write.
//! - S3. No more is pending than the session's depth, and nothing is kept of what was told.
//!
//! # Concurrency
//! Any number of sessions, begun and ended at any time, beside each other and the store's other calls.
//! A session is used by one thread at a time, and may move to another.

use std::fmt;
use std::sync::Arc;

use engine::{
    At, Demand, Lookup, Op, Operator, PendingLookup, Reservation, Result, VALUE_BYTES_GUESSED,
};
use reads::InFlightReads;
use sync::epoch::Participant;

use crate::ops::look_up::LookUp;
use crate::ops::rmw::{Advanced, WantsOld, WithOld};
use crate::planted::{Planted, is_planted};
use crate::store::{Shared, Store};

/// The session of a thread with a [`Store`] (sections 2.1 and 5.4 of the F2 paper): operations that
/// need the device are pending, so that one thread has many of them in flight.
///
/// Sessions are for users of this crate alone, in a store without a journal: their writes are durable
/// with the next [`engine::Engine::flush`] that begins after them. A database journals its writes and
/// numbers them itself; it has sessions of its own.
///
/// ```
/// # use std::sync::Arc;
/// # use engine::{Host, NoJournal, Sequence};
/// # use memory_budget::MemoryBudget;
/// # let environment = environment::Environment::real();
/// # let telemetry = telemetry::Registry::default();
/// # let host = Host {
/// #     device: device::memory(),
/// #     workers: workers::Pool::start(&environment, 1, &telemetry)?,
/// #     telemetry,
/// #     environment,
/// #     sequence: Arc::new(Sequence::new()),
/// #     barrier: Arc::new(NoJournal),
/// #     memory: Arc::new(MemoryBudget::new(64 << 20)),
/// # };
/// use thermocline_f2::{Completed, Get, Options, Store, Wait};
///
/// let store = Store::open(host, Options::default())?;
/// let mut session = store.session()?;
/// session.put(b"ada", b"1815")?;
/// let mut value = Vec::new();
/// let mut told = Vec::new();
/// for name in [b"ada", b"bob"] {
///     match session.get(name, &mut value)? {
///         Get::Found => told.push(value.clone()),
///         Get::Absent => {}
///         Get::Pending(_ticket) => {} // told of below
///         Get::Full => unreachable!("two reads do not fill a session"),
///     }
/// }
/// session.complete_pending(Wait::ForAll, &mut |_ticket, outcome| {
///     if let Ok(Completed::Value(Some(value))) = outcome {
///         told.push(value.to_vec());
///     }
/// })?;
/// assert_eq!(told, [b"1815"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    shared: Arc<Shared>,
    reads: InFlightReads<Pending>,
    /// Updates that begin again, because another write of their key came first.
    again: Vec<(Box<dyn PendingLookup>, Pending)>,
    depth: usize,
    tickets: u64,
    value: Vec<u8>,
    /// Only of the mutant that keeps it protected.
    _seat: Option<Participant>,
}

/// A pending operation of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// How a get began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get {
    /// The key has a value, which is there.
    Found,
    /// The key has none.
    Absent,
    /// The disk is asked.
    Pending(Ticket),
    /// As much is pending as may be, and this get needs the disk: nothing was begun.
    Full,
}

/// How a read-modify-write began.
pub enum Update {
    /// It is done, and visible to all.
    Done,
    /// The disk is asked.
    Pending(Ticket),
    /// As much is pending as may be, and this one needs the disk: here is the operator back.
    Full(Box<dyn Operator + Send>),
}

/// What a pending operation has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed<'a> {
    /// A get's: the key's value at some moment since the get began, if it had one.
    Value(Option<&'a [u8]>),
    /// A read-modify-write's: it is done, and visible to all.
    Updated,
}

/// How long [`Session::complete_pending`] waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until one operation is done, if any is pending.
    ForOne,
    /// Until nothing is pending.
    ForAll,
}

/// An operation that wants a read.
struct Pending {
    ticket: Ticket,
    key: Box<[u8]>,
    /// What a read-modify-write goes on with.
    update: Option<(Box<dyn Operator + Send>, WantsOld)>,
}

/// Told of each pending operation that is done.
pub type Told<'a> = dyn FnMut(Ticket, Result<Completed<'_>>) + 'a;

impl Store {
    /// A session that [`Session::DEPTH`] operations may be pending on. Costs a queue of the device.
    ///
    /// # Errors
    /// The device has no queue left; the store is closed.
    ///
    /// # Panics
    /// If the host keeps a journal, which a session's writes would pass by.
    pub fn session(&self) -> Result<Session> {
        self.session_of_depth(Session::DEPTH)
    }

    /// The same for `depth` operations, one to 4096.
    ///
    /// # Errors
    /// The same.
    ///
    /// # Panics
    /// The same.
    pub fn session_of_depth(&self, depth: usize) -> Result<Session> {
        let journaled = self.shared.host.barrier.is_journaled();
        assert!(!journaled, "the writes of a session would pass the journal by");
        Session::new(&self.shared, depth)
    }
}

impl Session {
    /// How many operations may be pending, unless told otherwise: what keeps a fast device busy.
    pub const DEPTH: usize = 128;

    fn new(shared: &Arc<Shared>, depth: usize) -> Result<Self> {
        shared.health.check_open()?;
        if is_planted(Planted::SessionsAtRest) && !shared.is_at_rest() {
            return Err(engine::Error::Closed);
        }
        let seat = is_planted(Planted::SessionsAwaited).then(|| {
            let seat = shared.epochs.join();
            // Protected until the session ends.
            std::mem::forget(seat.protect());
            seat
        });
        let depth = depth.max(1);
        Ok(Self {
            reads: InFlightReads::new(depth, &shared.host.memory),
            again: Vec::new(),
            depth,
            tickets: 0,
            value: Vec::new(),
            shared: Arc::clone(shared),
            _seat: seat,
        })
    }

    /// Operations that are pending.
    pub fn pending(&self) -> usize {
        self.reads.len() + self.again.len()
    }

    /// Whether as many are pending as may be. What memory can answer is taken all the same.
    pub fn is_full(&self) -> bool {
        self.pending() >= self.depth
    }

    /// Reads `key`. If memory has its newest record, the value replaces the contents of `into`.
    /// Never waits for the device. A pending get is an [`engine::Engine::lookup`] of the newest value.
    ///
    /// # Errors
    /// [`engine::Error::Closed`]; [`engine::Error::Corruption`] if stored bytes are damaged. Nothing
    /// is pending then.
    pub fn get(&mut self, key: &[u8], into: &mut Vec<u8>) -> Result<Get> {
        match self.shared.lookup(key, At::Newest, into)? {
            Lookup::Found => Ok(Get::Found),
            Lookup::Absent => Ok(Get::Absent),
            Lookup::Pending(_) if self.is_full() => Ok(Get::Full),
            Lookup::Pending(pending) => {
                let ticket = Ticket(self.tickets + 1);
                let owner = Pending { ticket, key: key.into(), update: None };
                if self.reads.start(pending, owner).is_err() {
                    return Ok(Get::Full);
                }
                self.tickets += 1;
                Ok(Get::Pending(ticket))
            }
        }
    }

    /// Gives `key` the value. Done, and visible to all, when this returns; reads nothing from disk,
    /// and waits only where the hot log has no room in memory, or compaction is behind.
    ///
    /// # Errors
    /// As [`engine::Engine::reserve`] and [`engine::Engine::apply`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(&Op::Put { key, value })
    }

    /// Removes `key`. Otherwise like [`Session::put`].
    ///
    /// # Errors
    /// The same.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.write(&Op::Delete { key })
    }

    fn write(&self, op: &Op<'_>) -> Result<()> {
        let ops = std::slice::from_ref(op);
        let room = self.shared.reserve(&Demand::Ops(ops), engine::Wait::Yes)?;
        let room = room.unwrap_or_else(Reservation::uncounted);
        let number = self.shared.host.sequence.begin();
        self.shared.apply(ops, number.seqno(), &room)
    }

    /// Atomically replaces the key's value by the result of `operator` (Algorithm 1 of the F2
    /// paper). The update is done if the old value is in memory, and pending if it is on the device.
    /// It may wait where a put may.
    ///
    /// # Errors
    /// As [`engine::Engine::reserve`], [`engine::Engine::lookup`] and
    /// [`engine::Engine::apply`]. The operator is dropped then.
    pub fn rmw(&mut self, key: &[u8], mut operator: Box<dyn Operator + Send>) -> Result<Update> {
        match self.shared.advance_rmw(key, &mut *operator, &mut self.value)? {
            None => Ok(Update::Done),
            Some(_) if self.is_full() => Ok(Update::Full(operator)),
            Some((look_up, wanted)) => {
                self.tickets += 1;
                let ticket = Ticket(self.tickets);
                let update = Some((operator, wanted));
                let owner = Pending { ticket, key: key.into(), update };
                self.again.push((self.shared.pending(look_up, None, key), owner));
                self.begin_again();
                Ok(Update::Pending(ticket))
            }
        }
    }

    /// Goes on with what is pending, and tells `told` of each operation that is done: its ticket, and
    /// what it came to, without a copy of the value. Nothing is told twice. Answers how many there were.
    ///
    /// # Errors
    /// The device's queue failed: nothing more can come of this session. What goes wrong with one
    /// operation is told of it alone; a read-modify-write has changed nothing then.
    pub fn complete_pending(&mut self, wait: Wait, told: &mut Told<'_>) -> Result<usize> {
        let mut count = 0;
        loop {
            let waits = match wait {
                Wait::No => false,
                Wait::ForOne => count == 0,
                Wait::ForAll => true,
            };
            count += self.complete_some(waits, told);
            let is_over = wait == Wait::No || wait == Wait::ForOne && count > 0;
            if is_over || self.pending() == 0 {
                return Ok(count);
            }
        }
    }

    /// Begins the updates again for which there is room.
    fn begin_again(&mut self) {
        while let Some((lookup, owner)) = self.again.pop() {
            if let Err(refused) = self.reads.start(lookup, owner) {
                self.again.push(refused);
                break;
            }
        }
    }

    /// Completes lookups, and returns how many operations are done.
    fn complete_some(&mut self, waits: bool, told: &mut Told<'_>) -> usize {
        self.begin_again();
        let Self { shared, reads, again, value, .. } = self;
        let begun_again = again.len();
        let mut count = reads.complete(waits, &mut |pending, done| {
            let Pending { ticket, key, update } = pending;
            let Some((mut operator, wanted)) = update else {
                let value = done.value.map(|value| value.map(|value| value.as_slice()));
                told(ticket, value.map(Completed::Value));
                return;
            };
            let next = done.value.and_then(|old| {
                let old = old.map(|old| old.as_slice());
                let has_updated = shared.finish_rmw(&key, &mut *operator, &wanted, old)?;
                if has_updated { Ok(None) } else { shared.advance_rmw(&key, &mut *operator, value) }
            });
            match next {
                Ok(Some((look_up, wanted))) => {
                    let lookup = shared.pending(look_up, None, &key);
                    let update = Some((operator, wanted));
                    again.push((lookup, Pending { ticket, key, update }));
                }
                Ok(None) => told(ticket, Ok(Completed::Updated)),
                Err(error) => told(ticket, Err(error)),
            }
        });
        count -= again.len() - begun_again;
        self.begin_again();
        count
    }
}

impl Shared {
    /// Whether no checkpoint is made and nothing is compacted.
    fn is_at_rest(&self) -> bool {
        let compacting = [&self.compacting, &self.compacting_cold, &self.compacting_chunks];
        !self.checkpointer.is_locked() && !compacting.iter().any(|held| held.is_locked())
    }

    /// Does a read-modify-write up to its end, or up to the lookup of the old value that needs a
    /// read.
    fn advance_rmw(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
        value: &mut Vec<u8>,
    ) -> Result<Option<(LookUp, WantsOld)>> {
        let mut bytes_max = VALUE_BYTES_GUESSED;
        loop {
            let room = self.room_to_update(key, bytes_max)?;
            // [S2]
            let _number = self.host.sequence.begin();
            match self.rmw_up_to_device(key, operator, value, &room)? {
                Advanced::Done => return Ok(None),
                Advanced::NeedsRead(look_up, wanted) => return Ok(Some((look_up, wanted))),
                Advanced::NeedsRoom(bytes) => bytes_max = bytes,
            }
        }
    }

    /// Does a read-modify-write of a caller that waits for the device.
    pub(crate) fn rmw_blocking(&self, key: &[u8], operator: &mut dyn Operator) -> Result<()> {
        self.rmw_numbered(key, operator, || self.host.sequence.begin())
    }

    /// Writes the result of `operator` with the old value. Returns `false` if another write came
    /// first, so that the update begins again.
    fn finish_rmw(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
        wanted: &WantsOld,
        old: Option<&[u8]>,
    ) -> Result<bool> {
        self.health.check_writable()?;
        let mut bytes_max = VALUE_BYTES_GUESSED;
        loop {
            let room = self.room_to_update(key, bytes_max)?;
            let _number = self.host.sequence.begin();
            let hash = self.hash(key);
            match self.rmw_with_old(hash, key, operator, wanted, old, &room)? {
                WithOld::Done => return Ok(true),
                WithOld::Lost => return Ok(false),
                WithOld::NeedsRoom(bytes) => bytes_max = bytes,
            }
        }
    }
}

impl fmt::Debug for Session {
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
