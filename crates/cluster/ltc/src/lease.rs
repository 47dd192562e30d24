//! The lease of this LTC.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use environment::{Environment, Monotonic};

/// The time until which this LTC may serve reads.
#[derive(Debug)]
pub(crate) struct Lease {
    until: AtomicU64,
    environment: Environment,
}

impl Lease {
    /// Returns a lease that is over.
    pub(crate) fn new(environment: &Environment) -> Self {
        Self { until: AtomicU64::new(0), environment: environment.clone() }
    }

    /// Extends the lease. A lease never becomes shorter.
    pub(crate) fn extend(&self, until: Monotonic) {
        self.until.fetch_max(until.as_nanos(), SeqCst);
    }

    /// Returns the time that is left of it.
    pub(crate) fn left(&self) -> Duration {
        let now = self.environment.now().as_nanos();
        Duration::from_nanos(self.until.load(SeqCst).saturating_sub(now))
    }

    /// Returns whether it is valid. Check it after a read, and not before. (R4)
    pub(crate) fn is_valid(&self) -> bool {
        self.environment.now().as_nanos() < self.until.load(SeqCst)
    }
}
