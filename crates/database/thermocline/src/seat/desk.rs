//! Where reads of futures are handed in, and the thread that does them.
//!
//! 1. A future that memory cannot answer hands a [`Request`] in. The first one starts the thread.
//! 2. The thread begins as many as its seat has room for, waits for the device, answers, and wakes.
//! 3. With nothing asked and nothing pending it sleeps. When its queue fails it tells all who wait, and
//!    ends; the next request starts another.
//!
//! # Invariants
//! - A1. Every request is answered, whatever happens: one that is dropped unanswered says that the
//!   database is closed.
//! - A2. No lock is held while a waker runs, which may do anything, also drop the database's last
//!   handle: so the thread may be the one that stops the desk, and then does not wait for itself.
//!   Whoever else stops it holds no lock that a waker may want.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;

use engine::{Begun, Engine, Seat};
use environment::Environment;
use sync::locks::{Condvar, Mutex};

use crate::close::begin_to_wake;
use crate::error::{Error, Result};

/// Reads under way at once.
const DEPTH: usize = 128;

/// What a read has come to.
pub(crate) type Outcome = Result<Option<Vec<u8>>>;

/// Where a future finds its answer.
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
    /// The outcome, if it is there; otherwise `waker` will be woken.
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
            waker.wake();
        }
    }
}

/// A read that somebody waits for.
pub(crate) struct Request {
    key: Vec<u8>,
    /// None once it is answered.
    answer: Option<Arc<Answer>>,
}

impl Request {
    pub(crate) fn new(key: Vec<u8>, answer: Arc<Answer>) -> Self {
        Self { key, answer: Some(answer) }
    }

    fn answer(mut self, outcome: Outcome) {
        if let Some(answer) = self.answer.take() {
            answer.fill(outcome);
        }
    }

    /// Whether the future was dropped.
    fn is_given_up(&self) -> bool {
        self.answer.as_ref().is_none_or(|answer| Arc::strong_count(answer) == 1)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // [A1]
        if let Some(answer) = self.answer.take() {
            answer.fill(Err(Error::Closed));
        }
    }
}

/// The desk of one engine.
#[derive(Default)]
pub(crate) struct Desk {
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
    /// There is a thread, and it will look at the requests again.
    is_serving: bool,
    is_stopped: bool,
}

impl Desk {
    /// Hands a request in.
    ///
    /// # Errors
    /// The thread, or its queue, cannot be made; the desk is closed.
    pub(crate) fn ask(
        &self,
        engine: &dyn Engine,
        environment: &Environment,
        request: Request,
    ) -> Result<()> {
        // One starts the thread; until it does, nobody else hands anything in.
        let mut threads = self.threads.lock();
        let (is_stopped, is_serving) = self.shared.standing();
        if is_stopped {
            return Err(Error::Closed);
        }
        if !is_serving {
            let Some(seat) = engine.seat(DEPTH)? else {
                // [A2]
                drop(threads);
                let mut value = Vec::new();
                let has_value = engine.get(&request.key, &mut value)?;
                request.answer(Ok(has_value.then_some(value)));
                return Ok(());
            };
            self.shared.state.lock().is_serving = true;
            let shared = Arc::clone(&self.shared);
            let started = environment.spawn("async-reads", move || {
                begin_to_wake();
                shared.serve(seat);
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
            return self.ask(engine, environment, request);
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
                // If it panicked, whoever waited has been answered [A1].
                let _ = thread.join();
            }
        }
    }
}

/// Says, however a thread ends, that it does, and answers what it will not look at any more.
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
    /// Whether the desk is stopped, and whether a thread serves.
    fn standing(&self) -> (bool, bool) {
        let state = self.state.lock();
        (state.is_stopped, state.is_serving)
    }

    fn serve(&self, mut seat: Box<dyn Seat>) {
        let _leaving = Leaving(self);
        let mut pending: HashMap<u64, Request> = HashMap::new();
        let mut tags = 0..;
        while let Some(requests) = self.next(DEPTH - pending.len(), pending.is_empty()) {
            for (request, tag) in requests.into_iter().zip(&mut tags) {
                if !request.is_given_up() {
                    begin(&mut *seat, tag, request, &mut pending);
                }
            }
            let mut told = |tag, found: engine::Result<Option<&[u8]>>| {
                if let Some(request) = pending.remove(&tag) {
                    request
                        .answer(found.map(|value| value.map(<[u8]>::to_vec)).map_err(Error::from));
                }
            };
            if let Err(error) = seat.complete(true, &mut told) {
                let error = Error::from(error);
                let asked = std::mem::take(&mut self.state.lock().requests);
                let all = pending.into_values().chain(asked);
                all.for_each(|request| request.answer(Err(error.clone())));
                return;
            }
        }
    }

    /// Up to `room` requests; waits for one if the thread `is_idle`. None once the desk is stopped
    /// and nothing is left to do.
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

fn begin(seat: &mut dyn Seat, tag: u64, request: Request, pending: &mut HashMap<u64, Request>) {
    let mut value = Vec::new();
    match seat.begin_get(tag, &request.key, &mut value) {
        Ok(Begun::Found) => request.answer(Ok(Some(value))),
        Ok(Begun::Absent) => request.answer(Ok(None)),
        Ok(Begun::Pending) => drop(pending.insert(tag, request)),
        Ok(Begun::Full) => unreachable!("no more is begun than there is room for"),
        Err(error) => request.answer(Err(error.into())),
    }
}
