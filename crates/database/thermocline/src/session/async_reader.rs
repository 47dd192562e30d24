//! The lookups of futures, and the thread that completes them.
//!
//! 1. A future whose lookup is pending hands it in as a [`Request`]. The first one starts the
//!    thread.
//! 2. The thread starts lookups until its table is full, waits for the device, stores the results,
//!    and wakes the futures.
//! 3. With nothing requested and nothing pending it sleeps.
//!
//! # Invariants
//! - A1. Every request gets a result: one that is dropped without a result gets the error that the
//!   database is closed.
//! - A2. No lock is held while a waker runs. A waker may do anything, also drop the database's last
//!   handle: so the thread may be the one that stops the async reader, and then does not wait for
//!   itself. Any other thread that stops the async reader holds no lock that a waker may want.
//! - A3. A waker that panics changes nothing else: the thread continues, and each other request
//!   gets its result.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use engine::PendingLookup;
use environment::{Environment, JoinHandle};
use memory_budget::MemoryBudget;
use reads::InFlightReads;
use sync::locks::{Condvar, Mutex};

use crate::close::begin_to_wake;
use crate::error::{Error, Result};

/// Lookups in flight.
const DEPTH: usize = 128;

/// The result of a read.
pub(crate) type Outcome = Result<Option<Vec<u8>>>;

/// The place where a future finds its answer.
pub(crate) struct Answer<T = Outcome>(Mutex<Place<T>>);

struct Place<T> {
    outcome: Option<T>,
    waker: Option<Waker>,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self(Mutex::new(Place { outcome: None, waker: None }))
    }
}

impl<T> Answer<T> {
    /// Returns the outcome, if it is there; otherwise `waker` will be woken.
    pub(crate) fn take(&self, waker: &Waker) -> Option<T> {
        let mut place = self.0.lock();
        if place.outcome.is_none() {
            place.waker = Some(waker.clone());
        }
        place.outcome.take()
    }

    pub(crate) fn fill(&self, outcome: T) {
        let mut place = self.0.lock();
        place.outcome = Some(outcome);
        let waker = place.waker.take();
        drop(place);
        // [A2]
        if let Some(waker) = waker {
            // The panic hook has reported the panic of a waker. It may run while another panic
            // drops requests, and a second panic would end the process then. [A3]
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

/// A lookup that a future waits for.
pub(crate) struct Request {
    lookup: Box<dyn PendingLookup>,
    answer: Promise,
}

/// The place for one result, which is stored once.
struct Promise(Option<Arc<Answer>>);

impl Request {
    pub(crate) fn new(lookup: Box<dyn PendingLookup>, answer: Arc<Answer>) -> Self {
        Self { lookup, answer: Promise(Some(answer)) }
    }
}

impl Promise {
    fn fill(mut self, outcome: Outcome) {
        if let Some(answer) = self.0.take() {
            answer.fill(outcome);
        }
    }

    /// Returns whether the future was dropped.
    fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_none_or(|answer| Arc::strong_count(answer) == 1)
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        // [A1]
        if let Some(answer) = self.0.take() {
            answer.fill(Err(Error::Closed));
        }
    }
}

/// The async reader of one engine.
#[derive(Default)]
pub(crate) struct AsyncReader {
    shared: Arc<Shared>,
    /// All that were started.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    /// Whether there is a thread that will take the requests.
    is_serving: bool,
    is_stopped: bool,
}

impl AsyncReader {
    /// Hands a request in. The buffers of its reads are charged to `budget`.
    ///
    /// # Errors
    /// The thread cannot be made; the async reader is closed.
    pub(crate) fn ask(
        &self,
        environment: &Environment,
        budget: &Arc<MemoryBudget>,
        request: Request,
    ) -> Result<()> {
        // One caller starts the thread; until it has, no other one hands anything in.
        let mut threads = self.threads.lock();
        let (is_stopped, is_serving) = self.shared.run_state();
        if is_stopped {
            return Err(Error::Closed);
        }
        if !is_serving {
            self.shared.state.lock().is_serving = true;
            let shared = Arc::clone(&self.shared);
            let reads = InFlightReads::new(DEPTH, budget);
            let started = environment.spawn("async-reads", move || {
                begin_to_wake();
                shared.serve(reads);
            });
            if started.is_err() {
                self.shared.state.lock().is_serving = false;
            }
            threads.push(started.map_err(|error| Error::Thread(error.to_string()))?);
        }
        drop(threads);
        let mut state = self.shared.state.lock();
        // It may have ended meanwhile.
        if !state.is_serving {
            drop(state);
            return self.ask(environment, budget, request);
        }
        state.requests.push_back(request);
        drop(state);
        self.shared.arrived.notify_one();
        Ok(())
    }

    /// Ends the threads. The engine is closed, so that what is pending ends soon.
    pub(crate) fn stop(&self) {
        self.shared.state.lock().is_stopped = true;
        self.shared.arrived.notify_one();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            // [A2]
            if thread.thread().id() != std::thread::current().id() {
                // If it panicked, its requests have got their answers [A1].
                let _ = thread.join();
            }
        }
    }
}

/// Notes the end of a thread, whatever its cause, and drops the requests that it leaves.
struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.is_serving = false;
        let left = std::mem::take(&mut state.requests);
        // Not under the lock [A2].
        drop(state);
        drop(left);
    }
}

impl Shared {
    /// Whether the async reader is stopped, and whether a thread serves.
    fn run_state(&self) -> (bool, bool) {
        let state = self.state.lock();
        (state.is_stopped, state.is_serving)
    }

    fn serve(&self, reads: InFlightReads<Promise>) {
        let _leaving = Leaving(self);
        // Dropped before `_leaving`, so that it finds the requests of the wakers.
        let mut reads = reads;
        // Requests for which the table has no room yet.
        let mut waiting = VecDeque::new();
        loop {
            let is_idle = reads.is_empty() && waiting.is_empty();
            let room = DEPTH.saturating_sub(reads.len() + waiting.len());
            let Some(requests) = self.next(room, is_idle) else { break };
            waiting.extend(requests);
            while let Some(Request { lookup, answer }) = waiting.pop_front() {
                if answer.is_cancelled() {
                    continue;
                }
                if let Err((lookup, answer)) = reads.start(lookup, answer) {
                    waiting.push_front(Request { lookup, answer });
                    break;
                }
            }
            reads.complete(true, &mut |answer, done| {
                let value = done.value.map(|value| value.map(std::mem::take));
                answer.fill(value.map_err(Error::from));
            });
        }
    }

    /// Returns up to `room` requests; waits for one if the thread `is_idle`. Returns none once the
    /// async reader is stopped and nothing is left to do.
    fn next(&self, room: usize, is_idle: bool) -> Option<Vec<Request>> {
        let mut state = self.state.lock();
        while is_idle && state.requests.is_empty() && !state.is_stopped {
            self.arrived.wait(&mut state);
        }
        if is_idle && state.is_stopped {
            return None;
        }
        let count = room.min(state.requests.len());
        Some(state.requests.drain(..count).collect())
    }
}
