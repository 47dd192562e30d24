//! Walking over all chains in an order that growth does not change.

use super::bucket::Bucket;
use super::chain::{Chain, ChainId};
use super::entry::Entry;
use super::{HashIndex, LogAddress, TAG_BITS};

impl HashIndex {
    /// The next chain after `after`, or the first one, and its newest record; nothing after the
    /// last.
    ///
    /// Returns the next chain of a walk. A walk meets every chain that exists all the while exactly
    /// once, however often the table doubles meanwhile; a chain that is made or removed meanwhile,
    /// at most once. Costs one bucket if there are many chains; empty buckets on the way are
    /// passed.
    pub(crate) fn next_chain(&self, after: Option<ChainId>) -> Option<(ChainId, LogAddress)> {
        let mut from = after.map_or(0, |id| id.get() + 1);
        let end = 1 << (self.table.base_bits() + TAG_BITS);
        while from < end {
            let (bucket_end, next) = self.next_in_bucket(ChainId::new(from));
            if next.is_some() {
                return next;
            }
            from = bucket_end;
        }
        None
    }

    /// The first chain from `from` on in the bucket that `from` belongs to, and the number of the
    /// first chain that belongs to another bucket.
    fn next_in_bucket(&self, from: ChainId) -> (u64, Option<(ChainId, LogAddress)>) {
        let chain = from.chain();
        loop {
            let (level, number) = self.resolve(chain);
            let bucket = self.table.bucket(number);
            let control = bucket.control();
            let chains = 1u64 << (TAG_BITS - level);
            let end = (from.get() | (chains - 1)) + 1;
            let mut next: Option<(ChainId, LogAddress)> = None;
            for place in self.lines(bucket, control).flat_map(Bucket::entries) {
                let entry = Entry::load(place);
                let id = Chain { base: chain.base, tag: entry.tag() }.id();
                let closer = next.is_none_or(|(best, _)| id < best);
                // An entry that a split has moved to another bucket and not freed yet is not in the
                // range.
                if entry.begins_chain() && (from.get()..end).contains(&id.get()) && closer {
                    next = Some((id, entry.address()));
                }
            }
            // I6
            if control.level() == level && bucket.control().level() == level {
                return (end, next);
            }
        }
    }
}
