//! Lookups of one database that wait for the device, many at the same time.
//!
//! If memory cannot answer a command, a store session looks its key up. When the lookup has ended,
//! the command runs again and gets the value that was found.

use std::sync::Arc;

use thermocline::SeqNo;
use thermocline::{Completed, Doorbell, Keyspace, LookupForUpdate, SessionGet, Tried};

use super::{Change, StoreError};

/// The reason why a command continues later. `Read` and `Update` look its key up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Update,
    /// No key is looked up: the command walks over keys, and waits for the next slice.
    Walk,
    /// No key is looked up: a thread runs the command, whose write has to wait.
    Write,
    /// No key is looked up: a thread reads its keys, runs it, and has the store commit it.
    Commit,
    /// No key is looked up: a thread runs the command, which has to be alone.
    ThreadAlone,
    /// No key is looked up: a thread runs the command next to others.
    Thread,
}

impl Purpose {
    /// Whether a thread is to run the command.
    pub(crate) fn is_for_thread(self) -> bool {
        matches!(self, Self::Write | Self::Commit | Self::ThreadAlone | Self::Thread)
    }
}

/// The result of [`StoreSession::begin`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreLookup {
    /// Memory knows a read's value, which replaced the content of the buffer; `false` if the key
    /// has no value.
    Known(bool),
    /// An update needs no device ([`super::Store::try_update`]).
    AtOnce,
    /// [`StoreSession::complete`] will report the result.
    Pending,
    /// There is no room for another lookup: nothing was begun.
    Full,
}

/// The result of a lookup.
#[derive(Clone, Copy)]
pub(crate) enum StoreRead<'a> {
    /// A read's value, if there is one.
    Value(Option<&'a [u8]>),
    /// The old value that an update changes.
    Old(&'a dyn OldValue),
}

/// A value that was looked up for an update.
pub(crate) trait OldValue {
    /// Changes the key as [`super::Store::try_update`] does if no other write of it came first;
    /// `None`, and nothing has changed, if one may have.
    fn update(
        &self,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError>;
}

/// The callback that is called for each lookup that has ended, with its tag.
pub(crate) type OnLookup<'a> = dyn FnMut(u64, Result<StoreRead<'_>, StoreError>) + 'a;

/// One thread's lookups of one database. Dropping it cancels them.
pub(crate) trait StoreSession: Send {
    /// Looks `key` up. Never waits for the device.
    fn begin(
        &mut self,
        tag: u64,
        key: &[u8],
        purpose: Purpose,
        into: &mut Vec<u8>,
    ) -> Result<StoreLookup, StoreError>;

    /// Continues the lookups under way without waiting, and calls `on_done` for each that has
    /// ended.
    ///
    /// # Errors
    /// The store session cannot be used any more, and reports none of its pending lookups.
    fn complete(&mut self, on_done: &mut OnLookup<'_>) -> Result<(), StoreError>;

    /// How many are under way.
    fn pending(&self) -> usize;
}

/// A store session at a keyspace.
pub(super) struct KeyspaceSession(thermocline::Session);

impl KeyspaceSession {
    /// A store session for `depth` lookups that rings `bell` when there is something to complete.
    pub(super) fn new(
        keyspace: &Keyspace,
        depth: usize,
        bell: &Arc<Doorbell>,
    ) -> Result<Self, StoreError> {
        let mut store_session = keyspace.session(depth)?;
        store_session.ring(bell)?;
        Ok(Self(store_session))
    }
}

impl StoreSession for KeyspaceSession {
    fn begin(
        &mut self,
        tag: u64,
        key: &[u8],
        purpose: Purpose,
        into: &mut Vec<u8>,
    ) -> Result<StoreLookup, StoreError> {
        Ok(match purpose {
            Purpose::Read => match self.0.begin_get(tag, key, into)? {
                SessionGet::Found => StoreLookup::Known(true),
                SessionGet::Absent => StoreLookup::Known(false),
                SessionGet::Pending => StoreLookup::Pending,
                SessionGet::Full => StoreLookup::Full,
            },
            _ => match self.0.lookup_for_update(tag, key)? {
                LookupForUpdate::InMemory => StoreLookup::AtOnce,
                LookupForUpdate::Pending => StoreLookup::Pending,
                LookupForUpdate::Full => StoreLookup::Full,
            },
        })
    }

    fn complete(&mut self, on_done: &mut OnLookup<'_>) -> Result<(), StoreError> {
        self.0.complete(false, &mut |tag, outcome| match outcome {
            Ok(Completed::Value(value)) => on_done(tag, Ok(StoreRead::Value(value))),
            Ok(Completed::Old(old)) => on_done(tag, Ok(StoreRead::Old(&old))),
            Ok(Completed::Updated(_)) => {
                unreachable!("the store_session updates nothing by itself")
            }
            Err(error) => on_done(tag, Err(error.into())),
        })?;
        Ok(())
    }

    fn pending(&self) -> usize {
        self.0.pending()
    }
}

impl OldValue for thermocline::ReadForUpdate<'_> {
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
