//! How the budget is shared out: memtables, the cache, and what flushes and compactions work with.
//!
//! Memtables may take three eighths: for each slot of the Dranges the one that is written to, and
//! the same number and one more that wait for their flush. The number of slots is limited so that
//! memtables are large. Each flush and compaction has a fortieth for its buffers, up to a size
//! above which longer reads and writes gain nothing. The cache has the rest, and shrinks if another
//! part takes more. It also has the memory that memtables leave of their share, except for one
//! memtable: a store that is only read has nothing in memtables.
//!
//! A table's size depends on the budget too: its metadata have to fit the cache, and its builder
//! remembers eight bytes of each key.

use crate::options::{Options, Routing};

/// Parts of the budget that memtables may take.
const MEMTABLE_PARTS: u64 = 3;
/// Level 0 counts bytes in parts of the memtables' share.
const LEVEL0_UNITS: u64 = 3;
/// With more than one slot, no memtable is smaller than this: a table of it should be worth its
/// syncs.
const SLOT_BYTES_MIN: u64 = 2 << 20;
/// Most compactions that may be queued or running at the same time.
pub(crate) const JOBS_MAX: usize = 4;
/// Parts that the budget is cut into.
const PARTS: u64 = 8;
/// Bytes of buffers of one flush or compaction, at most.
const JOB_BYTES_MAX: u64 = 12 << 20;
/// Parts of the budget of which the lookup index may be one.
const LOOKUP_INDEX_PARTS: u64 = 64;
/// Parts of the budget of which a table's data may be one.
const TABLE_PARTS: u64 = 16;
/// No table that a compaction writes ends below this, however small the budget is: each is a file.
const TABLE_BYTES_MIN: u64 = 2 << 20;
/// Level 1 may hold the memtables' share this number of times. Then it is about as large as Level 0
/// when all of that is due, and two levels of equal size cost the least.
const LEVEL1_TIMES: u64 = 2;
/// Level 1 may hold this, however small the budget is.
const LEVEL1_BYTES_MIN: u64 = 8 << 20;
/// No memtable is sealed below this, however small the budget is.
const MEMTABLE_BYTES_MIN: u64 = 4 << 10;

/// The shares, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemorySplit {
    /// Memtables that are written to at the same time.
    pub(crate) slots: usize,
    /// A memtable is sealed above this.
    pub(crate) memtable_bytes: u64,
    /// Bytes that all memtables may take before writers wait for flushes.
    pub(crate) memtables_bytes: u64,
    /// A table that a compaction writes ends above this.
    pub(crate) table_bytes: u64,
    /// Bytes that Level 1 should hold at most.
    pub(crate) level1_bytes: u64,
    /// Bytes that the cache may hold, whatever memtables take.
    pub(crate) cache_bytes: u64,
    /// Bytes that the lookup index may take.
    pub(crate) lookup_index_bytes: u64,
    /// Bytes that a flush or a compaction should take for its buffers.
    pub(crate) job_bytes: u64,
}

impl MemorySplit {
    /// The shares of a budget.
    pub(crate) fn of(limit: u64, options: &Options) -> Self {
        let part = limit / PARTS;
        let share = MEMTABLE_PARTS * part;
        let slots = slots(share, options);
        let count = 2 * slots as u64 + 1;
        let memtable_bytes =
            (share / count).min(options.memtable_bytes_max).max(MEMTABLE_BYTES_MIN);
        let table_bytes = options.table_bytes.min((limit / TABLE_PARTS).max(TABLE_BYTES_MIN));
        let memtables_bytes = memtable_bytes.saturating_mul(count);
        let level1_bytes = match options.level1_bytes {
            0 => memtables_bytes.saturating_mul(LEVEL1_TIMES).max(LEVEL1_BYTES_MIN),
            set => set,
        };
        let jobs = JOBS_MAX as u64 + 1;
        let job_bytes = (part / jobs).min(JOB_BYTES_MAX);
        let cache_bytes = limit.saturating_sub(memtables_bytes).saturating_sub(job_bytes * jobs);
        let lookup_index_bytes = (limit / LOOKUP_INDEX_PARTS).min(options.lookup_index_bytes_max);
        let cache_bytes = cache_bytes.saturating_sub(lookup_index_bytes);
        Self {
            lookup_index_bytes,
            slots,
            memtable_bytes,
            memtables_bytes,
            table_bytes,
            level1_bytes,
            cache_bytes,
            job_bytes,
        }
    }

    /// Returns the bytes that the cache may hold while memtables take `memtables` bytes.
    pub(crate) fn cache_beside(&self, memtables: u64) -> u64 {
        let left = self.memtables_bytes.saturating_sub(memtables);
        self.cache_bytes + left.saturating_sub(self.memtable_bytes)
    }

    /// Returns the bytes that count as one table of Level 0, if bytes are counted.
    pub(crate) fn level0_unit(&self) -> u64 {
        self.memtables_bytes / LEVEL0_UNITS
    }
}

/// How many memtables of a worthwhile size, twice and one more, fit the share.
fn slots(share: u64, options: &Options) -> usize {
    if options.routing == Routing::One {
        return 1;
    }
    let fit = share / SLOT_BYTES_MIN.min(options.memtable_bytes_max).max(MEMTABLE_BYTES_MIN);
    (fit.saturating_sub(1) / 2).clamp(1, options.slots_max.max(1) as u64) as usize
}
