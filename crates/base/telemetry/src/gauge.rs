//! A number that goes up and down.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// A level: bytes in use, tasks that wait. Cheap to clone; clones are the same gauge.
///
/// It is one atomic, because [`Gauge::set`] could not be spread over shards.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// A gauge that is in no registry, at zero.
    pub fn detached() -> Self {
        Self(Arc::default())
    }

    /// Sets the level.
    pub fn set(&self, level: i64) {
        self.0.store(level, Ordering::Relaxed);
    }

    /// Raises the level by `by`, or lowers it if `by` is negative.
    pub fn add(&self, by: i64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// The level.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}
