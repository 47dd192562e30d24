//! The tries of one kind of background work.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::{Error, Result};
use sync::locks::Mutex;

/// Counts tries, and keeps the failure of the last one that has ended, if it failed. So a writer
/// learns of a failure that came after it began to wait, and of no older one: the cause may be
/// gone.
#[derive(Debug, Default)]
pub struct Attempts {
    begun: AtomicU64,
    failure: Mutex<Option<(u64, Error)>>,
}

impl Attempts {
    /// Notes that a try begins, and returns its number.
    pub fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Relaxed) + 1
    }

    /// Notes how the try `number` has ended.
    pub fn end(&self, number: u64, done: &Result<()>) {
        let mut failure = self.failure.lock();
        match done {
            Ok(()) => *failure = None,
            Err(error) => *failure = Some((number, error.clone())),
        }
    }

    /// Returns the number of the last try that has begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Returns the failure of the last try, if that began after the try `number`.
    pub fn failure_after(&self, number: u64) -> Option<Error> {
        let failure = self.failure.lock();
        failure.as_ref().filter(|(failed, _)| *failed > number).map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failure_of_a_later_try_is_reported() {
        let attempts = Attempts::default();
        let failed = || Err(Error::Closed);
        let older = attempts.begin();
        let begun = attempts.begun();
        attempts.end(older, &failed());
        assert_eq!(attempts.failure_after(begun), None, "it began before");
        let later = attempts.begin();
        attempts.end(later, &failed());
        assert_eq!(attempts.failure_after(begun), Some(Error::Closed));
        let last = attempts.begin();
        attempts.end(last, &Ok(()));
        assert_eq!(attempts.failure_after(begun), None, "the last one has succeeded");
    }
}
