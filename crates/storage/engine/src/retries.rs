//! When work that failed for a reason that may pass is tried again: after pauses that grow.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use environment::{Environment, Monotonic};
use sync::Mutex;

use crate::error::{Error, Result};
use crate::trouble::Trouble;

/// The pause after the first failure; each further one is twice as long as that before ...
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// ... up to this.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Work of one kind, and whether its last attempt failed. Without a failure a look costs a load.
#[derive(Debug, Default)]
pub struct Retries {
    is_failing: AtomicBool,
    failing: Mutex<Option<Failing>>,
}

#[derive(Debug)]
struct Failing {
    cause: Error,
    since_ms: u64,
    failures: u64,
    pause: Duration,
    until: Monotonic,
}

impl Retries {
    /// Notes how the work has ended: if it failed for a reason that may pass, another pause begins.
    pub fn note<T>(&self, done: &Result<T>, environment: &Environment) {
        match done {
            Err(error) if error.may_pass() => self.note_failure(error, environment),
            Err(_) => {}
            Ok(_) if !self.is_failing.load(Relaxed) => {}
            Ok(_) => {
                let mut failing = self.failing.lock();
                *failing = None;
                // While it is locked, or a failure in between would be reported for ever.
                self.is_failing.store(false, Relaxed);
            }
        }
    }

    fn note_failure(&self, error: &Error, environment: &Environment) {
        let mut failing = self.failing.lock();
        let now = environment.now();
        let (since_ms, failures, pause) = match &mut *failing {
            None => (environment.wall_ms(), 0, PAUSE_MIN),
            // Another one that tried at the same time: one failure, seen by several.
            Some(before) if now < before.until => {
                before.failures += 1;
                return;
            }
            Some(before) => (before.since_ms, before.failures, (before.pause * 2).min(PAUSE_MAX)),
        };
        let (cause, until) = (error.clone(), now + pause);
        *failing = Some(Failing { cause, since_ms, failures: failures + 1, pause, until });
        self.is_failing.store(true, Relaxed);
    }

    /// Returns whether the work failed when it was last done.
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Relaxed)
    }

    /// Why the work is not tried just now: it failed, and the pause is not over.
    pub fn pausing(&self, environment: &Environment) -> Option<Error> {
        if !self.is_failing.load(Relaxed) {
            return None;
        }
        let failing = self.failing.lock();
        let pauses = |failing: &&Failing| environment.now() < failing.until;
        failing.as_ref().filter(pauses).map(|failing| failing.cause.clone())
    }

    /// Returns the report of the work, which is named `work`, if it fails.
    pub fn trouble(&self, work: &'static str, refuses_writes: bool) -> Option<Trouble> {
        let failing = self.failing.lock();
        failing.as_ref().map(|Failing { cause, since_ms, failures, .. }| Trouble {
            work,
            cause: cause.clone(),
            since_ms: *since_ms,
            failures: *failures,
            refuses_writes,
        })
    }
}
