//! Background work that fails: one entry for each kind of work, from its first failure to its next
//! success.
//!
//! 1. An engine names its kinds of work. A failure makes an entry or counts in the one that is
//!    there; a success removes it. Without any entry a check costs a load.
//! 2. A failure begins a pause, and each further one a pause of twice the length. When to try again
//!    stays with the engine: it asks whether the pause is over ([`BackgroundErrors::pausing`]), or
//!    ignores it.
//! 3. [`BackgroundErrors::report`] gives the entries to the host.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use environment::{Environment, Monotonic};
use sync::Mutex;

use crate::error::{Error, Result};

/// The pause after the first failure; each further one is twice as long as that before ...
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// ... up to this.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Background work that has failed and is tried again from time to time. Undamaged stored data can
/// be read.
#[derive(Clone, Debug, PartialEq)]
pub struct BackgroundError {
    /// The work that fails, in words.
    pub work: &'static str,
    /// Why it failed last; damage with its place.
    pub cause: Error,
    /// When it began to fail: milliseconds since the Unix epoch, by the wall clock.
    pub since_ms: u64,
    /// How often it has failed since.
    pub failures: u64,
    /// Whether writes are refused because of it.
    pub refuses_writes: bool,
}

impl fmt::Display for BackgroundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { work, cause, failures, refuses_writes, .. } = self;
        let times = if *failures == 1 { "once" } else { "again and again" };
        let writes = if *refuses_writes { "writes are refused" } else { "writes are taken" };
        write!(f, "{work} has failed {times} ({writes}): {cause}")
    }
}

/// The kinds of background work that fail now.
#[derive(Debug, Default)]
pub struct BackgroundErrors {
    /// The number of entries, which changes while these are locked.
    failing: AtomicUsize,
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    work: &'static str,
    cause: Error,
    since_ms: u64,
    failures: u64,
    pause: Duration,
    until: Monotonic,
}

impl BackgroundErrors {
    /// Notes the end of `work`. A failure counts only if the same work may succeed later.
    pub fn note<T>(&self, work: &'static str, done: &Result<T>, environment: &Environment) {
        match done {
            Err(error) if error.is_retryable() => self.fail(work, error, environment),
            Err(_) => {}
            Ok(_) => self.succeed(work),
        }
    }

    /// Notes that `work` failed. Work of a closed store has not failed.
    pub fn fail(&self, work: &'static str, error: &Error, environment: &Environment) {
        if *error == Error::Closed {
            return;
        }
        let now = environment.now();
        let mut entries = self.entries.lock();
        let Some(entry) = entries.iter_mut().find(|entry| entry.work == work) else {
            let (cause, since_ms) = (error.clone(), environment.wall_ms());
            let until = now + PAUSE_MIN;
            entries.push(Entry { work, cause, since_ms, failures: 1, pause: PAUSE_MIN, until });
            self.failing.store(entries.len(), Relaxed);
            return;
        };
        entry.cause = error.clone();
        entry.failures += 1;
        // Attempts of several threads at the same time begin one pause.
        if now >= entry.until {
            entry.pause = (entry.pause * 2).min(PAUSE_MAX);
            entry.until = now + entry.pause;
        }
    }

    /// Notes that `work` succeeded, or has nothing left to do.
    pub fn succeed(&self, work: &'static str) {
        if self.failing.load(Relaxed) == 0 {
            return;
        }
        let mut entries = self.entries.lock();
        entries.retain(|entry| entry.work != work);
        self.failing.store(entries.len(), Relaxed);
    }

    /// Returns whether `work` failed when it was last done.
    pub fn is_failing(&self, work: &'static str) -> bool {
        self.failing.load(Relaxed) > 0 && self.entries.lock().iter().any(|entry| entry.work == work)
    }

    /// Returns the cause of the last failure of `work`, if its pause is not over.
    pub fn pausing(&self, work: &'static str, environment: &Environment) -> Option<Error> {
        if self.failing.load(Relaxed) == 0 {
            return None;
        }
        let entries = self.entries.lock();
        let pauses = |entry: &&Entry| entry.work == work && environment.now() < entry.until;
        entries.iter().find(pauses).map(|entry| entry.cause.clone())
    }

    /// Returns the cause of the last failure of `work`, if it fails.
    pub fn cause(&self, work: &'static str) -> Option<Error> {
        if self.failing.load(Relaxed) == 0 {
            return None;
        }
        let entries = self.entries.lock();
        entries.iter().find(|entry| entry.work == work).map(|entry| entry.cause.clone())
    }

    /// Returns all work that fails, in the order of the first failures. `refuses_writes` is called
    /// with the work and its cause, and returns whether writes are refused because of it.
    pub fn report(
        &self,
        refuses_writes: impl Fn(&'static str, &Error) -> bool,
    ) -> Vec<BackgroundError> {
        if self.failing.load(Relaxed) == 0 {
            return Vec::new();
        }
        let report = |entry: &Entry| BackgroundError {
            work: entry.work,
            cause: entry.cause.clone(),
            since_ms: entry.since_ms,
            failures: entry.failures,
            refuses_writes: refuses_writes(entry.work, &entry.cause),
        };
        self.entries.lock().iter().map(report).collect()
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests;
