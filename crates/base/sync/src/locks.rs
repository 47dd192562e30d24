//! Mutex, reader-writer lock and condition variable on futexes, without any other state.
//!
//! A lock is one or two words, and a thread sleeps in the kernel on such a word. The process has no
//! table of sleeping threads, so a child of a fork inherits none. The threads of its parent do not
//! exist in the child, and a table that still lists them would let new threads of the child wait
//! forever. Locks that a thread of the parent held at the fork stay held in the child, as
//! everywhere.
//!
//! Guards, and mutexes without poisoning, come from `lock_api`. Code that a model checks takes
//! [`crate::Mutex`] and [`crate::RwLock`] instead: these are the same locks in an ordinary build,
//! and the checker's in a model.
//!
//! # Fairness
//! A thread that finds a lock free takes it, even if others sleep on it: that is much faster than
//! to wait until one of them runs. After several vain wakes of a sleeper, or one after a
//! millisecond, the next unlock hands the lock to the thread that has slept longest.
//! `MutexGuard::unlock_fair` does the same by request.
//!
//! # Concurrency
//! The protocols are written against [`Word`], an atomic integer with a queue of sleepers. Models
//! run them with a word that loom and shuttle see (`tests/models/locks.rs`).

mod condvar;
mod futex;
mod mutex;
mod rwlock;

pub use condvar::{Condvar, RawCondvar, WaitTimeoutResult};
pub use futex::{Futex, Wake, Word};
pub use mutex::{Mutex, MutexGuard, RawMutex};
pub use rwlock::{RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use std::time::{Duration, Instant};

use crate::scheduler;

/// Looks at a word before a thread sleeps on it. Most locks are held for less time than a sleep
/// takes.
const SPINS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 100 };
/// Wakes after which a thread that never found its lock free has lost too often.
const LOST_MOST: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 4 };
/// Time after which one such wake is too many.
const LOST_TIME: Duration = Duration::from_millis(1);

/// How often, and since when, a thread that waits has lost its lock to others.
struct Losses {
    wakes: u32,
    /// None in models, which must run the same way each time.
    since: Option<Instant>,
}

impl Losses {
    fn new() -> Self {
        let since = if cfg!(any(loom, shuttle)) { None } else { Some(scheduler::now()) };
        Self { wakes: 0, since }
    }

    /// Whether the next unlock must hand the lock over.
    fn are_many(&self) -> bool {
        let lost = |since| scheduler::now().saturating_duration_since(since);
        let is_late = || self.since.is_some_and(|since| lost(since) >= LOST_TIME);
        self.wakes >= LOST_MOST || self.wakes > 0 && is_late()
    }
}

/// Returns the moment at which `timeout` will have passed, in the clock of the calling thread, or
/// `None` if the clock cannot express it.
fn deadline_after(timeout: Duration) -> Option<Instant> {
    scheduler::now().checked_add(timeout)
}
