//! Look-ups of one database that wait for the device, many beside each other.
//!
//! A command that memory cannot answer has its key looked up on a seat. Told of what was found, the
//! command runs again, and has it.

use std::sync::Arc;

use thermocline::SeqNo;
use thermocline::{Begun as BegunGet, BegunOld, Completed, Doorbell, Keyspace, Tried};

use super::{Change, StoreError};

/// What a key is looked up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Update,
    /// No key is looked up: the command walks over keys, and waits for the next slice.
    Walk,
    /// No key is looked up: a thread runs the command, whose write has to wait.
    Write,
    /// No key is looked up: a thread runs the command, which has to be alone.
    ThreadAlone,
    /// No key is looked up: a thread runs the command next to others.
    Thread,
}

impl Purpose {
    /// Whether a thread is to run the command.
    pub(crate) fn is_for_thread(self) -> bool {
        matches!(self, Self::Write | Self::ThreadAlone | Self::Thread)
    }
}

/// How a look-up began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// A read's value is known by now, and replaces what was in the buffer; `false` if there is none.
    Known(bool),
    /// An update needs no device by now ([`super::Store::try_update`]).
    AtOnce,
    /// [`Seat::complete`] will tell.
    Pending,
    /// As much is under way as may be: nothing was begun.
    Full,
}

/// What a look-up has found.
#[derive(Clone, Copy)]
pub(crate) enum Looked<'a> {
    /// A read's value, if there is one.
    Value(Option<&'a [u8]>),
    /// What an update is to change.
    Old(&'a dyn OldValue),
}

/// A value that was looked up for an update.
pub(crate) trait OldValue {
    /// Changes the key as [`super::Store::try_update`] does if no other write of it came first; `None`, and
    /// nothing has changed, if one may have.
    fn update(
        &self,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError>;
}

/// Told of each look-up that has ended, by its tag.
pub(crate) type Told<'a> = dyn FnMut(u64, Result<Looked<'_>, StoreError>) + 'a;

/// One thread's look-ups of one database. Dropping it gives them up.
pub(crate) trait Seat: Send {
    /// Looks `key` up. Never waits for the device.
    fn begin(
        &mut self,
        tag: u64,
        key: &[u8],
        purpose: Purpose,
        into: &mut Vec<u8>,
    ) -> Result<Begun, StoreError>;

    /// Goes on with what is under way, without waiting, and tells of what has ended.
    ///
    /// # Errors
    /// The seat is of no use any more, and what is pending is not told.
    fn complete(&mut self, told: &mut Told<'_>) -> Result<(), StoreError>;

    /// How many are under way.
    fn pending(&self) -> usize;
}

/// A seat at a keyspace.
pub(super) struct KeyspaceSeat(thermocline::Seat);

impl KeyspaceSeat {
    /// A seat for `depth` look-ups that rings `bell` when there is something to complete.
    pub(super) fn new(
        keyspace: &Keyspace,
        depth: usize,
        bell: &Arc<Doorbell>,
    ) -> Result<Self, StoreError> {
        let mut seat = keyspace.seat(depth)?;
        seat.ring(bell)?;
        Ok(Self(seat))
    }
}

impl Seat for KeyspaceSeat {
    fn begin(
        &mut self,
        tag: u64,
        key: &[u8],
        purpose: Purpose,
        into: &mut Vec<u8>,
    ) -> Result<Begun, StoreError> {
        Ok(match purpose {
            Purpose::Read => match self.0.begin_get(tag, key, into)? {
                BegunGet::Found => Begun::Known(true),
                BegunGet::Absent => Begun::Known(false),
                BegunGet::Pending => Begun::Pending,
                BegunGet::Full => Begun::Full,
            },
            _ => match self.0.begin_old(tag, key)? {
                BegunOld::InMemory => Begun::AtOnce,
                BegunOld::Pending => Begun::Pending,
                BegunOld::Full => Begun::Full,
            },
        })
    }

    fn complete(&mut self, told: &mut Told<'_>) -> Result<(), StoreError> {
        self.0.complete(false, &mut |tag, outcome| match outcome {
            Ok(Completed::Value(value)) => told(tag, Ok(Looked::Value(value))),
            Ok(Completed::Old(old)) => told(tag, Ok(Looked::Old(&old))),
            Ok(Completed::Updated(_)) => unreachable!("the seat updates nothing by itself"),
            Err(error) => told(tag, Err(error.into())),
        })?;
        Ok(())
    }

    fn pending(&self) -> usize {
        self.0.pending()
    }
}

impl OldValue for thermocline::Looked<'_> {
    fn update(
        &self,
        mut decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError> {
        number_of(self.update(&mut decide)?)
    }
}

/// The number of an update, zero if it changed nothing; `None` if it has to wait for the device.
///
/// # Errors
/// [`StoreError::MustWait`] if it has to wait for something else.
#[inline]
pub(super) fn number_of(tried: Tried) -> Result<Option<SeqNo>, StoreError> {
    match tried {
        Tried::Done(seqno) => Ok(Some(seqno.unwrap_or(SeqNo::ZERO))),
        Tried::NeedsRead => Ok(None),
        Tried::MustWait => Err(StoreError::MustWait),
    }
}
