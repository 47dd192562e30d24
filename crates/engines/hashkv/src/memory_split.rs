//! How a store shares out its memory: write buffers, directories, footers, cached values, and the
//! index.
//!
//! A quarter is for write buffers, at most [`Options::buffer_bytes_max`]. An eighth is for the
//! footers of segments that are not sealed, the spare capacity of buffers, the copy of a part that
//! is being written, and the segment table. Two fifths of the rest are the index's, which shares
//! them out to memtables and its cache. Three fifths are for directories, which take at most a
//! quarter of the memory, for filters, which take at most a sixteenth, and for cached values, which
//! take what these leave. Cached values also take what write buffers have not needed lately.

use crate::options::Options;
use crate::values::bound::fixed_segments;

/// Part of the memory that write buffers may take.
const BUFFER_PARTS: u64 = 4;
/// Part of the memory for directories.
const DIRECTORY_PARTS: u64 = 4;
/// Part of the memory for filters.
const FILTER_PARTS: u64 = 16;
/// Part of the memory for footers, spare capacity, and a copy.
const OTHER_PARTS: u64 = 8;
/// Part of the memory that the entries of footers may take before segments are sealed early.
const ENTRY_PARTS: u64 = 16;
/// Part of the memory that the maps of segments take out of that for footers. All beyond is taken
/// from the rest.
const MAP_PARTS: u64 = 64;
/// The parts of the rest that are the index's, of [`REST_PARTS`].
const INDEX_PARTS: u64 = 2;
const REST_PARTS: u64 = 5;
/// Memory for each segment: its entries in the maps of readers and of the segment table.
const BYTES_PER_SEGMENT: u64 = 256;
/// Segments that fit the memory, at least.
const SEGMENTS_MIN: u64 = 64;
/// Bytes of the smallest segment.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;

/// The shares, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySplit {
    /// Bytes of write buffers above which they are flushed.
    pub(crate) flush_bytes: u64,
    /// Bytes of write buffers and reservations before writers wait for flushes.
    pub(crate) buffer_bytes: u64,
    /// Bytes of the entries of footers before segments are sealed early.
    pub(crate) entry_bytes: u64,
    /// Bytes of directories before some are dropped.
    pub(crate) directory_bytes: u64,
}

impl MemorySplit {
    /// The shares of a budget.
    pub(crate) fn of(limit: u64, options: &Options) -> Self {
        let buffer_bytes = (limit / BUFFER_PARTS).min(options.buffer_bytes_max);
        let (entry_bytes, directory_bytes) = (limit / ENTRY_PARTS, limit / DIRECTORY_PARTS);
        Self { flush_bytes: buffer_bytes / 2, buffer_bytes, entry_bytes, directory_bytes }
    }

    /// Returns the least memory of a store with this number of segments whose index needs
    /// `index_bytes`.
    pub(crate) fn least_of(index_bytes: u64, segments: u64) -> u64 {
        let maps = segments.saturating_mul(BYTES_PER_SEGMENT);
        let parts = index_bytes.saturating_mul(4).max(Options::MEMORY_BYTES_MIN);
        // The rest is five eighths at least.
        parts.saturating_add(maps / 5 * 8)
    }

    /// Returns the budget of the index in a store with this number of segments.
    pub(crate) fn index_bytes(&self, limit: u64, segments: u64) -> u64 {
        self.rest(limit, segments) / REST_PARTS * INDEX_PARTS
    }

    /// Returns the bytes of directories, filters and cached values together.
    pub(crate) fn value_bytes(&self, limit: u64, segments: u64) -> u64 {
        self.rest(limit, segments) / REST_PARTS * (REST_PARTS - INDEX_PARTS)
    }

    fn rest(&self, limit: u64, segments: u64) -> u64 {
        let maps = segments.saturating_mul(BYTES_PER_SEGMENT).saturating_sub(limit / MAP_PARTS);
        let others = self.buffer_bytes + limit / OTHER_PARTS;
        limit.saturating_sub(others).saturating_sub(maps)
    }
}

/// Returns the most bytes of the filters of a store with this memory.
pub(crate) fn filter_bytes(limit: u64) -> u64 {
    limit / FILTER_PARTS
}

/// Returns the bytes of a segment of a new store with this memory.
pub(crate) fn segment_bytes(limit: u64, options: &Options) -> u32 {
    let part = (limit / SEGMENTS_MIN).max(SEGMENT_BYTES_MIN);
    let part = u64::MAX.checked_shl(part.ilog2()).map_or(part, |mask| part & mask);
    let part = part.min(u64::from(options.segment_bytes_max));
    // Of a small bound, too, there are enough.
    let fit = options.disk_bytes_max.unwrap_or(u64::MAX) / SEGMENTS_MIN;
    let fit = fit.checked_ilog2().map_or(1, |bits| 1 << bits);
    part.min(fit.max(SEGMENT_BYTES_MIN)) as u32
}

/// Returns the bits of the groups' numbers in a new store with this memory.
pub(crate) fn group_bits(limit: u64, options: &Options) -> u8 {
    let segment_bytes = u64::from(segment_bytes(limit, options));
    let fit = limit / BUFFER_PARTS / segment_bytes;
    // Segments that are open or kept take half of a bound at most.
    let bound = options.disk_bytes_max.unwrap_or(u64::MAX) / 2 / segment_bytes;
    let fit = fit.min(bound.saturating_sub(fixed_segments(0)) / 2);
    let groups = fit.clamp(1, u64::from(options.groups_max.max(1)));
    groups.ilog2() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn segments_and_groups_follow_the_memory() {
        let of = |limit| {
            let options = Options::default();
            (segment_bytes(limit, &options), 1 << group_bits(limit, &options))
        };
        assert_eq!(of(0), (64 << 10, 1));
        assert_eq!(of(4 * MIB), (64 << 10, 16));
        assert_eq!(of(24 * MIB), (256 << 10, 16));
        assert_eq!(of(64 * MIB), (1 << 20, 16));
        assert_eq!(of(1024 * MIB), (1 << 20, 64));
        let bounded = |disk_bytes_max| {
            let options = Options { disk_bytes_max: Some(disk_bytes_max), ..Options::default() };
            (segment_bytes(1024 * MIB, &options), 1 << group_bits(1024 * MIB, &options))
        };
        assert_eq!(bounded(MIB), (64 << 10, 2));
        assert_eq!(bounded(64 * MIB), (1 << 20, 8));
        assert_eq!(bounded(10_000 * MIB), (1 << 20, 64));
    }

    #[test]
    fn the_least_memory_has_room_for_the_index() {
        for (index, segments) in [(0, 0), (MIB, 0), (MIB, 100_000), (30 * MIB, 5_000)] {
            let least = MemorySplit::least_of(index, segments);
            let split = MemorySplit::of(least, &Options::default());
            let bytes = split.index_bytes(least, segments);
            assert!(bytes + 8 >= index, "{bytes} of {index} with {segments} segments");
        }
    }

    #[test]
    fn the_shares_are_the_budget() {
        for limit in [0, 4 * MIB, 100 * MIB, 10_000 * MIB] {
            let split = MemorySplit::of(limit, &Options::default());
            let (index, values) = (split.index_bytes(limit, 0), split.value_bytes(limit, 0));
            let all = split.buffer_bytes + limit / 8 + index + values;
            assert!(all <= limit && limit - all < REST_PARTS, "{all} of {limit}");
            assert!(split.directory_bytes + filter_bytes(limit) <= values);
            assert!(index >= limit / 4 - limit / 1024);
            let many = limit / BYTES_PER_SEGMENT / 2;
            let taken = split.index_bytes(limit, many) + split.value_bytes(limit, many);
            assert!(taken <= index + values - limit / 4);
            assert!(split.flush_bytes <= split.buffer_bytes && split.buffer_bytes <= 256 * MIB);
        }
    }
}
