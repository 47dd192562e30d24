//! Writes as futures, for any executor: of one key here, [swaps](swap) and [batches](batch) beside it.
//!
//! 1. Polled first, a future writes itself, if that waits for nobody: its durability needs no wait, the
//!    key's lock is free, memory knows the old value, and engine and journal have room ([`crate::try_write`]).
//! 2. Otherwise it is handed in at its keyspace's desk ([`desk`]), a batch at that of one of its keyspaces, and a thread does it together with others
//!    ([`serve`]): old values on disk are looked up beside each other, and all that one turn has done share a
//!    wait for the journal. Then the future is told, and its waker woken.
//!
//! # Invariants
//! - F1. Before it is polled a future has done nothing.
//! - F2. A poll waits for no device, no flush and no compaction, nor for a lock that is held while anybody
//!   waits for these.
//! - F3. One that was handed in and is dropped is either done or not done, as a whole; which of the two
//!   is open until the thread has come to it, or the database is closed.

mod batch;
pub(crate) mod desk;
mod serve;
mod swap;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use codec::SeqNo;
use engine::{Change, Op, Operator, check_key, check_value};

pub use self::batch::AsyncBatch;
pub use self::swap::AsyncSwap;
pub(crate) use self::swap::Other;

use self::desk::{Promise, Request, Update, Waiting, Work};
use self::serve::Watched;
use crate::error::{Error, Result};
use crate::expiry::{ChangeWithEnd, Form, LaterDeciding, WithEnd};
use crate::keyspace::Keyspace;
use crate::merge::LaterMerge;
use crate::rmw::Tried;
use crate::try_write::Limits;

/// A put or a delete under way: its number, once it is visible and has reached its handle's durability. See
/// [`Keyspace::put_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct AsyncWrite(Writing);

/// A read-modify-write or a merge under way: its number, or none if it changed nothing. See
/// [`Keyspace::rmw_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct AsyncUpdate(Writing);

/// What either is.
struct Writing {
    keyspace: Keyspace,
    state: State,
}

enum State {
    New {
        key: Vec<u8>,
        what: What,
    },
    /// Refused before anything was done.
    Refused(Error),
    Asked(Arc<Promise>),
    Over,
}

/// What is to be written, as its user knows it.
enum What {
    Put(Vec<u8>),
    Delete,
    Update(Form, Box<dyn Updating>),
}

/// An operator of a future.
trait Updating: Operator + Send {
    /// Why it has changed nothing when it was asked last, if it is an error.
    fn refusal(&mut self) -> Option<Error>;
}

/// A user's.
struct Plain<O>(O);

impl<O: Operator + Send> Updating for Plain<O> {
    fn refusal(&mut self) -> Option<Error> {
        None
    }
}

impl<O: Operator> Operator for Plain<O> {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        self.0.update_in_place(value)
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        self.0.update(value)
    }
}

impl Updating for LaterMerge {
    fn refusal(&mut self) -> Option<Error> {
        self.refusal.take()
    }
}

impl<F> Updating for LaterDeciding<F>
where
    F: FnMut(Option<WithEnd<'_>>) -> ChangeWithEnd + Send,
{
    fn refusal(&mut self) -> Option<Error> {
        self.damage.take().map(Error::from)
    }
}

impl Keyspace {
    /// [`Keyspace::put`] as a future, which needs no particular executor. What it answers, and what it has
    /// reached by then, is as there.
    ///
    /// # When it takes place
    /// It does nothing before it is polled. Where that waits for nobody, the first poll does it: in a
    /// keyspace without a journal, or by a handle whose durability is [`crate::Durability::Buffered`], as long
    /// as the engine has room. Otherwise a thread of the database, one a keyspace, which is started when it
    /// is first needed, does it, and wakes whoever polled last. No poll waits for the device, for a flush or
    /// a compaction, or for the journal; where an engine slows writers down it is that thread which waits.
    ///
    /// Of two futures of one key the second takes place after the first if it is polled first after the
    /// first was ready. Those that are under way beside each other take place in any order, whatever order
    /// they were made or polled in, also those of one task.
    ///
    /// # When it is dropped
    /// One that was never polled has done nothing and never will, and one that was ready has taken place.
    /// One that was polled and is dropped before it was ready may or may not take place, as a whole: soon, if it
    /// does, and not after [`crate::Db::close`] has returned. Whoever has to know keeps polling it, or
    /// reads. It is in nobody's way.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use futures::executor::block_on;
    /// use futures::future::try_join_all;
    /// use thermocline::{Change, Db, EngineKind, KeyspaceOptions, Options};
    ///
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let options = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
    /// let hits = db.keyspace("hits", options)?;
    /// let add_one = |old: Option<&[u8]>| {
    ///     let count = old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_le_bytes);
    ///     Change::Put((count + 1).to_le_bytes().to_vec())
    /// };
    /// block_on(async {
    ///     hits.put_async(b"home", &6_u64.to_le_bytes()).await?;
    ///     // Beside each other: what has to be read from disk is read at once.
    ///     let pages: [&[u8]; 3] = [b"home", b"news", b"home"];
    ///     try_join_all(pages.map(|page| hits.rmw_async(page, add_one))).await?;
    ///     let counts = hits.multi_get_async(&[b"home", b"news", b"shop"]).await?;
    ///     assert_eq!(counts[0].as_deref(), Some(&8_u64.to_le_bytes()[..]));
    ///     assert_eq!(counts[1].as_deref(), Some(&1_u64.to_le_bytes()[..]));
    ///     assert_eq!(counts[2], None);
    ///     hits.delete_async(b"home").await?;
    ///     Ok::<(), thermocline::Error>(())
    /// })?;
    /// assert_eq!(hits.get(b"home")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`]. [`Error::Closed`] also if the database is closed meanwhile, and nothing was
    /// written then; or if the thread ends in a panic, which is a mistake of the database, and then it may
    /// have been.
    pub fn put_async(&self, key: &[u8], value: &[u8]) -> AsyncWrite {
        let what = self.stored(value).map(|stored| What::Put(stored.into_owned()));
        AsyncWrite(self.writing(key, what))
    }

    /// [`Keyspace::put_until`] as a future. When it takes place, and what it means to drop it, is as in
    /// [`Keyspace::put_async`]; whether the end is past is told when it is polled first.
    ///
    /// # Errors
    /// As [`Keyspace::put_until`]; [`Error::Closed`] as [`Keyspace::put_async`].
    pub fn put_until_async(&self, key: &[u8], value: &[u8], end_ms: u64) -> AsyncWrite {
        AsyncWrite(self.writing(key, self.stored_until(value, end_ms).map(What::Put)))
    }

    /// The same for `time` from this call on, whenever it is polled.
    ///
    /// # Errors
    /// As [`Keyspace::put_until_async`].
    pub fn put_for_async(&self, key: &[u8], value: &[u8], time: Duration) -> AsyncWrite {
        self.put_until_async(key, value, self.end_after(time))
    }

    /// [`Keyspace::delete`] as a future. When it takes place, and what it means to drop it, is as in
    /// [`Keyspace::put_async`].
    ///
    /// # Errors
    /// As [`Keyspace::put_async`].
    pub fn delete_async(&self, key: &[u8]) -> AsyncWrite {
        AsyncWrite(self.writing(key, Ok(What::Delete)))
    }

    /// [`Keyspace::rmw`] as a future: atomic beside all other writes of the key. Where the old value has to be
    /// read from the device, that is done beside the reads of others, up to 128 at once. When it takes place,
    /// and what it means to drop it, is as in [`Keyspace::put_async`]; one that is dropped does not ask
    /// `update` any more once its drop has returned, unless it was being asked.
    ///
    /// `update` may be asked by the thread that polls or by another one, several times; the last answer counts.
    /// It must not use the database. If it panics, the poll does, and nothing has changed.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`]; [`Error::Closed`] as [`Keyspace::put_async`].
    pub fn rmw_async(
        &self,
        key: &[u8],
        update: impl FnMut(Option<&[u8]>) -> Change + Send + 'static,
    ) -> AsyncUpdate {
        self.rmw_with_async(key, update)
    }

    /// The same with an [`Operator`], which may also change a value where it lies. (If it panics in the middle
    /// of that, the value is left as it was by then.)
    ///
    /// # Errors
    /// As [`Keyspace::rmw_async`].
    pub fn rmw_with_async(
        &self,
        key: &[u8],
        operator: impl Operator + Send + 'static,
    ) -> AsyncUpdate {
        let what = What::Update(self.form, Box::new(Plain(operator)));
        AsyncUpdate(self.writing(key, Ok(what)))
    }

    /// [`Keyspace::rmw_with_end`] as a future. It costs, and takes place, as [`Keyspace::rmw_async`], and `update` is
    /// asked as there.
    ///
    /// # Errors
    /// As [`Keyspace::rmw_with_end`]; [`Error::Closed`] as [`Keyspace::put_async`].
    pub fn rmw_with_end_async(
        &self,
        key: &[u8],
        update: impl FnMut(Option<WithEnd<'_>>) -> ChangeWithEnd + Send + 'static,
    ) -> AsyncUpdate {
        let later = LaterDeciding::new(&self.inner.options.environment, update);
        let what = self.check_ends().map(|()| What::Update(Form::Stored, Box::new(later)));
        AsyncUpdate(self.writing(key, what))
    }

    /// [`Keyspace::merge`] as a future. It costs, and takes place, as [`Keyspace::rmw_async`].
    ///
    /// # Errors
    /// As [`Keyspace::merge`]; [`Error::Closed`] as [`Keyspace::put_async`].
    pub fn merge_async(&self, key: &[u8], operand: &[u8]) -> AsyncUpdate {
        let later = self.merging().and_then(|merging| {
            check_value(operand)?;
            Ok(merging.later(key, operand))
        });
        let what = later.map(|later| What::Update(Form::Values, Box::new(later)));
        AsyncUpdate(self.writing(key, what))
    }

    fn writing(&self, key: &[u8], what: Result<What>) -> Writing {
        let state = match what {
            Ok(what) => State::New { key: key.to_vec(), what },
            Err(error) => State::Refused(error),
        };
        Writing { keyspace: self.clone(), state }
    }
}

impl Writing {
    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<Option<SeqNo>>> {
        // Before the promise's lock.
        if let Err(forked) = self.keyspace.inner.check_process() {
            return Poll::Ready(Err(forked));
        }
        let state = std::mem::replace(&mut self.state, State::Over);
        let promise = match state {
            State::New { key, what } => match self.begin(key, what) {
                Ok(Begun::Done(seqno)) => return Poll::Ready(Ok(seqno)),
                Ok(Begun::Asked(promise)) => promise,
                Err(error) => return Poll::Ready(Err(error)),
            },
            State::Refused(error) => return Poll::Ready(Err(error)),
            State::Asked(promise) => promise,
            State::Over => panic!("a future is polled after it was ready"),
        };
        let polled = promise.poll(context);
        if polled.is_pending() {
            self.state = State::Asked(promise);
        }
        polled
    }

    /// The first poll.
    fn begin(&self, key: Vec<u8>, mut what: What) -> Result<Begun> {
        check_key(&key)?;
        if self.keyspace.settles_at_once()
            && let Some(done) = self.try_at_once(&key, &mut what)?
        {
            return Ok(Begun::Done(done));
        }
        let Keyspace { inner, slot, durability, .. } = &self.keyspace;
        inner.check_writable()?;
        slot.current()?;
        let promise = Arc::new(Promise::default());
        let work = match what {
            What::Put(stored) => match self.keyspace.put_op(&key, &stored) {
                Op::Delete { .. } => Work::Delete { key },
                _ => Work::Put { key, stored },
            },
            What::Delete => Work::Delete { key },
            What::Update(form, operator) => {
                let promise = Arc::clone(&promise);
                let operator = Box::new(Watched { operator, promise });
                Work::Update(Update { key, form, operator })
            }
        };
        let waiting = Waiting::new(Arc::clone(&promise), *durability);
        slot.writes.ask(&inner.0, slot, Request { work, waiting })?;
        Ok(Begun::Asked(promise))
    }

    /// None if it would have to wait.
    fn try_at_once(&self, key: &[u8], what: &mut What) -> Result<Option<Option<SeqNo>>> {
        let Keyspace { inner, slot, .. } = &self.keyspace;
        match what {
            What::Put(stored) => {
                let op = self.keyspace.put_op(key, stored);
                Ok(inner.try_write_one(slot, &op, Limits::POLL)?.map(Some))
            }
            What::Delete => {
                let op = Op::Delete { key };
                Ok(inner.try_write_one(slot, &op, Limits::POLL)?.map(Some))
            }
            What::Update(form, operator) => {
                let tried = inner.try_rmw(slot, *form, key, &mut **operator, Limits::POLL)?;
                let done = match tried {
                    Tried::Done(seqno) => Some(seqno),
                    Tried::NeedsRead | Tried::MustWait => None,
                };
                operator.refusal().map_or(Ok(done), Err)
            }
        }
    }
}

/// What the first poll has come to.
enum Begun {
    Done(Option<SeqNo>),
    Asked(Arc<Promise>),
}

impl Drop for Writing {
    fn drop(&mut self) {
        if let State::Asked(promise) = &self.state {
            promise.give_up();
        }
    }
}

impl Future for AsyncWrite {
    type Output = Result<SeqNo>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<SeqNo>> {
        self.0.poll(context).map_ok(|seqno| seqno.expect("a put or a delete has a number"))
    }
}

impl Future for AsyncUpdate {
    type Output = Result<Option<SeqNo>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}

impl Writing {
    fn fmt(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_pending = matches!(self.state, State::Asked(_));
        f.debug_struct(name).field("is_pending", &is_pending).finish_non_exhaustive()
    }
}

impl fmt::Debug for AsyncWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt("AsyncWrite", f)
    }
}

impl fmt::Debug for AsyncUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt("AsyncUpdate", f)
    }
}
