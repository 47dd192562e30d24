//! Entries that are no longer needed, and entries that are rebuilt: scrubbing and recovery.

use std::ops::Range;

use super::bucket::Bucket;
use super::entry::Entry;
use super::slot::{Changed, Slot};
use super::{HashIndex, KeyHash, LogAddress};

impl HashIndex {
    /// Frees the entry of a chain whose newest record is below `begin`, or that has none; returns
    /// whether it did. It does not if the entry has changed since it was found.
    ///
    /// An address of the read cache is above every `begin`.
    #[cfg(test)]
    pub(crate) fn retire(&self, hash: KeyHash, slot: Slot<'_>, begin: LogAddress) -> bool {
        slot.address() < begin && self.release(hash, slot).is_ok()
    }

    /// Frees the entry of a chain that has no record, if it has not changed since it was found.
    pub(crate) fn release(&self, hash: KeyHash, slot: Slot<'_>) -> Result<(), Changed> {
        slot.free()?;
        self.entries.add(self.chain(hash).base, -1);
        Ok(())
    }

    /// Frees, in `count` buckets from `from` on, the entries of chains whose newest record is below
    /// `begin`, or that have none. Returns the bucket to continue at, or nothing after the last
    /// bucket.
    ///
    /// Every entry that is below `begin` when the first slice begins is freed after the last one,
    /// if no such address is linked meanwhile. This holds also if the table doubles, because
    /// entries only move to buckets further on.
    pub(crate) fn scrub(&self, begin: LogAddress, from: usize, count: usize) -> Option<usize> {
        let to = from.saturating_add(count);
        for number in self.present(from..to) {
            self.scrub_bucket(number, begin);
        }
        (to < self.buckets()).then_some(to)
    }

    fn present(&self, buckets: Range<usize>) -> Range<usize> {
        buckets.start..buckets.end.min(self.buckets())
    }

    fn scrub_bucket(&self, number: usize, begin: LogAddress) {
        // A bucket that a doubling has not made yet gets its entries first.
        self.catch_up(number, self.level());
        let bucket = self.table.bucket(number);
        for place in self.lines(bucket, bucket.control()).flat_map(Bucket::entries) {
            let entry = Entry::load(place);
            if entry.is_occupied()
                && entry.address() < begin
                && Slot::new(place, entry).free().is_ok()
            {
                self.entries.add(number, -1);
            }
        }
    }

    /// Links `address` unless the chain has a newer record: for recovery, which meets records in
    /// any order.
    pub(crate) fn restore(&self, hash: KeyHash, address: LogAddress) {
        loop {
            let slot = self.find_or_create(hash);
            if slot.address() >= address || slot.compare_exchange(address).is_ok() {
                return;
            }
        }
    }
}
