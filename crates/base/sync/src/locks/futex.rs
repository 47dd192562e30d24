//! A word on which threads sleep.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags};

use crate::scheduler;

/// How a call of [`Word::wait`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A call of [`Word::wake`] counted this thread.
    Woken,
    /// No call of `wake` counted it: the word had another value, or a signal came.
    Changed,
    /// The deadline has passed.
    TimedOut,
}

/// An atomic integer with a queue of sleeping threads.
pub trait Word {
    /// The value.
    fn load(&self, order: Ordering) -> u32;
    /// Replaces the value.
    fn store(&self, value: u32, order: Ordering);
    /// Replaces the value if it is `current`. Returns the value before, as an error if it was
    /// another one.
    fn exchange(&self, current: u32, new: u32, order: Ordering) -> Result<u32, u32>;
    /// Adds, and returns the value before.
    fn fetch_add(&self, value: u32, order: Ordering) -> u32;
    /// Subtracts, and returns the value before.
    fn fetch_sub(&self, value: u32, order: Ordering) -> u32;
    /// Keeps the bits of `mask`, and returns the value before.
    fn fetch_and(&self, mask: u32, order: Ordering) -> u32;
    /// Sleeps if the value is `expected`: until a call of `wake` counts this thread, or `deadline`.
    fn wait(&self, expected: u32, deadline: Option<Instant>) -> Wake;
    /// Wakes at most `count` threads, the longest sleepers first. Returns how many it woke.
    fn wake(&self, count: u32) -> u32;
}

/// The word of an ordinary build: a futex of this process.
#[derive(Debug)]
pub struct Futex(AtomicU32);

impl Futex {
    pub(super) const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Word for Futex {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        self.0.store(value, order);
    }

    #[inline]
    fn exchange(&self, current: u32, new: u32, order: Ordering) -> Result<u32, u32> {
        self.0.compare_exchange(current, new, order, Ordering::Relaxed)
    }

    #[inline]
    fn fetch_add(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_add(value, order)
    }

    #[inline]
    fn fetch_sub(&self, value: u32, order: Ordering) -> u32 {
        self.0.fetch_sub(value, order)
    }

    #[inline]
    fn fetch_and(&self, mask: u32, order: Ordering) -> u32 {
        self.0.fetch_and(mask, order)
    }

    fn wait(&self, expected: u32, deadline: Option<Instant>) -> Wake {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(scheduler::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Wake::TimedOut;
        }
        let is_expected = self.0.load(Ordering::SeqCst) == expected;
        if let Some(wake) = scheduler::wait(self.address(), is_expected, deadline) {
            return wake;
        }
        // The kernel cannot express such a long time, so the thread waits without a deadline.
        let left = left.and_then(|left| left.try_into().ok());
        match futex::wait(&self.0, Flags::PRIVATE, expected, left.as_ref()) {
            Ok(()) => Wake::Woken,
            Err(Errno::TIMEDOUT) => Wake::TimedOut,
            Err(_) => Wake::Changed,
        }
    }

    fn wake(&self, count: u32) -> u32 {
        if let Some(woken) = scheduler::wake(self.address(), count) {
            return woken;
        }
        // The call fails only for an address that is no word of this process.
        futex::wake(&self.0, Flags::PRIVATE, count).unwrap_or(0) as u32
    }
}
