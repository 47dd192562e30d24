//! Room for a write, which an engine grants before the host locks keys and takes a number.
//!
//! 1. The host asks for room with [`Engine::reserve`](crate::Engine::reserve): with [`Wait::Yes`]
//!    while nothing is locked, with [`Wait::No`] once a key is.
//! 2. It applies the write with the [`Reservation`]. The engine takes the room that the write needs
//!    ([`Reservation::spend`]), and so waits for nothing (law L8).
//! 3. The rest returns to the engine when the reservation is dropped.

use std::fmt;

use codec::SeqNo;

use crate::batch::Op;
use crate::error::Result;
use sequence::Sequence;

/// Bytes of a new value for which room is reserved before the value is known.
pub const VALUE_BYTES_GUESSED: u64 = 1024;

/// The write that a reservation is for.
#[derive(Clone, Copy, Debug)]
pub enum Demand<'a> {
    /// Steps of one write.
    Ops(&'a [Op<'a>]),
    /// A new value of `key` with up to `bytes_max` bytes, or its removal.
    Update {
        /// The key.
        key: &'a [u8],
        /// Bytes of the longest value.
        bytes_max: u64,
    },
    /// An ingestion: no room in memory, but it adds to the work of compactions.
    Ingestion,
}

impl Demand<'_> {
    /// Returns the bytes of its keys and values.
    #[inline]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Ops(ops) => ops.iter().map(|op| op.bytes() as u64).sum(),
            Self::Update { key, bytes_max } => key.len() as u64 + bytes_max,
            Self::Ingestion => 0,
        }
    }
}

/// How long a request for room may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It returns immediately, without room if there is none, or if writers are slowed down now.
    No,
    /// It waits for room, and longer if writers are slowed down.
    Yes,
    /// It waits for room, and is always granted: for a write that is in the journal.
    Replay,
}

/// The part of an engine to which the rest of a reservation returns.
pub trait Room: Sync {
    /// Takes back the rest of a reservation: `bytes`, which may be 0, of the slot that it names.
    fn release(&self, bytes: u64, slot: u32);
}

/// Room that an engine has granted. Dropping it returns the rest.
#[must_use = "the room returns to the engine when it is dropped"]
pub struct Reservation<'a> {
    room: Option<&'a dyn Room>,
    bytes: u64,
    slot: u32,
    inner: Option<Box<Reservation<'a>>>,
}

impl<'a> Reservation<'a> {
    /// Returns a reservation of `bytes`, counted by the engine in its own unit. `slot` says where
    /// they were counted.
    pub fn new(room: &'a dyn Room, bytes: u64, slot: u32) -> Self {
        Self { room: Some(room), bytes, slot, inner: None }
    }

    /// Returns a reservation of which the engine counts nothing.
    pub fn uncounted() -> Self {
        Self { room: None, bytes: 0, slot: 0, inner: None }
    }

    /// Returns this reservation together with `inner`: room of another kind for the same write, as
    /// of a store that the engine keeps within its own. Dropping the one returns both.
    pub fn with(mut self, inner: Self) -> Self {
        self.inner = Some(Box::new(inner));
        self
    }

    /// Returns the reservation that this one was put together with.
    pub fn inner(&mut self) -> Option<&mut Self> {
        self.inner.as_deref_mut()
    }

    /// Returns the bytes that are left.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns where they were counted.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Takes up to `bytes` of the rest, and returns how many it has taken: they do not return to
    /// the engine.
    pub fn spend(&mut self, bytes: u64) -> u64 {
        let spent = bytes.min(self.bytes);
        self.bytes -= spent;
        spent
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(room) = self.room {
            room.release(self.bytes, self.slot);
        }
    }
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("bytes", &self.bytes).field("slot", &self.slot).finish()
    }
}

/// Writes to an engine without a host.
pub trait BlockingWrites: crate::Engine {
    /// Writes `ops` with the number `seqno`. Waits for room.
    ///
    /// # Errors
    /// As [`Engine::reserve`](crate::Engine::reserve) and [`Engine::apply`](crate::Engine::apply).
    fn write(&self, ops: &[Op<'_>], seqno: SeqNo) -> Result<()> {
        self.write_in(ops, seqno, Wait::Yes)
    }

    /// Writes `ops` with the next number of `sequence`, and returns it. Waits for room before it
    /// takes the number.
    ///
    /// # Errors
    /// The same.
    fn write_next(&self, ops: &[Op<'_>], sequence: &Sequence) -> Result<SeqNo> {
        ops.iter().try_for_each(Op::check)?;
        let granted = self.reserve(&Demand::Ops(ops), Wait::Yes)?;
        let mut room = granted.unwrap_or_else(Reservation::uncounted);
        let ticket = sequence.begin();
        self.apply(ops, ticket.seqno(), &mut room)?;
        Ok(ticket.seqno())
    }

    /// Does the same for a write that is in a journal: it is not refused for lack of room.
    ///
    /// # Errors
    /// The same.
    fn replay(&self, ops: &[Op<'_>], seqno: SeqNo) -> Result<()> {
        self.write_in(ops, seqno, Wait::Replay)
    }

    #[doc(hidden)]
    fn write_in(&self, ops: &[Op<'_>], seqno: SeqNo, wait: Wait) -> Result<()> {
        ops.iter().try_for_each(Op::check)?;
        let granted = self.reserve(&Demand::Ops(ops), wait)?;
        let mut room = granted.unwrap_or_else(Reservation::uncounted);
        self.apply(ops, seqno, &mut room)
    }
}

impl<E: crate::Engine + ?Sized> BlockingWrites for E {}
