//! Counts of the cache's work; striped, since every hit counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::CachePadded;

use crate::key_hash::KeyHash;

const STRIPE_BITS: u32 = 4;

/// Work of the cache so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Bytes of memory in use.
    pub(crate) bytes: u64,
    /// Pages that may have memory.
    pub(crate) pages: u64,
    /// Reads of a device that a larger cache would have saved, about.
    pub(crate) ghost_hits: u64,
    /// Reads that the cache served.
    pub(crate) hits: u64,
    /// Values that were read from a device.
    pub(crate) misses: u64,
    /// The number of these that were cached.
    pub(crate) inserted: u64,
    /// Records that were copied to the tail when their page was evicted, since they had been read.
    pub(crate) second_chances: u64,
    /// Records that were cached until their page was evicted.
    pub(crate) evicted: u64,
}

#[derive(Default)]
struct Stripe {
    hits: AtomicU64,
    misses: AtomicU64,
    inserted: AtomicU64,
    second_chances: AtomicU64,
    evicted: AtomicU64,
}

/// The checkers do not see it: it orders nothing.
#[derive(Default)]
pub(super) struct Counters([CachePadded<Stripe>; 1 << STRIPE_BITS]);

impl Counters {
    fn of(&self, hash: KeyHash) -> &Stripe {
        &self.0[hash.bucket(STRIPE_BITS)]
    }

    pub(super) fn hit(&self, hash: KeyHash) {
        self.of(hash).hits.fetch_add(1, Relaxed);
    }

    pub(super) fn miss(&self, hash: KeyHash) {
        self.of(hash).misses.fetch_add(1, Relaxed);
    }

    pub(super) fn inserted(&self, hash: KeyHash) {
        self.of(hash).inserted.fetch_add(1, Relaxed);
    }

    /// One thread at a time evicts.
    pub(super) fn ended(&self, evicted: u64, kept: u64) {
        if evicted + kept > 0 {
            self.0[0].evicted.fetch_add(evicted, Relaxed);
            self.0[0].second_chances.fetch_add(kept, Relaxed);
        }
    }

    /// Returns `begin` with the counts added.
    pub(super) fn figures(&self, begin: Figures) -> Figures {
        self.0.iter().fold(begin, |sum, stripe| Figures {
            hits: sum.hits + stripe.hits.load(Relaxed),
            misses: sum.misses + stripe.misses.load(Relaxed),
            inserted: sum.inserted + stripe.inserted.load(Relaxed),
            second_chances: sum.second_chances + stripe.second_chances.load(Relaxed),
            evicted: sum.evicted + stripe.evicted.load(Relaxed),
            ..sum
        })
    }
}
