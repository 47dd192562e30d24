//! Counts of expiring values in one engine, and of removed keys.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use environment::Environment;
use sync::locks::Mutex;

use super::sweep::Pass;

/// Figures of a keyspace whose values may expire. The figures about keys are from the last whole
/// walk of the removal ([`crate::Options::expiry_sweep_interval`]). During the first walk they are
/// an estimate from the part that it has seen; for an engine with order, that part alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryStats {
    /// Keys whose values had not expired.
    pub keys: u64,
    /// Keys among them whose values have an expiry.
    pub keys_with_expiry: u64,
    /// Milliseconds that these had left, on average.
    pub mean_left_ms: u64,
    /// Keys that were removed since the database was opened, or the keyspace cleared, because their
    /// values had expired.
    pub removed: u64,
    /// Whole walks.
    pub passes: u64,
}

/// State that accompanies an engine whose values may expire.
#[derive(Debug)]
pub(crate) struct Expiry {
    pub(crate) environment: Environment,
    /// The first expiry that was written since the pass under way began, or since the last pass
    /// began if none is under way.
    pub(super) soonest_ms: AtomicU64,
    pub(super) pass: Mutex<Pass>,
    pub(super) keys: AtomicU64,
    pub(super) keys_with_expiry: AtomicU64,
    pub(super) mean_left_ms: AtomicU64,
    pub(super) removed: AtomicU64,
    pub(super) passes: AtomicU64,
}

impl Expiry {
    /// Makes the state of an engine of which nothing is known: a pass is due.
    pub(crate) fn new(environment: Environment) -> Self {
        let (pass, keys, keys_with_expiry, mean_left_ms, removed, passes) = Default::default();
        let soonest_ms = AtomicU64::new(0);
        Self {
            environment,
            soonest_ms,
            pass,
            keys,
            keys_with_expiry,
            mean_left_ms,
            removed,
            passes,
        }
    }

    /// Remembers that `stored` was written, and is there. Costs a load unless it expires sooner
    /// than all values before it.
    #[inline]
    pub(crate) fn note_written(&self, stored: &[u8]) {
        if let Some(expiry_ms) = super::format::expiry_of(stored) {
            self.note_expiry(expiry_ms);
        }
    }

    /// Remembers that a value is there that expires then.
    #[inline]
    pub(crate) fn note_expiry(&self, expiry_ms: u64) {
        if expiry_ms < self.soonest_ms.load(Relaxed) {
            self.soonest_ms.fetch_min(expiry_ms, Relaxed);
        }
    }

    /// Remembers that values were written whose expiry is not known.
    pub(crate) fn note_unknown(&self) {
        self.soonest_ms.store(0, Relaxed);
    }

    pub(crate) fn stats(&self) -> ExpiryStats {
        ExpiryStats {
            keys: self.keys.load(Relaxed),
            keys_with_expiry: self.keys_with_expiry.load(Relaxed),
            mean_left_ms: self.mean_left_ms.load(Relaxed),
            removed: self.removed.load(Relaxed),
            passes: self.passes.load(Relaxed),
        }
    }
}
