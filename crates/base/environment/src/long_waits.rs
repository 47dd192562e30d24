//! Long waits of threads, counted by cause.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::Environment;

/// The waits of one cause that took [`LongWaits::LEAST`] or longer.
#[derive(Debug, Default)]
pub struct LongWaits {
    count: AtomicU64,
    nanos: AtomicU64,
    longest_nanos: AtomicU64,
}

/// The counts of [`LongWaits`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts {
    /// Long waits.
    pub count: u64,
    /// The time of all of them.
    pub total: Duration,
    /// The longest of them.
    pub longest: Duration,
}

impl LongWaits {
    /// The shortest wait that counts.
    pub const LEAST: Duration = Duration::from_millis(5);

    /// Does `wait`, and counts it if it takes long. Costs two reads of the clock.
    pub fn time<T>(&self, environment: &Environment, wait: impl FnOnce() -> T) -> T {
        let began = environment.now();
        let result = wait();
        let took = environment.now() - began;
        if took >= Self::LEAST {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            self.count.fetch_add(1, Relaxed);
            self.nanos.fetch_add(nanos, Relaxed);
            self.longest_nanos.fetch_max(nanos, Relaxed);
        }
        result
    }

    /// Returns the counts.
    pub fn counts(&self) -> WaitCounts {
        WaitCounts {
            count: self.count.load(Relaxed),
            total: Duration::from_nanos(self.nanos.load(Relaxed)),
            longest: Duration::from_nanos(self.longest_nanos.load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_waits_count() {
        let (environment, clock) = Environment::simulated(1);
        let waits = LongWaits::default();
        for ms in [4, 5, 30] {
            let waited = waits.time(&environment, || {
                clock.advance(Duration::from_millis(ms));
                ms
            });
            assert_eq!(waited, ms);
        }
        let (total, longest) = (Duration::from_millis(35), Duration::from_millis(30));
        assert_eq!(waits.counts(), WaitCounts { count: 2, total, longest });
    }
}
