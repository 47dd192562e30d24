//! The point at which a simulation takes over the waits of its threads.
//!
//! All waits of our threads end in a futex of [`crate::locks`], in a sleep of the environment, in a
//! yield, or in the join of a thread. A thread of a simulation has a [`Scheduler`]. At each of
//! these places the scheduler decides which thread of the simulation runs next. Every other thread
//! of the process has none, and waits in the kernel.
//!
//! The feature `simulation` compiles the calls in. Without it the functions here are empty, so that
//! their callers need no condition.
//!
//! # Invariants
//! - T1. A scheduler runs one of its threads at a time. A check of a word and the wait on it are
//!   one step: no other thread of the simulation runs in between.
//! - T2. A thread ends for its scheduler when its last thread-local value is dropped, so that
//!   destructors are part of the schedule. The place of the thread is its first such value, and the
//!   standard library drops them in reverse order.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use crate::locks::Wake;

/// Decides which thread of a simulation runs next. The first argument of each call is the number of
/// the calling thread.
pub trait Scheduler: Send + Sync {
    /// Returns the time of the simulation.
    fn now(&self) -> Instant;

    /// Returns the number of the process of the simulation to which the thread belongs. No other
    /// simulated process of this program has it.
    fn process(&self, thread: usize) -> u64;

    /// May let another thread run.
    fn pass(&self, thread: usize);

    /// Lets another thread run, if one can.
    fn yield_now(&self, thread: usize);

    /// Waits until a [`Scheduler::wake`] of the word at this address counts the thread, or for the
    /// deadline.
    fn wait(&self, thread: usize, word: usize, deadline: Option<Instant>) -> Wake;

    /// Wakes at most `count` threads that wait on the word, the longest first. Returns how many it
    /// woke.
    fn wake(&self, thread: usize, word: usize, count: u32) -> u32;

    /// Adds a thread that the calling one starts, and returns its number.
    fn add(&self, thread: usize, name: &str) -> usize;

    /// Waits for the first turn of a thread that was added.
    fn begin(&self, thread: usize);

    /// Removes a thread that could not be started.
    fn forget(&self, thread: usize);

    /// Ends the calling thread.
    fn end(&self, thread: usize);

    /// Waits until another thread has ended.
    fn join(&self, thread: usize, other: usize);

    /// Returns whether a thread has ended.
    fn has_ended(&self, other: usize) -> bool;
}

/// The place of a thread in a simulation: its scheduler and its number.
#[derive(Clone)]
struct Place {
    scheduler: Arc<dyn Scheduler>,
    thread: usize,
}

/// A thread that is being started.
pub struct Starting(Option<Place>);

/// A thread that was started.
#[derive(Clone)]
pub struct Started(Option<Place>);

impl Starting {
    /// Adds a thread for the caller to start. It belongs to the simulation of the calling thread,
    /// if that has one.
    pub fn new(name: &str) -> Self {
        Self(hook::with_place(|place| {
            let thread = place.scheduler.add(place.thread, name);
            Place { scheduler: Arc::clone(&place.scheduler), thread }
        }))
    }

    /// Adds the first thread of a simulation. The scheduler has given it the number `thread`.
    pub fn first(scheduler: Arc<dyn Scheduler>, thread: usize) -> Self {
        Self(Some(Place { scheduler, thread }))
    }

    /// Returns the thread, to join it.
    pub fn started(&self) -> Started {
        Started(self.0.clone())
    }

    /// Begins the thread. The new thread calls this before it does anything else, and waits for its
    /// first turn.
    pub fn begin(mut self) {
        if let Some(place) = self.0.take() {
            hook::enter(place);
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(place) = &self.0 {
            place.scheduler.forget(place.thread);
        }
    }
}

impl Started {
    /// Waits for the end of the thread in the simulation. It does nothing if the caller is not in
    /// one.
    pub fn join(&self) {
        if let Some(other) = &self.0 {
            hook::with_place(|place| place.scheduler.join(place.thread, other.thread));
        }
    }

    /// Returns whether the thread has ended, if it is one of a simulation.
    pub fn has_ended(&self) -> Option<bool> {
        self.0.as_ref().map(|place| place.scheduler.has_ended(place.thread))
    }
}

impl fmt::Debug for Starting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Starting").field(&self.0.as_ref().map(|place| place.thread)).finish()
    }
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Started").field(&self.0.as_ref().map(|place| place.thread)).finish()
    }
}

/// Returns whether the calling thread is one of a simulation.
pub fn is_simulated() -> bool {
    hook::with_place(|_| ()).is_some()
}

/// Returns the number of the simulated process to which the calling thread belongs, if there is
/// one.
#[inline]
pub fn process() -> Option<u64> {
    hook::with_place(|place| place.scheduler.process(place.thread))
}

/// Waits until `deadline` of the simulation. Returns false if the calling thread is not in one.
pub fn sleep_until(deadline: Instant) -> bool {
    // No other thread knows the word.
    let word = 0_u32;
    let address = std::ptr::from_ref(&word).addr();
    hook::with_place(|place| place.scheduler.wait(place.thread, address, Some(deadline))).is_some()
}

/// Returns the time of the calling thread: that of its simulation, or the kernel's.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the kernel's own clock, for waits in the kernel")]
pub(crate) fn now() -> Instant {
    hook::with_place(|place| place.scheduler.now()).unwrap_or_else(Instant::now)
}

/// May let another thread of the simulation run.
#[inline]
pub fn pass() {
    hook::with_place(|place| place.scheduler.pass(place.thread));
}

/// Lets another thread of the simulation run. Returns false if the calling thread is not in one.
#[cfg(not(any(loom, shuttle)))]
#[inline]
pub(crate) fn yield_now() -> bool {
    hook::with_place(|place| place.scheduler.yield_now(place.thread)).is_some()
}

/// Waits on a word, if the calling thread is in a simulation. The word has the value that the
/// caller expects if `is_expected`.
#[inline]
pub(crate) fn wait(word: usize, is_expected: bool, deadline: Option<Instant>) -> Option<Wake> {
    hook::with_place(|place| match is_expected {
        true => place.scheduler.wait(place.thread, word, deadline),
        false => Wake::Changed,
    })
}

/// Wakes threads that wait on a word, if the calling thread is in a simulation.
#[inline]
pub(crate) fn wake(word: usize, count: u32) -> Option<u32> {
    hook::with_place(|place| place.scheduler.wake(place.thread, word, count))
}

#[cfg(all(feature = "simulation", not(any(loom, shuttle))))]
mod hook {
    use std::cell::RefCell;

    use super::Place;

    /// The place of a thread. It is dropped after all other thread-local values of the thread.
    struct Held(RefCell<Option<Place>>);

    impl Drop for Held {
        fn drop(&mut self) {
            if let Some(place) = self.0.take() {
                place.scheduler.end(place.thread);
            }
        }
    }

    thread_local! {
        static HELD: Held = const { Held(RefCell::new(None)) };
    }

    pub(super) fn enter(place: Place) {
        HELD.with(|held| held.0.replace(Some(place.clone())));
        place.scheduler.begin(place.thread);
    }

    #[inline]
    pub(super) fn with_place<T>(call: impl FnOnce(&Place) -> T) -> Option<T> {
        HELD.try_with(|held| held.0.borrow().as_ref().map(call)).ok().flatten()
    }
}

#[cfg(not(all(feature = "simulation", not(any(loom, shuttle)))))]
mod hook {
    use super::Place;

    pub(super) fn enter(place: Place) {
        place.scheduler.begin(place.thread);
    }

    #[inline]
    pub(super) fn with_place<T>(_call: impl FnOnce(&Place) -> T) -> Option<T> {
        None
    }
}
