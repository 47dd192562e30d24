//! The condition variable.
//!
//! - C1. A thread that waits counts itself and reads the number of notifications while it holds the
//!   mutex. A notification that comes after the mutex is unlocked changes the number, so the thread
//!   either does not sleep or is woken.
//! - C2. A notification that finds no thread counted makes no system call.
#![expect(unsafe_code, reason = "a wait unlocks the mutex of a guard")]

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::{Futex, MutexGuard, RawMutex, Wake, Word, deadline_after};

/// The protocol of a [`Condvar`].
#[derive(Debug)]
pub struct RawCondvar<W = Futex> {
    notifications: W,
    waiters: W,
}

impl<W: Word> RawCondvar<W> {
    /// A condition variable, in two words of value 0.
    pub const fn new(notifications: W, waiters: W) -> Self {
        Self { notifications, waiters }
    }

    /// Unlocks a mutex that the caller holds, waits to be notified or for the deadline, and locks
    /// the mutex again.
    pub fn wait(&self, mutex: &RawMutex<W>, deadline: Option<Instant>) -> Wake {
        self.waiters.fetch_add(1, Relaxed);
        let seen = self.notifications.load(Relaxed);
        mutex.unlock();
        // A signal ends a sleep, but is no notification.
        let mut wake = self.notifications.wait(seen, deadline);
        while wake == Wake::Changed && self.notifications.load(Relaxed) == seen {
            wake = self.notifications.wait(seen, deadline);
        }
        self.waiters.fetch_sub(1, Relaxed);
        mutex.lock(None);
        wake
    }

    /// Wakes at most `count` threads. Returns how many of them slept.
    #[inline]
    pub fn notify(&self, count: u32) -> u32 {
        if self.waiters.load(Relaxed) == 0 {
            return 0;
        }
        self.notifications.fetch_add(1, Relaxed);
        self.notifications.wake(count)
    }
}

/// Whether a wait ended because its time had passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the time had passed.
    pub const fn timed_out(self) -> bool {
        self.0
    }
}

/// Lets threads wait until a value under a [`super::Mutex`] changes. All of them use the same
/// mutex.
///
/// A notification may come for another change, so the caller of a wait looks at the value again.
#[derive(Debug)]
pub struct Condvar(RawCondvar);

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

impl Condvar {
    /// A condition variable.
    pub const fn new() -> Self {
        Self(RawCondvar::new(Futex::new(0), Futex::new(0)))
    }

    /// Unlocks the mutex, waits to be notified, and locks it again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_to(guard, None);
    }

    /// The same, for at most `timeout`.
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_to(guard, deadline_after(timeout))
    }

    /// Waits while `condition` holds of the value under the mutex.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait_to(guard, None);
        }
    }

    /// The same, for at most `timeout`. The result says that the time had passed if the condition
    /// still holds.
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        let deadline = deadline_after(timeout);
        let mut result = WaitTimeoutResult(false);
        while condition(guard) {
            if result.timed_out() {
                return result;
            }
            result = self.wait_to(guard, deadline);
        }
        WaitTimeoutResult(false)
    }

    fn wait_to<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> WaitTimeoutResult {
        // SAFETY: the guard shows that this thread holds the mutex, and cannot be used before it is
        // locked again.
        let mutex = unsafe { MutexGuard::mutex(guard).raw() };
        WaitTimeoutResult(self.0.wait(mutex, deadline) == Wake::TimedOut)
    }

    /// Wakes one thread that waits. Returns whether one slept.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.0.notify(1) > 0
    }

    /// Wakes all threads that wait.
    #[inline]
    pub fn notify_all(&self) {
        self.0.notify(i32::MAX as u32);
    }
}
