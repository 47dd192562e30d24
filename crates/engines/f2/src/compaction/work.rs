//! Memory that all compactions together may have in addition to the pages that they read: a part of
//! the store's budget, the same for all, since they run concurrently.

/// Bytes for each kind of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Notes of hot-to-cold compaction before it changes the cold index.
    pub(crate) notes: u64,
    /// Data of cold-to-cold compaction about the records of a piece.
    pub(crate) piece: u64,
    /// Reads of one thread that are in flight at the same time.
    pub(crate) flight: u64,
}

impl Work {
    /// Splits `bytes` in all, for compactions of `threads` threads each.
    pub(crate) fn of(bytes: u64, threads: usize) -> Self {
        // Threads of the hot log's compaction, one of the cold log's, one of the chunk log's.
        let threads = threads as u64 + 2;
        Self {
            notes: (bytes / 2).max(1),
            piece: (bytes / 4).max(1),
            flight: (bytes / 4 / threads).max(1),
        }
    }
}
