//! Data with which a host moves memory between engines.

/// Bytes of I/O that a read of the device counts as: a block.
const READ_BYTES: u64 = 4096;
/// The budget divided by this is the reach of an engine's ghosts.
const REACH_SHARE: u64 = 16;

/// An engine's memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNeeds {
    /// The least budget that it can have at present, in bytes: it works within that, and can
    /// release the rest.
    pub least_bytes: u64,
    /// The largest budget that it has a use for, in bytes.
    pub most_bytes: u64,
    /// Whether it uses no more than its budget: after the budget was reduced, whether the memory is
    /// released.
    pub is_within_limit: bool,
    /// The I/O that more memory would have saved.
    pub gain: MemoryGain,
}

/// The I/O that more memory would have saved an engine, which has counted since it was opened.
///
/// It means the same for every engine: the I/O of keys and blocks that were recently in memory, had
/// to be read again, and would have been there still. An engine with all data in memory gains
/// nothing, and neither does one that never reads a block twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryGain {
    /// Bytes of I/O that `reach_bytes` more would have saved so far, of which a read of the device
    /// is a block of 4 KiB at least.
    pub saved_bytes: u64,
    /// How much more memory that is about, in bytes of the budget.
    pub reach_bytes: u64,
}

impl MemoryGain {
    /// Returns the gain of `reads` reads of blocks, with the usual reach for a budget of `limit`
    /// bytes.
    pub fn of_reads(reads: u64, limit: u64) -> Self {
        let saved_bytes = reads.saturating_mul(READ_BYTES);
        Self { saved_bytes, reach_bytes: Self::reach(limit) }
    }

    /// Returns the usual reach for a budget of `limit` bytes.
    pub fn reach(limit: u64) -> u64 {
        limit / REACH_SHARE
    }

    /// Returns the number of blocks as which a read of `bytes` bytes counts.
    pub fn blocks(bytes: u64) -> u64 {
        bytes.div_ceil(READ_BYTES)
    }
}
