//! The options of a store.

/// Options of the engine `memory`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of pairs after which a snapshot's block is written. The device gets a block as one
    /// write, and when the store is opened, a core loads a block at a time. A flush takes the
    /// memory of about four blocks, which counts against the budget while it runs: use less if the
    /// budget is a few megabytes. Default: 1 MiB.
    pub snapshot_block_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { snapshot_block_bytes: 1 << 20 }
    }
}
