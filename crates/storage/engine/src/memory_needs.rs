//! What a host has to know of engines to move memory between them.

/// Bytes of I/O that a read of the device counts as: a block.
const READ_BYTES: u64 = 4096;
/// The reach of an engine's ghosts: one part in so many of its budget.
const REACH_SHARE: u64 = 16;

/// An engine's memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNeeds {
    /// The least budget that it can have at present, in bytes: it works within that, and can let go
    /// what is above.
    pub least_bytes: u64,
    /// The largest budget that it has a use for, in bytes.
    pub most_bytes: u64,
    /// Whether it takes no more than its budget: once that was made smaller, that the memory is back.
    pub is_settled: bool,
    /// What more memory would have saved.
    pub gain: MemoryGain,
}

/// What more memory would have saved an engine, which has counted since it was opened.
///
/// It means the same for every engine: the I/O of keys and blocks that were in memory not long ago,
/// had to be read again, and would have been there still. An engine of which all is in memory, and one
/// that reads what it never reads twice, gain nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryGain {
    /// Bytes of I/O that `reach_bytes` more would have saved so far, of which a read of the device is
    /// a block of 4 KiB at least.
    pub saved_bytes: u64,
    /// How much more memory that is about, in bytes of the budget.
    pub reach_bytes: u64,
}

impl MemoryGain {
    /// So many reads of blocks were in vain, with the reach that is usual for a budget of `limit` bytes.
    pub fn of_reads(reads: u64, limit: u64) -> Self {
        let saved_bytes = reads.saturating_mul(READ_BYTES);
        Self { saved_bytes, reach_bytes: Self::reach(limit) }
    }

    /// The usual reach for a budget of `limit` bytes.
    pub fn reach(limit: u64) -> u64 {
        limit / REACH_SHARE
    }

    /// Blocks that a read of so many bytes counts as.
    pub fn blocks(bytes: u64) -> u64 {
        bytes.div_ceil(READ_BYTES)
    }
}
