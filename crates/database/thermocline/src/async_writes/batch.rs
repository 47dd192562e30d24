//! A batch as a future. A batch that has to wait is handed in at the async writer of one of its
//! keyspaces, a journaled one if there is any. So the wait for the journal that the async writer's
//! thread makes for that keyspace covers the batch, too.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use codec::SeqNo;
use journal::Durability;

use super::FirstPoll;
use super::async_writer::{Promise, Request, Waiting, Work};
use crate::batch::Batch;
use crate::database::Db;
use crate::error::Result;
use crate::keyspace_entry::KeyspaceEntry;
use crate::try_write::Limits;

/// A batch under way: its number. See [`Db::write_async`].
#[must_use = "a future does nothing unless it is polled"]
pub struct AsyncBatch {
    db: Db,
    state: State,
}

enum State {
    New(Batch),
    Asked(Arc<Promise>),
    Over,
}

impl Db {
    /// [`Db::write`] as a future, which needs no particular executor. It writes all of the batch or
    /// nothing, and the batch has reached this handle's durability when the future is ready.
    ///
    /// It takes place, and can be dropped, as [`crate::AsyncKeyspace::put`] says. The first poll
    /// writes a short batch of up to 128 puts and deletes, if it need not wait. A thread of one of
    /// the keyspaces writes any other batch. If several writes of that thread wait for the journal,
    /// they share the wait. That thread also calls the operators of merges. If an operator panics,
    /// the poll panics, and nothing was written.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use futures::executor::block_on;
    /// use thermocline::{Batch, Db, Options};
    /// let db = Db::open(dir.path(), Options::default())?;
    /// let accounts = db.keyspace("accounts", Default::default())?;
    /// let mut batch = Batch::new();
    /// batch.put(&accounts, b"alice", b"90").put(&accounts, b"bob", b"110");
    /// block_on(db.write_async(batch))?;
    /// assert_eq!(accounts.get(b"bob")?.as_deref(), Some(&b"110"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Db::write`]; [`crate::Error::Closed`] as [`crate::AsyncKeyspace::put`].
    pub fn write_async(&self, batch: Batch) -> AsyncBatch {
        AsyncBatch { db: self.clone(), state: State::New(batch) }
    }
}

impl AsyncBatch {
    /// The first poll.
    fn begin(&self, batch: Batch) -> Result<FirstPoll> {
        let Db { inner, durability } = &self.db;
        let is_durable_without_wait = *durability == Durability::Buffered || !batch.is_journaled();
        if is_durable_without_wait
            && let Some(seqno) = inner.try_write_batch(&batch, Limits::POLL)?
        {
            return Ok(FirstPoll::Done(Some(seqno)));
        }
        inner.check_steps(batch.steps())?;
        let Some(entry) = writer_of(&batch) else { return Ok(FirstPoll::Done(None)) };
        entry.current()?;
        let promise = Arc::new(Promise::default());
        let waiting = Waiting::new(Arc::clone(&promise), *durability);
        entry.writes.ask(&inner.0, &entry, Request { work: Work::Batch(batch), waiting })?;
        Ok(FirstPoll::Asked(promise))
    }
}

/// Returns the keyspace whose thread writes a batch, the first journaled one if there is any;
/// `None` for an empty batch.
fn writer_of(batch: &Batch) -> Option<Arc<KeyspaceEntry>> {
    let mut entries = batch.steps().iter().map(|step| &step.keyspace.entry);
    let first = entries.next()?;
    let journaled = std::iter::once(first).chain(entries).find(|entry| entry.options.journaled);
    Some(Arc::clone(journaled.unwrap_or(first)))
}

impl Future for AsyncBatch {
    type Output = Result<SeqNo>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<SeqNo>> {
        // Before the promise's lock.
        if let Err(forked) = self.db.inner.lifecycle.check_process() {
            return Poll::Ready(Err(forked));
        }
        let begun = match mem::replace(&mut self.state, State::Over) {
            State::New(batch) => self.begin(batch),
            State::Asked(promise) => Ok(FirstPoll::Asked(promise)),
            State::Over => panic!("a future is polled after it was ready"),
        };
        let polled = match begun {
            Ok(FirstPoll::Done(seqno)) => Poll::Ready(Ok(seqno)),
            Ok(FirstPoll::Asked(promise)) => {
                let polled = promise.poll(context);
                if polled.is_pending() {
                    self.state = State::Asked(promise);
                }
                polled
            }
            Err(error) => Poll::Ready(Err(error)),
        };
        // Without one there was nothing to write.
        polled.map_ok(|seqno| seqno.unwrap_or_else(|| self.db.inner.order.sequence.visible()))
    }
}

impl Drop for AsyncBatch {
    fn drop(&mut self) {
        if let State::Asked(promise) = &self.state {
            promise.give_up();
        }
    }
}

impl fmt::Debug for AsyncBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_pending = matches!(self.state, State::Asked(_));
        f.debug_struct("AsyncBatch").field("is_pending", &is_pending).finish_non_exhaustive()
    }
}
