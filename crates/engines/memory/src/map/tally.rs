//! Counts of live keys and bytes, and the newest write, kept so that writers do not meet on one
//! cache line.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use crossbeam_utils::CachePadded;

/// Enough that two busy threads seldom share one.
const STRIPES: usize = 16;

/// The change of the counts that an edit made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delta {
    pub(crate) keys: i64,
    pub(crate) bytes: i64,
}

/// Sums of all [`Delta`]s. A stripe alone may be negative; the sum is exact once writers rest.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    stripes: [CachePadded<Stripe>; STRIPES],
}

#[derive(Debug, Default)]
struct Stripe {
    keys: AtomicI64,
    bytes: AtomicI64,
    newest: AtomicU64,
}

impl Tally {
    /// Counts a change in leaf number `leaf` by the write numbered `seqno`.
    pub(crate) fn add(&self, leaf: u32, delta: Delta, seqno: u64) {
        let stripe = &self.stripes[leaf as usize % STRIPES];
        if stripe.newest.load(Relaxed) < seqno {
            stripe.newest.fetch_max(seqno, Relaxed);
        }
        if delta.keys != 0 {
            stripe.keys.fetch_add(delta.keys, Relaxed);
        }
        if delta.bytes != 0 {
            stripe.bytes.fetch_add(delta.bytes, Relaxed);
        }
    }

    /// The largest number of a write that changed something.
    pub(crate) fn newest(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.newest.load(Relaxed)).max().unwrap_or(0)
    }

    pub(crate) fn keys(&self) -> u64 {
        let sum: i64 = self.stripes.iter().map(|stripe| stripe.keys.load(Relaxed)).sum();
        u64::try_from(sum).unwrap_or(0)
    }

    pub(crate) fn bytes(&self) -> u64 {
        let sum: i64 = self.stripes.iter().map(|stripe| stripe.bytes.load(Relaxed)).sum();
        u64::try_from(sum).unwrap_or(0)
    }
}
