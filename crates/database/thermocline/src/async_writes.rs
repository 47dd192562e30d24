//! Writes as futures, for any executor. This file has the writes of one key; [`swap`] has the
//! compare-and-swaps, and [`batch`] the batches.
//!
//! 1. The first poll does the write, if it need not wait ([`crate::try_write`]). For that, the
//!    durability needs no wait, the key's lock is free, memory knows the old value, and the engine
//!    and the journal have room.
//! 2. Otherwise the poll hands the write in at the async writer of its keyspace ([`async_writer`]),
//!    and a batch at the async writer of one of its keyspaces. A thread does it together with other
//!    writes ([`serve`]). The lookups of old values on disk overlap, and the writes of one turn
//!    share a wait for the journal. Then the thread stores the result for the future and calls its
//!    waker.
//!
//! # Invariants
//! - F1. A future has done nothing before its first poll.
//! - F2. A poll waits for no device, no flush and no compaction. It also waits for no lock that
//!   another thread holds while it waits for one of these.
//! - F3. A future that was handed in and is dropped takes place as a whole or not at all. Which of
//!   the two is open until the thread begins it, or the database is closed.

pub(crate) mod async_writer;
mod batch;
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

use self::async_writer::{Promise, Request, Update, Waiting, Work};
use self::serve::Watched;
use crate::async_keyspace::AsyncKeyspace;
use crate::error::{Error, Result};
use crate::expiry::{Expiring, ExpiringChange, LaterDeciding, ValueForm};
use crate::keyspace::Keyspace;
use crate::merge::LaterMerge;
use crate::rmw::Tried;
use crate::try_write::Limits;

/// A put or a delete under way: its number, once it is visible and has reached its handle's
/// durability. See [`AsyncKeyspace::put`].
#[must_use = "a future does nothing unless it is polled"]
pub struct AsyncWrite(Writing);

/// A read-modify-write or a merge under way: its number, or none if it changed nothing. See
/// [`AsyncKeyspace::rmw`].
#[must_use = "a future does nothing unless it is polled"]
pub struct AsyncUpdate(Writing);

/// A write of one key under way: the content of the futures.
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

/// The change that the caller asked for. A value has its stored form.
enum What {
    Put(Vec<u8>),
    Delete,
    Update(ValueForm, Box<dyn Updating>),
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
    F: FnMut(Option<Expiring<'_>>) -> ExpiringChange + Send,
{
    fn refusal(&mut self) -> Option<Error> {
        self.damage.take().map(Error::from)
    }
}

impl AsyncKeyspace<'_> {
    /// [`Keyspace::put`] as a future, which needs no particular executor. Its output is the same,
    /// and when it is ready the write has reached the same durability.
    ///
    /// # When it takes place
    /// It does nothing before it is polled. The first poll does the write in a keyspace without a
    /// journal, or by a handle whose durability is [`crate::Durability::Buffered`]. It does so if
    /// the engine and the journal have room, no other thread has locked the key, and key and value
    /// have at most 64 KiB. Otherwise a thread of the database does the write and wakes the task
    /// that polled last. Each keyspace has one such thread, which is started when it is first
    /// needed. No poll waits for the device, for a flush or a compaction, or for the journal. If an
    /// engine slows writers down, that thread waits.
    ///
    /// Of two futures of one key, the second takes place after the first if its first poll comes
    /// after the first was ready. Futures that are under way at the same time take place in any
    /// order, whatever the order in which they were made or polled. This also holds for the futures
    /// of one task.
    ///
    /// # When it is dropped
    /// A future that was never polled has done nothing and never will. A future that was ready has
    /// taken place. A future that was polled and is dropped before it was ready may or may not take
    /// place, as a whole. If it does, that is soon, and not after [`crate::Db::close`] has
    /// returned. A caller that has to know polls until it is ready, or reads the key. A dropped
    /// future blocks no other operation.
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
    ///     hits.futures().put(b"home", &6_u64.to_le_bytes()).await?;
    ///     // Concurrently: the reads from disk overlap.
    ///     let pages: [&[u8]; 3] = [b"home", b"news", b"home"];
    ///     try_join_all(pages.map(|page| hits.futures().rmw(page, add_one))).await?;
    ///     let counts = hits.futures().multi_get(&[b"home", b"news", b"shop"]).await?;
    ///     assert_eq!(counts[0].as_deref(), Some(&8_u64.to_le_bytes()[..]));
    ///     assert_eq!(counts[1].as_deref(), Some(&1_u64.to_le_bytes()[..]));
    ///     assert_eq!(counts[2], None);
    ///     hits.futures().delete(b"home").await?;
    ///     Ok::<(), thermocline::Error>(())
    /// })?;
    /// assert_eq!(hits.get(b"home")?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`]. [`Error::Closed`] also if the database is closed meanwhile; then
    /// nothing was written. [`Error::Closed`] as well if the thread ends in a panic, which is a
    /// defect of the database; then the value may have been written.
    pub fn put(&self, key: &[u8], value: &[u8]) -> AsyncWrite {
        let what = self.0.stored(value).map(|stored| What::Put(stored.into_owned()));
        AsyncWrite(self.writing(key, what))
    }

    /// [`crate::ExpiringKeyspace::put`] as a future. It takes place, and can be dropped, as
    /// [`AsyncKeyspace::put`] says. The first poll decides whether the end is past.
    ///
    /// # Errors
    /// As [`crate::ExpiringKeyspace::put`]; [`Error::Closed`] as [`AsyncKeyspace::put`].
    pub fn put_with_expiry(&self, key: &[u8], value: &[u8], expiry_ms: u64) -> AsyncWrite {
        AsyncWrite(self.writing(key, self.0.stored_with_expiry(value, expiry_ms).map(What::Put)))
    }

    /// The same for `time` from this call on, whenever it is polled.
    ///
    /// # Errors
    /// As [`AsyncKeyspace::put_with_expiry`].
    pub fn put_with_ttl(&self, key: &[u8], value: &[u8], time: Duration) -> AsyncWrite {
        self.put_with_expiry(key, value, self.0.expiry_after(time))
    }

    /// [`Keyspace::delete`] as a future. It takes place, and can be dropped, as
    /// [`AsyncKeyspace::put`] says.
    ///
    /// # Errors
    /// As [`AsyncKeyspace::put`].
    pub fn delete(&self, key: &[u8]) -> AsyncWrite {
        AsyncWrite(self.writing(key, Ok(What::Delete)))
    }

    /// [`Keyspace::rmw`] as a future, atomic with respect to all other writes of the key. If the
    /// old value has to be read from the device, the read overlaps with the reads of other futures
    /// of the keyspace, up to 128 in all. It takes place, and can be dropped, as
    /// [`AsyncKeyspace::put`] says. Once the drop has returned, `update` is not called again. A
    /// call that has begun before ends later.
    ///
    /// The polling thread calls `update`, or another thread does, possibly several times. The last
    /// result counts. `update` must not use the database. If it panics, the poll panics, and
    /// nothing has changed.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`]; [`Error::Closed`] as [`AsyncKeyspace::put`].
    pub fn rmw(
        &self,
        key: &[u8],
        update: impl FnMut(Option<&[u8]>) -> Change + Send + 'static,
    ) -> AsyncUpdate {
        self.rmw_with(key, update)
    }

    /// The same with an [`Operator`], which may also change a value in place. If it panics in the
    /// middle of that, the value is unchanged: an engine lets it change a copy.
    ///
    /// # Errors
    /// As [`AsyncKeyspace::rmw`].
    pub fn rmw_with(&self, key: &[u8], operator: impl Operator + Send + 'static) -> AsyncUpdate {
        let what = What::Update(self.0.form, Box::new(Plain(operator)));
        AsyncUpdate(self.writing(key, Ok(what)))
    }

    /// [`crate::ExpiringKeyspace::rmw`] as a future. It costs, and takes place, as
    /// [`AsyncKeyspace::rmw`], and `update` is asked as there.
    ///
    /// # Errors
    /// As [`crate::ExpiringKeyspace::rmw`]; [`Error::Closed`] as [`AsyncKeyspace::put`].
    pub fn rmw_with_expiry(
        &self,
        key: &[u8],
        update: impl FnMut(Option<Expiring<'_>>) -> ExpiringChange + Send + 'static,
    ) -> AsyncUpdate {
        let later = LaterDeciding::new(&self.0.inner.options.environment, update);
        let what =
            self.0.check_expiring().map(|()| What::Update(ValueForm::Stored, Box::new(later)));
        AsyncUpdate(self.writing(key, what))
    }

    /// [`Keyspace::merge`] as a future. It costs, and takes place, as [`AsyncKeyspace::rmw`].
    ///
    /// # Errors
    /// As [`Keyspace::merge`]; [`Error::Closed`] as [`AsyncKeyspace::put`].
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> AsyncUpdate {
        let later = self.0.merging().and_then(|merging| {
            check_value(operand)?;
            Ok(merging.later(key, operand))
        });
        let what = later.map(|later| What::Update(ValueForm::Values, Box::new(later)));
        AsyncUpdate(self.writing(key, what))
    }

    fn writing(&self, key: &[u8], what: Result<What>) -> Writing {
        let state = match what {
            Ok(what) => State::New { key: key.to_vec(), what },
            Err(error) => State::Refused(error),
        };
        Writing { keyspace: self.0.clone(), state }
    }
}

impl Writing {
    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<Option<SeqNo>>> {
        // Before the promise's lock.
        if let Err(forked) = self.keyspace.inner.lifecycle.check_process() {
            return Poll::Ready(Err(forked));
        }
        let state = std::mem::replace(&mut self.state, State::Over);
        let promise = match state {
            State::New { key, what } => match self.begin(key, what) {
                Ok(FirstPoll::Done(seqno)) => return Poll::Ready(Ok(seqno)),
                Ok(FirstPoll::Asked(promise)) => promise,
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
    fn begin(&self, key: Vec<u8>, mut what: What) -> Result<FirstPoll> {
        check_key(&key)?;
        if self.keyspace.is_durable_without_wait()
            && let Some(done) = self.try_now(&key, &mut what)?
        {
            return Ok(FirstPoll::Done(done));
        }
        let Keyspace { inner, entry, durability, .. } = &self.keyspace;
        inner.lifecycle.check_writable()?;
        entry.current()?;
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
        entry.writes.ask(&inner.0, entry, Request { work, waiting })?;
        Ok(FirstPoll::Asked(promise))
    }

    /// None if it would have to wait.
    fn try_now(&self, key: &[u8], what: &mut What) -> Result<Option<Option<SeqNo>>> {
        let Keyspace { inner, entry, .. } = &self.keyspace;
        match what {
            What::Put(stored) => {
                let op = self.keyspace.put_op(key, stored);
                Ok(inner.try_write_one(entry, &op, Limits::POLL)?.map(Some))
            }
            What::Delete => {
                let op = Op::Delete { key };
                Ok(inner.try_write_one(entry, &op, Limits::POLL)?.map(Some))
            }
            What::Update(form, operator) => {
                let tried = inner.try_rmw(entry, *form, key, &mut **operator, Limits::POLL)?;
                let done = match tried {
                    Tried::Done(seqno) => Some(seqno),
                    Tried::NeedsRead | Tried::MustWait => None,
                };
                operator.refusal().map_or(Ok(done), Err)
            }
        }
    }
}

/// The result of the first poll.
enum FirstPoll {
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
