//! Mutex, reader-writer lock and condition variable on futexes, with no state outside of themselves.
//!
//! A lock is one or two words, and a thread sleeps in the kernel on such a word. No table of sleeping threads
//! exists in the process, so a child of a fork inherits none: the threads of its parent do not exist in the child, and
//! a table that still lists them would let new threads of the child wait forever. Locks that a thread of the parent
//! held at the fork stay held in the child, as everywhere.
//!
//! Guards, and mutexes without poisoning, come from `lock_api`. Code that a model checks takes [`crate::Mutex`] and
//! [`crate::RwLock`] instead: these are the same locks in an ordinary build, and the checker's in a model.
//!
//! # Fairness
//! A thread that finds a lock free takes it, even if others sleep on it: that is much faster than to wait until one of
//! them runs. A sleeper that was woken several times and never found its lock free ends that: the next unlock hands
//! the lock over. `MutexGuard::unlock_fair` does the same by request.
//!
//! # Concurrency
//! The protocols are written against [`Word`], an atomic integer with a queue of sleepers. Models run them with a word
//! that loom and shuttle see (`tests/models/locks.rs`).

mod condvar;
mod futex;
mod mutex;
mod rwlock;

pub use condvar::{Condvar, RawCondvar, WaitTimeoutResult};
pub use futex::{Futex, Wake, Word};
pub use mutex::{Mutex, MutexGuard, RawMutex};
pub use rwlock::{RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use std::time::{Duration, Instant};

/// Looks at a word before a thread sleeps on it. Most locks are held for less time than a sleep takes.
const SPINS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 100 };
/// Wakes after which a thread that never found its lock free gets it handed over.
const LOST_MOST: u32 = 4;

/// When `timeout` will have passed, or `None` if that is beyond what the clock can express.
#[expect(clippy::disallowed_methods, reason = "a deadline for the kernel, in its own clock")]
fn deadline_after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}
