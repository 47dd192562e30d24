//! What may be chosen about a store.

/// Options of a [`crate::Store`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of pairs after which a snapshot's block is written: the size of its writes, and about
    /// a third of the memory that a flush takes. Larger blocks help disks with long latencies;
    /// tests take small ones to have many. Default: 1 MiB.
    pub snapshot_block_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { snapshot_block_bytes: 1 << 20 }
    }
}
