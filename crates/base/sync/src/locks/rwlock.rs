//! The reader-writer lock.
//!
//! One word counts the readers and has a bit for the writer. A mutex, the *turn*, orders the
//! threads that cannot take the lock without a wait: the one that has the turn sleeps on the word,
//! all others sleep on the turn.
//!
//! | bit | meaning |
//! |---|---|
//! | `WRITER` | a thread holds the lock exclusively |
//! | `WAITER` | the thread that has the turn may sleep on the word |
//! | `CLOSED` | no other thread takes the lock before the one that has the turn |
//!
//! - R1. Only the thread that has the turn sets `WAITER` and `CLOSED`. It clears both when it takes
//!   the lock or times out. The unlock of a writer clears `WAITER`, too: the thread sets it again
//!   before it sleeps again.
//! - R2. The unlock that leaves the word without readers and writer wakes the sleeper if `WAITER`
//!   is set.
//! - R3. A writer that waits for readers closes the lock. So new readers cannot keep it out. A
//!   thread that was woken several times in vain closes it as well.
#![expect(unsafe_code, reason = "guards rely on the protocol")]

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::{Futex, Losses, RawMutex, SPINS, Wake, Word, deadline_after};
use crate::scheduler;

const WRITER: u32 = 1 << 31;
const CLOSED: u32 = 1 << 30;
const WAITER: u32 = 1 << 29;
const READERS: u32 = WAITER - 1;

/// A reader-writer lock without poisoning. Writers go before readers that come later, so a thread
/// must not read-lock it twice.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// Holds a [`RwLock`] shared.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// Holds a [`RwLock`] exclusively.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// The protocol of a [`RwLock`].
#[derive(Debug)]
pub struct RawRwLock<W = Futex> {
    state: W,
    turn: RawMutex<W>,
}

impl<W: Word> RawRwLock<W> {
    /// A free lock, in two words of value 0.
    pub const fn new(state: W, turn: W) -> Self {
        Self { state, turn: RawMutex::new(turn) }
    }

    /// Takes it shared if no thread has it exclusively or waits for that.
    #[inline]
    pub fn try_read(&self) -> bool {
        self.take(|state| (state & (WRITER | CLOSED) == 0).then(|| with_reader(state)))
    }

    /// Takes it exclusively if no thread has it.
    #[inline]
    pub fn try_write(&self) -> bool {
        self.take(|state| (state & !WAITER == 0).then_some(state | WRITER))
    }

    /// Waits until no thread has it exclusively, and takes it shared. Returns false if `deadline`
    /// passes first.
    #[inline]
    pub fn read(&self, deadline: Option<Instant>) -> bool {
        let next = |state| (state & WRITER == 0).then(|| with_reader(state));
        self.try_read() || self.wait(Self::try_read, next, 0, deadline)
    }

    /// Waits until no thread has it, and takes it exclusively. Returns false if `deadline` passes
    /// first.
    #[inline]
    pub fn write(&self, deadline: Option<Instant>) -> bool {
        let next = |state| (state & (WRITER | READERS) == 0).then_some(state | WRITER);
        self.try_write() || self.wait(Self::try_write, next, READERS, deadline)
    }

    /// Unlocks the lock of a reader.
    #[inline]
    pub fn unlock_read(&self) {
        let before = self.state.fetch_sub(1, Release);
        if before & (READERS | WAITER) == WAITER | 1 {
            self.state.wake(1);
        }
    }

    /// Unlocks the lock of a writer.
    #[inline]
    pub fn unlock_write(&self) {
        let before = self.state.fetch_and(!(WRITER | WAITER), Release);
        if before & WAITER != 0 {
            self.state.wake(1);
        }
    }

    /// Changes the state to `next` of it. Returns false if there is none.
    #[inline]
    fn take(&self, next: impl Fn(u32) -> Option<u32>) -> bool {
        let mut state = self.state.load(Relaxed);
        while let Some(next) = next(state) {
            match self.state.exchange(state, next, Acquire) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// Waits for the turn, and then until there is a `next` state. Closes the lock if one of the
    /// bits of `closes_for` is set.
    #[cold]
    fn wait(
        &self,
        try_lock: impl Fn(&Self) -> bool,
        next: impl Fn(u32) -> Option<u32>,
        closes_for: u32,
        deadline: Option<Instant>,
    ) -> bool {
        for _ in 0..SPINS {
            if self.state.load(Relaxed) & WAITER != 0 {
                break;
            }
            spin_loop();
            if try_lock(self) {
                return true;
            }
        }
        if !self.turn.lock(deadline) {
            return false;
        }
        let is_taken = self.wait_with_turn(next, closes_for, deadline);
        self.turn.unlock();
        is_taken
    }

    fn wait_with_turn(
        &self,
        next: impl Fn(u32) -> Option<u32>,
        closes_for: u32,
        deadline: Option<Instant>,
    ) -> bool {
        let mut losses = Losses::new();
        let next = |state: u32| next(state).map(|next| next & !(WAITER | CLOSED));
        while !self.take(next) {
            let state = self.state.load(Relaxed);
            let closed = losses.are_many() || state & closes_for != 0;
            let marked = state | WAITER | if closed { CLOSED } else { 0 };
            // A lock that became free in the meantime has no unlock to come.
            if next(state).is_some()
                || marked != state && self.state.exchange(state, marked, Relaxed).is_err()
            {
                continue;
            }
            match self.state.wait(marked, deadline) {
                Wake::Woken => losses.wakes += 1,
                Wake::Changed => {}
                Wake::TimedOut => {
                    self.state.fetch_and(!(WAITER | CLOSED), Relaxed);
                    return false;
                }
            }
        }
        true
    }
}

/// The state with one reader more.
#[inline]
fn with_reader(state: u32) -> u32 {
    assert!(state & READERS < READERS, "a lock has too many readers");
    state + 1
}

// SAFETY: a thread that takes it exclusively is the only one that has it until it calls
// `unlock_exclusive`; a thread that takes it shared has it only with others that took it shared.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self::new(Futex::new(0), Futex::new(0));

    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        scheduler::pass();
        self.read(None);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.try_read()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.unlock_read();
    }

    #[inline]
    fn lock_exclusive(&self) {
        scheduler::pass();
        self.write(None);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.try_write()
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.unlock_write();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.state.load(Relaxed) & (WRITER | READERS) != 0
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.state.load(Relaxed) & WRITER != 0
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.try_read() || self.read(deadline_after(timeout))
    }

    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        self.read(Some(timeout))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.try_write() || self.write(deadline_after(timeout))
    }

    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        self.write(Some(timeout))
    }
}
