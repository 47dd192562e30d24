//! Counts of the background work that was done, and of ingestions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Flushes, merges, compactions and ingestions since the store was opened, and their bytes.
#[derive(Debug, Default)]
pub(crate) struct JobCounts {
    pub(crate) flushes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compacted_read_bytes: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) moves: AtomicU64,
    pub(crate) drops: AtomicU64,
    pub(crate) ingestions: AtomicU64,
    pub(crate) ingested_bytes: AtomicU64,
}

impl JobCounts {
    /// Counts a flush that wrote `bytes` bytes.
    pub(crate) fn note_flush(&self, bytes: u64) {
        self.flushes.fetch_add(1, Relaxed);
        self.flushed_bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts the bytes of a compaction, which may fail yet.
    pub(crate) fn note_compacted(&self, read: u64, written: u64) {
        self.compacted_read_bytes.fetch_add(read, Relaxed);
        self.compacted_bytes.fetch_add(written, Relaxed);
    }

    /// Counts an ingestion of tables of `bytes` bytes.
    pub(crate) fn note_ingestion(&self, bytes: u64) {
        self.ingestions.fetch_add(1, Relaxed);
        self.ingested_bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns the bytes that flushes and ingestions have added.
    pub(crate) fn added_bytes(&self) -> u64 {
        self.flushed_bytes.load(Relaxed) + self.ingested_bytes.load(Relaxed)
    }
}
