//! The way of many keys through memory, begun for all of them together.
//!
//! A lookup waits for two or three misses of the processor's caches, each for the one before: the
//! bucket, the record, the record's second line. If several keys are known, first all their buckets
//! are loaded, then all their records. Those loads do not wait for each other, so they overlap.

use std::hint::black_box;

use crate::address::LogAddress;
use crate::key_hash::KeyHash;
use crate::store::Shared;

impl Shared {
    /// Loads the buckets and records of keys with these hashes into the processor's caches; it has
    /// no other effect. More than some twenty hashes gain no more: that number of misses overlaps.
    /// The caller is protected.
    pub(crate) fn prefetch(&self, hashes: &[KeyHash]) {
        let loaded = hashes.iter().fold(0, |loaded, hash| loaded ^ self.hot.index.prefetch(*hash));
        black_box(loaded);
        let loaded = hashes.iter().fold(0, |loaded, hash| {
            let found = self.hot.index.find(*hash);
            loaded ^ found.map_or(0, |slot| self.prefetch_record(slot.address()))
        });
        black_box(loaded);
    }

    fn prefetch_record(&self, address: LogAddress) -> u64 {
        if address.is_cached() {
            self.cache.live(address).prefetch()
        } else if address >= self.hot.log.head() {
            self.hot.log.live(address).prefetch()
        } else {
            0
        }
    }
}
