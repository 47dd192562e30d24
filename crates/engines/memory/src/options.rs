//! What may be chosen about a store.

/// Options of a [`crate::Store`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of pairs after which a snapshot's block is written; a block is what the device is given
    /// at once, and what a core loads at once when the store is opened. A flush takes the memory of
    /// about four, which counts against the budget while it runs: take less where the budget is a
    /// few megabytes. Default: 1 MiB.
    pub snapshot_block_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { snapshot_block_bytes: 1 << 20 }
    }
}
