//! The options of a store.

use flexspace::space;

/// Options of the engine `flexdb`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a memtable above which it is sealed and committed; less if a sixteenth of the
    /// memory is less. Larger ones have more updates for each interval that a commit touches.
    /// Default: 64 MiB.
    pub memtable_bytes_max: u64,
    /// Pairs of an interval above which it is split (Flex 5.1). One interval is read for a get that
    /// finds nothing in memory. More if the index would take more than its share of the memory.
    /// Default: 32, twice the paper's: reads of the device are of 4 KiB blocks, of which 16 small
    /// pairs fill a half.
    pub interval_pairs: usize,
    /// Bytes of an interval above which it is split, unless it is a single pair. With the updates
    /// behind it, it may have twice these bytes if scans read next to nothing of it and there is a
    /// journal. Default: 16 KiB.
    pub interval_bytes: u32,
    /// Whether single pairs that gets find in intervals are cached, in addition to intervals. For
    /// comparisons. Default: yes.
    pub pairs: bool,
    /// Updates that may be unsorted behind an interval's pairs: updates of an interval that is not
    /// cached are written there without reading it. None at 0; more if intervals are larger, but 56
    /// at most. Default: 24.
    pub tail_pairs_max: u16,
    /// Extents of an interval above which its next update rewrites it as one; more if intervals are
    /// larger. Reading it alone costs a read for each extent. Default: 16.
    pub fragments_max: u16,
    /// Updates behind the pairs of neighbours, in percent of these pairs, from which on they are
    /// rewritten together, if scans read the data that are written. A higher value costs a write
    /// less, and a scan more. Default: 20.
    pub tail_percent_max: u16,
    /// The same if scans read next to nothing of it and there is a journal, if that is more.
    /// Default: 40.
    pub unscanned_tail_percent_max: u16,
    /// Whether neighbours in many pieces are written as one while the store is idle. Without it
    /// only neighbours that scans read are, and neighbours that commits change. Default: yes.
    pub defragments_when_idle: bool,
    /// Bytes up to which a damaged interval is appended to: its updates are never merged. Above
    /// that, commits are refused, as without room, and report the damage. Reading such an interval
    /// takes the same bytes of memory for a moment. Default: 1 GiB.
    pub damaged_bytes_max: u32,
    /// Updates of one interval that a commit plans together. An interval with more is changed in
    /// rounds, each of which reads the result of the round before. Default: 4096.
    pub round_updates_max: usize,
    /// Bytes of keys and values above which such a round ends, too. Default: 1 MiB.
    pub round_bytes_max: usize,
    /// Bytes of a segment of the FlexSpace, at most, a power of two from 16 KiB to 1 GiB; a
    /// sixty-fourth of the memory if that is less, as two segments are in memory. Fixed when the
    /// store is made. Default: 4 MiB.
    pub segment_bytes_max: u32,
    /// Bytes that the data file may grow to, at least 128 segments. About 30 of 32 of the bytes
    /// beyond 64 segments may live, and snapshots hold data that were replaced since they were
    /// taken. If a commit finds no room, writes are refused once memtables are full, until there is
    /// room. Default: the whole range of addresses, 2^48.
    pub capacity_bytes: u64,
    /// Intervals from which on a store that is closed writes its index to a file. With fewer, the
    /// next opening rebuilds the index equally fast. None writes it at `usize::MAX`. Default: 64.
    pub stored_intervals_min: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            memtable_bytes_max: 64 << 20,
            interval_pairs: 32,
            interval_bytes: 16 << 10,
            pairs: true,
            tail_pairs_max: 24,
            fragments_max: 16,
            tail_percent_max: 20,
            unscanned_tail_percent_max: 40,
            defragments_when_idle: true,
            damaged_bytes_max: 1 << 30,
            round_updates_max: 4096,
            round_bytes_max: 1 << 20,
            segment_bytes_max: 4 << 20,
            capacity_bytes: space::Options::default().capacity_bytes,
            stored_intervals_min: 64,
        }
    }
}

impl Options {
    /// Memory that a store should have at least: memtables of a sixteenth of it are worth a commit.
    pub const MEMORY_BYTES_MIN: u64 = 1 << 20;

    /// Returns the options with which its space is opened, or made, for `memory_bytes` bytes of
    /// memory.
    pub(crate) fn space(&self, memory_bytes: u64) -> space::Options {
        let share = (memory_bytes / SEGMENT_PARTS).clamp(1, u64::from(u32::MAX)) as u32;
        let power_of_two = 1 << (u32::BITS - 1 - share.leading_zeros());
        let segment_bytes = self.segment_bytes_max.min(power_of_two).max(SEGMENT_BYTES_MIN);
        let usual = space::Options::default();
        let extents = memory_bytes / COLLECTOR_PARTS / COLLECTED_EXTENT_BYTES;
        space::Options {
            segment_bytes,
            capacity_bytes: self.capacity_bytes,
            collected_extents_max: extents.clamp(1, usual.collected_extents_max),
            ..usual
        }
    }
}

/// Parts of the memory of which a segment may be one.
pub(crate) const SEGMENT_PARTS: u64 = 64;
/// Part of the memory (one in this many) for the collector's lists, and their bytes for an extent.
const COLLECTOR_PARTS: u64 = 64;
const COLLECTED_EXTENT_BYTES: u64 = 80;
/// The smallest segment.
const SEGMENT_BYTES_MIN: u32 = 16 << 10;
