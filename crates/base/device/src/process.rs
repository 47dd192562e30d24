//! The process that made a value.
//!
//! After a fork the child has a copy of everything in memory, and none of the threads.
//!
//! 1. The first [`Process::current`] registers a handler that the C library runs in each child of a
//!    fork. It adds one to a counter, so the counter's value is different in each process of a line
//!    of descent.
//! 2. A value that belongs to a process remembers the counter. A check is one relaxed load.
//!
//! # Invariants
//! - P1. A child never unlocks, completes or waits for anything that its parent made. Another
//!   thread of the parent may have held any lock at the fork, and files, locks of files and rings
//!   are shared with the parent.
//! - P2. So a child forgets such a value ([`OfProcess`]). Its memory is freed when the child ends.
//! - P3. A child makes statics again ([`PerProcess`]). So does each process of a simulation.
//!
//! A fork by a bare system call does not run the handler and is not noticed.
#![expect(
    unsafe_code,
    reason = "a C function registers the handler, and statics are read without a lock"
)]

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU32};
use std::sync::{Mutex, Once, PoisonError};

/// Number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static REGISTERED: Once = Once::new();

/// Runs in each child before its `fork` returns, and does nothing that a signal handler may not do.
extern "C" fn count_fork() {
    FORKS.fetch_add(1, Relaxed);
}

/// A process, as a value remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    forks: u32,
    id: u32,
}

/// A value of another process was used after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forked {
    /// Id of the process that made the value.
    pub opened_by: u32,
    /// Id of this process.
    pub called_by: u32,
}

impl Process {
    /// Returns this process.
    ///
    /// # Panics
    /// If the C library has no memory for the handler.
    pub fn current() -> Self {
        REGISTERED.call_once(|| {
            // SAFETY: the handler is a function of this program, takes nothing, and only adds to an
            // atomic.
            let registered = unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
            assert_eq!(registered, 0, "the C library has memory for one handler");
        });
        Self { forks: FORKS.load(Relaxed), id: std::process::id() }
    }

    /// Checks whether this is the process that runs. Costs one relaxed load.
    #[inline]
    pub fn is_current(self) -> bool {
        self.forks == FORKS.load(Relaxed)
    }

    /// Returns the error of a call in the running process, which is another one.
    #[cold]
    pub fn forked(self) -> Forked {
        Forked { opened_by: self.id, called_by: std::process::id() }
    }
}

/// A value that only the process which made it uses and drops. A child forgets it (P2).
pub struct OfProcess<T> {
    /// Present until the drop.
    value: Option<T>,
    process: Process,
}

impl<T> OfProcess<T> {
    /// Binds `value` to this process.
    pub fn new(value: T) -> Self {
        Self { value: Some(value), process: Process::current() }
    }

    /// Returns the process.
    pub fn process(&self) -> Process {
        self.process
    }

    /// Returns the value, unless another process made it.
    ///
    /// # Errors
    /// [`Forked`], and the value is forgotten.
    pub fn into_inner(mut self) -> Result<T, Forked> {
        match self.value.take() {
            Some(value) if self.process.is_current() => Ok(value),
            value => {
                mem::forget(value);
                Err(self.process.forked())
            }
        }
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("only the drop takes it")
    }
}

impl<T> DerefMut for OfProcess<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("only the drop takes it")
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !self.process.is_current() {
            mem::forget(self.value.take());
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for OfProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// A static value that each process makes for itself when it first needs the value (P3). A child
/// leaves the value of its parent in memory, where no thread of the child uses it.
#[derive(Debug)]
pub struct PerProcess<T: 'static> {
    /// Null, or a [`Made`] that is never freed.
    newest: AtomicPtr<Made<T>>,
    make: fn() -> T,
    /// The values of simulated processes, by their numbers. They are never freed.
    simulated: Mutex<BTreeMap<u64, &'static T>>,
}

#[derive(Debug)]
struct Made<T> {
    process: Process,
    value: T,
}

impl<T> PerProcess<T> {
    /// Returns a static that holds what `make` returns. Threads that need the value first at the
    /// same time may all call `make`, and use one of the results.
    pub const fn new(make: fn() -> T) -> Self {
        let simulated = Mutex::new(BTreeMap::new());
        Self { newest: AtomicPtr::new(std::ptr::null_mut()), make, simulated }
    }

    /// Returns the value of a process of a simulation.
    #[cold]
    fn of_simulated(&self, process: u64) -> &'static T {
        // Not a lock of the simulation: its threads run one at a time, and none waits here.
        let mut all = self.simulated.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(process).or_insert_with(|| Box::leak(Box::new((self.make)())))
    }
}

impl<T: Send + Sync + 'static> Deref for PerProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        if let Some(process) = sync::scheduler::process() {
            return self.of_simulated(process);
        }
        let newest = self.newest.load(Acquire);
        // SAFETY: it is null, or from `Box::into_raw` below, written before it was published, and
        // never freed.
        if let Some(made) = unsafe { newest.as_ref() }
            && made.process.is_current()
        {
            return &made.value;
        }
        let own = Box::new(Made { process: Process::current(), value: (self.make)() });
        let own = Box::into_raw(own);
        match self.newest.compare_exchange(newest, own, AcqRel, Acquire) {
            // SAFETY: it has just been published, and is never freed.
            Ok(_) => unsafe { &(*own).value },
            Err(others) => {
                // SAFETY: no other thread has seen it.
                drop(unsafe { Box::from_raw(own) });
                // SAFETY: as for `newest` above. Another thread of this process has published it
                // since.
                unsafe { &(*others).value }
            }
        }
    }
}

#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
