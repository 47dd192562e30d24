//! How the budget is shared out: memtables, the cache, and what flushes and compactions work with.
//!
//! Memtables may take three eighths: the one that is written to, and two that wait for their flush.
//! An eighth is for flushes and compactions, in equal parts for as many jobs as run at once. The
//! rest is the cache's, which gives way where something else takes more.

use crate::options::Options;

/// Memtables that may wait for their flush before writers do.
pub(crate) const SEALED_MAX: usize = 2;
/// Compactions that are queued or running at once, at most.
pub(crate) const JOBS_MAX: usize = 4;
/// Parts that the budget is cut into.
const PARTS: u64 = 8;
/// No memtable is sealed below this, however small the budget is.
const MEMTABLE_BYTES_MIN: u64 = 4 << 10;

/// The shares, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySplit {
    /// A memtable is sealed above this.
    pub(crate) memtable_bytes: u64,
    /// What the cache may hold.
    pub(crate) cache_bytes: u64,
    /// What a flush or a compaction should take for its buffers.
    pub(crate) job_bytes: u64,
}

impl MemorySplit {
    /// The shares of a budget.
    pub(crate) fn of(limit: u64, options: &Options) -> Self {
        let part = limit / PARTS;
        let memtable_bytes = part.min(options.memtable_bytes_max).max(MEMTABLE_BYTES_MIN);
        let memtables = memtable_bytes.saturating_mul(SEALED_MAX as u64 + 1);
        let cache_bytes = limit.saturating_sub(memtables).saturating_sub(part);
        Self { memtable_bytes, cache_bytes, job_bytes: part / (JOBS_MAX as u64 + 1) }
    }
}
