//! Failures of writes to the files of the value store.

use std::sync::Arc;

use engine::{BackgroundErrors, Error, Health, Result};
use environment::Environment;
use sync::Mutex;

use crate::key_index::of_index;

/// The work of flushes, as background errors name it.
pub(crate) const FLUSH: &str = "the flush of write buffers";

/// The failures of a store, and the pauses that they begin.
pub(crate) struct Failures {
    /// Whether a failure that does not pass has stopped writes.
    pub(crate) health: Arc<Health>,
    /// Failures that may pass.
    pub(crate) errors: BackgroundErrors,
    environment: Environment,
    /// The last failure of the barrier, which the index passes on as its own.
    of_barrier: Mutex<Option<Error>>,
}

impl Failures {
    pub(crate) fn new(health: &Arc<Health>, environment: &Environment) -> Self {
        let (health, environment) = (Arc::clone(health), environment.clone());
        let (errors, of_barrier) = Default::default();
        Self { health, errors, environment, of_barrier }
    }

    /// A failure that does not pass stops later writes (law L5).
    pub(crate) fn noted<T>(&self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done
            && error.stops_writes()
        {
            self.health.fail(error);
        }
        done
    }

    /// Notes the failure of the barrier.
    pub(crate) fn note_barrier(&self, error: &Error) {
        *self.of_barrier.lock() = Some(error.root_cause().clone());
    }

    /// Returns an error of work of the index that may call the barrier: with the paths of its files
    /// in the directory of the store, unless it is a failure of the barrier.
    pub(crate) fn placed(&self, error: Error) -> Error {
        match self.of_barrier.lock().as_ref() == Some(error.root_cause()) {
            true => error,
            false => of_index(error),
        }
    }

    /// Notes the end of background work. A failure that may pass begins a pause.
    pub(crate) fn note<T>(&self, work: &'static str, done: &Result<T>) {
        self.errors.note(work, done, &self.environment);
    }

    /// Notes background work that found damage, which stays.
    pub(crate) fn note_damage(&self, work: &'static str, damage: &Error) {
        self.errors.fail(work, damage, &self.environment);
    }

    /// Notes that no write buffer has a record that could not be written.
    pub(crate) fn forget_flush(&self) {
        self.errors.succeed(FLUSH);
    }

    /// Returns the cause of the last failure of background work, if its pause is not over.
    pub(crate) fn pausing(&self, work: &'static str) -> Option<Error> {
        self.errors.pausing(work, &self.environment)
    }
}
