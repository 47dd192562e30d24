//! The mutex.
//!
//! | state | meaning |
//! |---|---|
//! | `FREE` | no thread holds it |
//! | `HELD` | a thread holds it, and no thread sleeps |
//! | `AWAITED` | a thread holds it, and others may sleep |
//! | `STARVED` | the same, and the next unlock hands it over |
//! | `GIVEN` | it was unlocked for a thread that was woken; no other thread may take it |
//!
//! - M1. A thread sleeps only on `AWAITED`, `STARVED` or `GIVEN`. The unlock of the first two wakes
//!   a sleeper.
//! - M2. A thread that has waited takes the mutex as `AWAITED`, since more threads may sleep.
//! - M3. A thread that was woken marks the mutex before it sleeps again or times out. Its wake may
//!   have been the only one, and a thread that came in between may hold the mutex as `HELD`.
//! - M4. `GIVEN` is taken by a thread that a wake has counted. If a wake counts no thread, the
//!   mutex becomes `FREE`, and a second wake is for threads that went to sleep on `GIVEN` in the
//!   meantime.
#![expect(unsafe_code, reason = "guards rely on the protocol")]

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::{Futex, Losses, SPINS, Wake, Word, deadline_after};
use crate::scheduler;

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;
const STARVED: u32 = 3;
const GIVEN: u32 = 4;

/// A mutex without poisoning: a thread that panics unlocks it.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// Holds a [`Mutex`] locked.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// The protocol of a [`Mutex`].
#[derive(Debug)]
pub struct RawMutex<W = Futex> {
    word: W,
}

impl<W: Word> RawMutex<W> {
    /// A free mutex, in a word of value 0.
    pub const fn new(word: W) -> Self {
        Self { word }
    }

    /// Whether a thread holds it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.word.load(Relaxed) != FREE
    }

    /// Takes it if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.word.exchange(FREE, HELD, Acquire).is_ok()
    }

    /// Waits until it is free, and takes it. Returns false if `deadline` passes first.
    #[inline]
    pub fn lock(&self, deadline: Option<Instant>) -> bool {
        self.try_lock() || self.wait(deadline)
    }

    #[cold]
    fn wait(&self, deadline: Option<Instant>) -> bool {
        if self.spin() {
            return true;
        }
        let mut losses = Losses::new();
        loop {
            let state = self.word.load(Relaxed);
            if state == FREE || state == GIVEN && losses.wakes > 0 {
                match self.word.exchange(state, AWAITED, Acquire) {
                    Ok(_) => return true,
                    Err(_) => continue,
                }
            }
            let marked = match state {
                HELD | AWAITED if losses.are_many() => STARVED,
                HELD => AWAITED,
                other => other,
            };
            if marked != state && self.word.exchange(state, marked, Relaxed).is_err() {
                continue;
            }
            match self.word.wait(marked, deadline) {
                Wake::Woken => losses.wakes += 1,
                Wake::Changed => {}
                Wake::TimedOut => return false,
            }
        }
    }

    /// Takes it if it becomes free soon. Stops if others sleep already.
    fn spin(&self) -> bool {
        for _ in 0..SPINS {
            match self.word.load(Relaxed) {
                FREE if self.try_lock() => return true,
                FREE | HELD => spin_loop(),
                _ => return false,
            }
        }
        false
    }

    /// Unlocks it. The caller holds it.
    #[inline]
    pub fn unlock(&self) {
        if self.word.exchange(HELD, FREE, Release).is_err() {
            self.unlock_awaited();
        }
    }

    #[cold]
    fn unlock_awaited(&self) {
        match self.word.exchange(AWAITED, FREE, Release) {
            Ok(_) => drop(self.word.wake(1)),
            Err(_) => self.hand_over(),
        }
    }

    /// Unlocks it, and hands it over if a thread sleeps. The caller holds it, and keeps it in
    /// memory until this returns: the word may change after another thread has had the mutex.
    pub fn unlock_fair(&self) {
        if self.word.exchange(HELD, FREE, Release).is_err() {
            self.hand_over();
        }
    }

    fn hand_over(&self) {
        self.word.store(GIVEN, Release);
        if self.word.wake(1) == 0 && self.word.exchange(GIVEN, FREE, Release).is_ok() {
            self.word.wake(1);
        }
    }
}

// SAFETY: `lock`, `try_lock` and the timed forms return true to one thread at a time until that
// calls `unlock`.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self::new(Futex::new(FREE));

    type GuardMarker = lock_api::GuardNoSend;

    #[inline]
    fn lock(&self) {
        scheduler::pass();
        self.lock(None);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.unlock();
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.is_locked()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self) {
        self.unlock_fair();
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.try_lock() || self.lock(deadline_after(timeout))
    }

    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.lock(Some(timeout))
    }
}
