//! The async writers at which futures hand writes in, and the start and the end of the threads that
//! do these writes.
//!
//! 1. A future whose poll would have to wait hands a [`Request`] in. The first request of a
//!    keyspace starts its thread, which continues as [`super::serve`] says.
//! 2. With nothing requested and nothing pending the thread sleeps.
//! 3. The thread ends when its keyspace is dropped or the database is closed, once every request
//!    has its result. If it ends in a panic, which is a defect of the database, the next request
//!    starts another thread.
//!
//! # Invariants
//! - R1. Every request gets a result, whatever happens: one that is dropped without a result gets
//!   the error that the database is closed.
//! - R2. No lock is held while a waker runs. A waker may do anything, also drop the database's last
//!   handle: so the thread may be the one that closes the database, and then does not wait for
//!   itself.
//! - R3. A thread that clears or drops a keyspace has all keys locked. It notifies the async writer
//!   without waiting for the async writer's thread, which may wait for a key. A close of the
//!   database waits for the threads, with nothing locked.
//!
//! # Concurrency
//! Lock order: an async writer's state, then the list of threads.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use codec::SeqNo;
use engine::Operator;
use environment::JoinHandle;
use journal::Durability;
use sync::locks::{Condvar, Mutex};

use super::serve::serve;
use crate::batch::Batch;
use crate::close::begin_to_wake;
use crate::database::Inner;
use crate::error::{Error, Result};
use crate::expiry::ValueForm;
use crate::keyspace_entry::KeyspaceEntry;
use crate::session::async_reader::Answer;

/// The payload of a panic.
pub(super) type Panic = Box<dyn Any + Send>;

/// The outcome of a write.
enum WriteOutcome {
    Done(Result<Option<SeqNo>>),
    /// Its operator has panicked, and the write has changed nothing.
    Panicked(Panic),
}

/// The state that a future and its request share.
#[derive(Default)]
pub(super) struct Promise {
    answer: Answer<WriteOutcome>,
    is_given_up: AtomicBool,
    /// The outcome of the operator's last call, if that was an error or a panic.
    instead: Mutex<Option<Instead>>,
}

/// Why an operator has changed nothing, if that is no decision of its own.
pub(super) enum Instead {
    Refused(Error),
    Panicked(Panic),
}

impl Promise {
    /// The future was dropped.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Relaxed);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Relaxed)
    }

    /// Whether the operator may not be asked any more.
    pub(super) fn has_panicked(&self) -> bool {
        matches!(*self.instead.lock(), Some(Instead::Panicked(_)))
    }

    pub(super) fn note(&self, instead: Option<Instead>) {
        *self.instead.lock() = instead;
    }

    /// Returns the outcome of the write, if it is there; otherwise the waker of `context` will be
    /// woken.
    ///
    /// # Panics
    /// If the operator has panicked.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Result<Option<SeqNo>>> {
        match self.answer.take(context.waker()) {
            Some(WriteOutcome::Done(outcome)) => Poll::Ready(outcome),
            Some(WriteOutcome::Panicked(panic)) => resume_unwind(panic),
            None => Poll::Pending,
        }
    }

    fn fill(&self, outcome: Result<Option<SeqNo>>) {
        if self.is_given_up() {
            return;
        }
        let instead = self.instead.lock().take();
        self.answer.fill(match instead {
            None => WriteOutcome::Done(outcome),
            Some(Instead::Refused(error)) => WriteOutcome::Done(Err(error)),
            Some(Instead::Panicked(panic)) => WriteOutcome::Panicked(panic),
        });
    }
}

/// The future that waits for a write, and the durability that it waits for.
pub(super) struct Waiting {
    /// None once it is answered.
    promise: Option<Arc<Promise>>,
    pub(super) durability: Durability,
}

impl Waiting {
    pub(super) fn new(promise: Arc<Promise>, durability: Durability) -> Self {
        Self { promise: Some(promise), durability }
    }

    /// Whether the future was dropped.
    pub(super) fn is_given_up(&self) -> bool {
        self.promise.as_ref().is_none_or(|promise| promise.is_given_up())
    }

    /// Its operator has panicked, and the write has changed nothing.
    pub(super) fn panicked(&self, panic: Panic) {
        if let Some(promise) = &self.promise {
            promise.note(Some(Instead::Panicked(panic)));
        }
    }

    pub(super) fn answer(mut self, outcome: Result<Option<SeqNo>>) {
        if let Some(promise) = self.promise.take() {
            promise.fill(outcome);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // [R1]
        if let Some(promise) = self.promise.take() {
            promise.fill(Err(Error::Closed));
        }
    }
}

/// The change that a request asks for.
pub(super) enum Work {
    Put { key: Vec<u8>, stored: Vec<u8> },
    Delete { key: Vec<u8> },
    Update(Update),
    Batch(Batch),
}

/// A read-modify-write.
pub(super) struct Update {
    pub(super) key: Vec<u8>,
    pub(super) form: ValueForm,
    pub(super) operator: Box<dyn Operator + Send>,
}

/// A write that a future waits for.
pub(super) struct Request {
    pub(super) work: Work,
    pub(super) waiting: Waiting,
}

/// The async writer of one keyspace.
#[derive(Default)]
pub(crate) struct AsyncWriter {
    shared: Arc<Shared>,
}

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    /// There is a thread, and it will look at the requests again.
    is_serving: bool,
    is_dismissed: bool,
    /// Another engine fills the keyspace than when the thread looked last.
    is_renewed: bool,
}

impl AsyncWriter {
    /// Hands a request in.
    ///
    /// # Errors
    /// The thread cannot be made; the keyspace was dropped, or the database is closed.
    pub(super) fn ask(
        &self,
        inner: &Arc<Inner>,
        entry: &Arc<KeyspaceEntry>,
        request: Request,
    ) -> Result<()> {
        let mut state = self.shared.state.lock();
        if state.is_dismissed {
            return entry.current().and(Err(Error::Closed));
        }
        if !state.is_serving {
            let (shared, inner_too, entry) =
                (Arc::clone(&self.shared), Arc::clone(inner), Arc::clone(entry));
            inner.background.writers.start(inner, move || {
                begin_to_wake();
                serve(&shared, inner_too, entry);
            })?;
            state.is_serving = true;
        }
        state.requests.push_back(request);
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// Has the thread, if it is idle, release the engine that filled the keyspace [R3].
    pub(crate) fn renew(&self) {
        self.shared.state.lock().is_renewed = true;
        self.shared.changed.notify_one();
    }

    /// Has the thread end once it has answered all [R3]. The keyspace, or the database, already
    /// refuses writes.
    pub(crate) fn dismiss(&self) {
        self.shared.state.lock().is_dismissed = true;
        self.shared.changed.notify_one();
    }
}

impl fmt::Debug for AsyncWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncWriter").finish_non_exhaustive()
    }
}

impl Shared {
    /// Up to `room` requests; waits for one, or that another engine fills the keyspace, if the
    /// thread `is_idle`. None once the async writer is dismissed and nothing is left to do.
    pub(super) fn next(&self, room: usize, is_idle: bool) -> Option<Vec<Request>> {
        let mut state = self.state.lock();
        let has_nothing =
            |state: &State| state.requests.is_empty() && !state.is_dismissed && !state.is_renewed;
        while is_idle && has_nothing(&state) {
            self.changed.wait(&mut state);
        }
        if is_idle && state.is_dismissed && state.requests.is_empty() {
            return None;
        }
        state.is_renewed = false;
        let count = room.min(state.requests.len());
        Some(state.requests.drain(..count).collect())
    }
}

/// Notes the end of a thread, whatever its cause, and drops the requests that it leaves [R1].
pub(super) struct Leaving<'a>(pub(super) &'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_serving = false;
        let left = mem::take(&mut state.requests);
        // Not under the lock [R2].
        drop(state);
        drop(left);
    }
}

/// The threads of all async writers of a database.
#[derive(Debug, Default)]
pub(crate) struct Writers(Mutex<Started>);

#[derive(Debug, Default)]
struct Started {
    threads: Vec<JoinHandle<()>>,
    is_over: bool,
}

impl Writers {
    fn start(&self, inner: &Inner, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut started = self.0.lock();
        if started.is_over {
            return Err(Error::Closed);
        }
        started.threads.retain(|thread| !thread.is_finished());
        let thread = inner.options.environment.spawn("async-writes", work);
        started.threads.push(thread.map_err(|error| Error::Thread(error.to_string()))?);
        Ok(())
    }
}

impl Inner {
    /// Ends the threads that write for futures, and waits for them [R3]. The database already
    /// refuses writes.
    pub(crate) fn stop_writers(&self) {
        let mut started = self.background.writers.0.lock();
        started.is_over = true;
        let threads = mem::take(&mut started.threads);
        drop(started);
        // Those of keyspaces that were dropped have been dismissed.
        self.keyspaces.all().iter().for_each(|entry| entry.writes.dismiss());
        for thread in threads {
            // [R2]
            if thread.thread().id() != std::thread::current().id() {
                // If it panicked, its requests have got their results [R1].
                let _ = thread.join();
            }
        }
    }
}
