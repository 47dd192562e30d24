//! What may be chosen about a store.

use crate::hybrid_log::Geometry;

/// Options of a [`crate::Store`]. What a store was made with (page, segment and index) stays as it
/// is when it is opened again; the rest may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Bytes of memory that the log takes; default: three quarters of what the host's budget has,
    /// and 256 MiB where it has no limit. What does not fit is read from disk.
    pub log_memory_bytes: Option<u64>,
    /// Share of the log's memory that is updated in place; the rest is a second chance for records
    /// on their way to disk. Default: 0.9.
    pub mutable_share: f64,
    /// Bytes of a page, the unit that is written to disk and given up in memory: a power of two.
    /// The longest record takes a page. Default: a 64th of the log's memory, between 256 KiB
    /// and 32 MiB.
    pub page_bytes: Option<u64>,
    /// Bytes of a segment, the unit in which disk space is given back: a power of two, at least a
    /// page. Default: 64 MiB.
    pub segment_bytes: u64,
    /// Bytes of disk that the log should keep within: at four fifths of it the oldest tenth is
    /// compacted. More is taken rather than a write refused. Default: none; the log is compacted
    /// as it grows, so that about two fifths of its oldest part are dead.
    pub disk_bytes_max: Option<u64>,
    /// The index of a new store begins with 2 to this power buckets of 64 bytes, seven chains each,
    /// and doubles as it fills, ten times at most. Default: so many that five doublings take a
    /// quarter of the budget; 14 (1 MiB) where it has no limit.
    pub index_bits: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            log_memory_bytes: None,
            mutable_share: 0.9,
            page_bytes: None,
            segment_bytes: 64 << 20,
            disk_bytes_max: None,
            index_bits: None,
        }
    }
}

/// The log's memory where neither options nor budget say anything.
const LOG_MEMORY_BYTES: u64 = 256 << 20;
const PAGE_BYTES_MIN: u64 = 256 << 10;
const PAGE_BYTES_MAX: u64 = 32 << 20;
/// Pages in memory, about, where the size of a page is ours to choose.
const PAGES: u64 = 64;

/// Doublings after which the index has its share of the budget.
const DOUBLINGS: u32 = 5;
const BUCKET_BYTES: u64 = 64;
const INDEX_BITS: u32 = 14;

impl Options {
    /// The least memory, in bytes of the host's budget, that a new store is made with; less is
    /// exceeded.
    pub const MEMORY_BYTES_MIN: u64 =
        Self::limit_for_log(PAGE_BYTES_MIN * Geometry::FRAMES_MIN as u64);

    /// Base bits of the index of a new store.
    pub(crate) fn index_bits(&self, limit: u64) -> u32 {
        self.index_bits.unwrap_or_else(|| {
            let buckets = (limit / 4 / BUCKET_BYTES).max(1);
            if limit == u64::MAX {
                INDEX_BITS
            } else {
                buckets.ilog2().saturating_sub(DOUBLINGS).max(1)
            }
        })
    }

    /// Bytes of memory for the log, given the budget's limit.
    pub(crate) fn log_memory(&self, limit: u64) -> u64 {
        let share = if limit == u64::MAX { LOG_MEMORY_BYTES } else { limit / 4 * 3 };
        self.log_memory_bytes.unwrap_or(share)
    }

    /// The budget's limit under which the log takes `log_bytes`: the opposite of
    /// [`Options::log_memory`].
    pub(crate) const fn limit_for_log(log_bytes: u64) -> u64 {
        log_bytes.div_ceil(3).saturating_mul(4)
    }

    /// Bytes of a page of a new store.
    pub(crate) fn page(&self, limit: u64) -> u64 {
        self.page_bytes.unwrap_or_else(|| {
            let wanted = (self.log_memory(limit) / PAGES).max(1);
            let power = 1 << wanted.ilog2();
            u64::clamp(power, PAGE_BYTES_MIN, PAGE_BYTES_MAX)
        })
    }
}
