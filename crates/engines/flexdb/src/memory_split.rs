//! The shares of the budget: memtables, the sparse index, and the interval cache.
//!
//! Memtables may take a quarter: one is written to, one is being committed, two wait. Ten parts of
//! 32, plus up to [`UNCOUNTED_BYTES`], are for memory that no account counts. It is in segments
//! being filled, log records, gaps between blocks (`block/memory.rs`) and the allocator's loss,
//! since a commit takes and frees pieces of many sizes (`tests/memory.rs` measures it). The pieces
//! have the same sizes under any budget, so of a budget above [`LARGE_BYTES`] it is a smaller
//! share. Memtables and blocks have their own memory. While a store has committed little since it
//! was opened, that loss is small, and the cache borrows the memory that memtables do not use. The
//! index takes what it needs, the nodes of both trees included. If intervals take more than an
//! eighth, they grow (`commit/coarsen_index.rs`) up to their maximum. The cache gets the rest and
//! shrinks if the index takes more.

use crate::options::Options;

/// Parts of the budget of which a memtable is one.
const MEMTABLE_PARTS: u64 = 16;
/// Memtables that may exist at the same time.
pub(crate) const MEMTABLES: u64 = 4;
/// Parts of 32 of the budget that no account counts, and bytes next to them, at most.
const UNCOUNTED_PARTS: u64 = 10;
const UNCOUNTED_BYTES: u64 = 4 << 20;
/// Bytes of a budget above which less is not counted, and the parts of 32 of the bytes above it.
const LARGE_BYTES: u64 = 128 << 20;
const UNCOUNTED_PARTS_OF_LARGE: u64 = 6;
/// Parts of the budget of which the index may be one before intervals grow.
const INDEX_PARTS: u64 = 8;
/// Bytes of the index for an interval, including its place in the tree and its extents in the
/// space's.
const INTERVAL_MEMORY_BYTES: u64 = 256;
/// Part of the budget (one in this many) for the intervals that are planned together.
const CHUNK_PARTS: u64 = 128;
/// Updates that are planned together, at most, and bytes for each of them, at least.
const CHUNK_UPDATES_MAX: u64 = 256;
const CHUNK_BYTES_EACH: u64 = 4 << 10;
/// No memtable is sealed below this, however small the budget is.
const MEMTABLE_BYTES_MIN: u64 = 4 << 10;
/// The greatest length of intervals if the index would take more than its share. It is a part of
/// the budget, as some of them are in memory in several forms at the same time, and half of the
/// bytes that a tail's places reach.
const INTERVAL_PARTS: u64 = 64;
const INTERVAL_BYTES_MAX: u64 = 512 << 10;
/// And the most pairs that they may have: a little fewer than can be counted.
const INTERVAL_PAIRS_MAX: usize = 32 << 10;
/// Doublings of pairs for each doubling of the index, at most; bytes have half of these doublings.
const INDEX_DOUBLINGS_MAX: u32 = 6;
/// Doublings of the limits of intervals, at most.
pub(crate) const DOUBLINGS_MAX: u32 = 15;

/// The shares, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySplit {
    limit: u64,
    /// A memtable is sealed above this.
    pub(crate) memtable_bytes: u64,
    /// Bytes that all memtables may take before writers wait for commits.
    pub(crate) memtables_bytes: u64,
}

/// When intervals are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntervalLimits {
    pub(crate) pairs: usize,
    pub(crate) bytes: u32,
}

/// How many updates a chunk has at most, and the bytes of these and of their intervals above which
/// it ends; one interval it always has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLimits {
    pub(crate) updates: usize,
    pub(crate) bytes: u64,
}

impl MemorySplit {
    /// The shares of a budget.
    pub(crate) fn of(limit: u64, options: &Options) -> Self {
        let share = limit / MEMTABLE_PARTS;
        let memtable_bytes = share.min(options.memtable_bytes_max).max(MEMTABLE_BYTES_MIN);
        Self { limit, memtable_bytes, memtables_bytes: MEMTABLES * memtable_bytes }
    }

    /// Returns the bytes that the cache may hold next to an index of `index_bytes` bytes, if
    /// memtables have taken `memtables_used` bytes since the store was opened, before and after
    /// their commits. Twice these bytes are kept for memtables, since the share is not checked
    /// again before the next commit; the cache borrows the rest of their share.
    pub(crate) fn cache_bytes(&self, index_bytes: u64, memtables_used: u64) -> u64 {
        let large = self.limit.saturating_sub(LARGE_BYTES);
        let uncounted = (self.limit - large) / 32 * UNCOUNTED_PARTS
            + large / 32 * UNCOUNTED_PARTS_OF_LARGE
            + UNCOUNTED_BYTES.min(self.limit / 8);
        let memtables = memtables_used.saturating_mul(2).min(self.memtables_bytes);
        self.limit.saturating_sub(memtables + uncounted + index_bytes)
    }

    /// Returns the limits of a chunk: the data that are read and written for it are a small part of
    /// the budget.
    pub(crate) fn chunk(&self, options: &Options) -> ChunkLimits {
        let usual = u64::from(options.interval_bytes.max(1));
        let bytes = (self.limit / CHUNK_PARTS).min(CHUNK_UPDATES_MAX * usual);
        let updates = (bytes / CHUNK_BYTES_EACH).clamp(1, CHUNK_UPDATES_MAX);
        ChunkLimits { updates: updates as usize, bytes }
    }

    /// Returns the bytes up to which intervals are taken together at the opening of a store of
    /// `space_bytes` bytes: the fewest for which the index has room.
    pub(crate) fn opening_step(&self, space_bytes: u64, options: &Options) -> u64 {
        let intervals_max = (self.index_bytes() / INTERVAL_MEMORY_BYTES).max(1);
        let least = u64::from(options.interval_bytes) / 4;
        (space_bytes / intervals_max).clamp(least, self.interval_bytes_max(options))
    }

    /// Returns the bytes up to which `intervals` known intervals are taken together at the opening
    /// of their store of `space_bytes` bytes: none, if the index has room for all of them. The
    /// index may have reached twice its share before the store was closed, as intervals grow no
    /// faster than they are changed.
    pub(crate) fn step_for(&self, intervals: u64, space_bytes: u64, options: &Options) -> u64 {
        let wanted = intervals.saturating_mul(INTERVAL_MEMORY_BYTES);
        if wanted <= 2 * self.index_bytes() { 0 } else { self.opening_step(space_bytes, options) }
    }

    /// Returns the bytes that intervals should take at most. The nodes of the space's tree are in
    /// addition: they do not become fewer with the intervals.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.limit / INDEX_PARTS
    }

    fn interval_bytes_max(&self, options: &Options) -> u64 {
        let most = (self.limit / INTERVAL_PARTS).min(INTERVAL_BYTES_MAX);
        most.max(u64::from(options.interval_bytes))
    }

    /// Returns the limits of intervals for an index of `index_bytes` bytes, after `doublings`
    /// doublings (`commit/coarsen_index.rs`).
    pub(crate) fn interval_limits(
        &self,
        index_bytes: u64,
        doublings: u32,
        options: &Options,
    ) -> IntervalLimits {
        let by_index = u64::BITS - (index_bytes / self.index_bytes().max(1)).leading_zeros();
        let by_index = by_index.min(INDEX_DOUBLINGS_MAX);
        let doublings = doublings.min(DOUBLINGS_MAX);
        let pairs = options.interval_pairs.clamp(2, INTERVAL_PAIRS_MAX);
        let usual = u64::from(options.interval_bytes);
        let most = (usual << doublings).min(self.interval_bytes_max(options));
        // If values are long, an interval has few pairs, and bytes alone limit it.
        let bytes = most.max((usual << (by_index / 2)).min(1 << 30));
        IntervalLimits {
            pairs: (pairs << doublings.max(by_index)).min(INTERVAL_PAIRS_MAX.max(pairs)),
            bytes: bytes as u32,
        }
    }

    /// The fewest doublings after which intervals may have `bytes`, if they may ever.
    pub(crate) fn doublings_for(&self, bytes: u64, options: &Options) -> u32 {
        let is_enough = |doublings: &u32| {
            u64::from(self.interval_limits(0, *doublings, options).bytes) >= bytes
        };
        (0..DOUBLINGS_MAX).find(is_enough).unwrap_or(DOUBLINGS_MAX)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn intervals_grow_up_to_a_part_of_the_memory() {
        let options = Options::default();
        let split = MemorySplit::of(8 << 20, &options);
        let at = |doublings| split.interval_limits(0, doublings, &options);
        assert_eq!(at(0), IntervalLimits { pairs: 32, bytes: 16 << 10 });
        assert_eq!(at(1), IntervalLimits { pairs: 64, bytes: 32 << 10 });
        assert_eq!(at(3), IntervalLimits { pairs: 256, bytes: 128 << 10 });
        assert_eq!(at(4), IntervalLimits { pairs: 512, bytes: 128 << 10 });
        assert_eq!(at(u32::MAX), IntervalLimits { pairs: 32 << 10, bytes: 128 << 10 });
        let large = MemorySplit::of(1 << 40, &options).interval_limits(0, u32::MAX, &options);
        assert_eq!(large, IntervalLimits { pairs: 32 << 10, bytes: 512 << 10 });
        let small = MemorySplit::of(0, &options).interval_limits(0, u32::MAX, &options);
        assert_eq!(small.bytes, 16 << 10);
        assert_eq!(
            [1, 16 << 10, 17 << 10, 1 << 17].map(|it| split.doublings_for(it, &options)),
            [0, 0, 1, 3]
        );
        assert_eq!(split.doublings_for(1 << 30, &options), DOUBLINGS_MAX);
        let beside = |index_bytes| split.interval_limits(index_bytes, 0, &options);
        assert_eq!(beside((1 << 20) - 1), at(0));
        assert_eq!(beside(1 << 20), IntervalLimits { pairs: 64, bytes: 16 << 10 });
        assert_eq!(beside(2 << 20), IntervalLimits { pairs: 128, bytes: 32 << 10 });
    }

    #[test]
    fn a_store_is_opened_with_as_many_intervals_as_the_index_has_room_for() {
        let options = Options::default();
        let split = MemorySplit::of(8 << 20, &options);
        assert_eq!(split.opening_step(0, &options), 4 << 10);
        assert_eq!(split.opening_step(32 << 20, &options), 8 << 10);
        assert_eq!(split.opening_step(256 << 20, &options), 64 << 10);
        assert_eq!(split.opening_step(1 << 40, &options), 128 << 10);
        assert_eq!(MemorySplit::of(0, &options).opening_step(1 << 40, &options), 16 << 10);
    }

    #[test]
    fn the_cache_has_what_no_write_has_needed() {
        let split = MemorySplit::of(64 << 20, &Options::default());
        let quarter = split.memtables_bytes;
        let least = split.cache_bytes(1 << 20, u64::MAX);
        assert_eq!(split.cache_bytes(1 << 20, 0), least + quarter);
        assert_eq!(split.cache_bytes(1 << 20, quarter / 4), least + quarter - quarter / 4 * 2);
        assert_eq!(split.cache_bytes(1 << 20, quarter / 2 + 1), least);
    }

    #[test]
    fn no_budget_is_too_small_or_too_large() {
        let options = Options::default();
        for limit in [0, 1, 1 << 20, u64::MAX] {
            let split = MemorySplit::of(limit, &options);
            assert!(split.memtable_bytes >= MEMTABLE_BYTES_MIN);
            assert!(split.cache_bytes(1 << 30, 0) <= limit);
            split.interval_limits(1 << 30, 30, &options);
        }
    }
}
