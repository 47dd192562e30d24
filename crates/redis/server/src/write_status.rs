//! Whether the store takes writes: the failures that clients saw as MISCONF.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use thermocline::sync::locks::Mutex;

/// The outcome of the last write, and the first failure since the start.
#[derive(Debug, Default)]
pub(crate) struct WriteStatus {
    is_failing: AtomicBool,
    first_failure: Mutex<Option<String>>,
}

impl WriteStatus {
    /// Notes that a write was refused, or did not become durable.
    pub(crate) fn note_failure(&self, cause: &str) {
        self.is_failing.store(true, Relaxed);
        self.first_failure.lock().get_or_insert_with(|| cause.to_owned());
    }

    /// Notes that a write is as durable as the server promises.
    pub(crate) fn note_success(&self) {
        self.is_failing.store(false, Relaxed);
    }

    /// Whether the last write failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Relaxed)
    }

    /// Returns the cause of the first failure since the start, also after later writes succeeded.
    pub(crate) fn first_failure(&self) -> Option<String> {
        self.first_failure.lock().clone()
    }
}
