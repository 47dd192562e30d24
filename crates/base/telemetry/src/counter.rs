//! A number that only grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::shards::Shards;

/// A count of events or bytes since the process began. Cheap to clone; clones count together.
#[derive(Clone, Debug)]
pub struct Counter(Arc<Shards<AtomicU64>>);

impl Counter {
    /// A counter that is in no registry.
    pub fn detached() -> Self {
        Self(Arc::new(Shards::new(AtomicU64::default)))
    }

    /// Adds `n`: one uncontended atomic addition as a rule.
    pub fn add(&self, n: u64) {
        self.0.mine().fetch_add(n, Ordering::Relaxed);
    }

    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// The count: at least everything that was added before this call began.
    pub fn get(&self) -> u64 {
        self.0.iter().fold(0_u64, |sum, cell| sum.wrapping_add(cell.load(Ordering::Relaxed)))
    }
}
