//! Parts of the index, counted.

use std::sync::atomic::{AtomicI64, Ordering};

use sync::CachePadded;

/// Parts of an index. Exact if no thread changes it meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Buckets of the table, those included that a doubling under way has not filled yet.
    pub(crate) buckets: u64,
    /// Chains.
    pub(crate) entries: u64,
    /// Buckets linked behind others because those were full.
    pub(crate) overflow_buckets: u64,
    /// All memory of the index.
    pub(crate) bytes: u64,
}

const STRIPES: usize = 16;

/// Counts entries, striped so that threads that add chains do not share a cache line. The checkers
/// do not see it: it orders nothing.
pub(super) struct EntryCount([CachePadded<AtomicI64>; STRIPES]);

impl EntryCount {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| CachePadded::new(AtomicI64::new(0))))
    }

    /// Counts entries that this bucket got, or lost.
    pub(super) fn add(&self, bucket: usize, entries: i64) {
        self.0[bucket % STRIPES].fetch_add(entries, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        let sum: i64 = self.0.iter().map(|stripe| stripe.load(Ordering::Relaxed)).sum();
        sum.max(0) as u64
    }
}
