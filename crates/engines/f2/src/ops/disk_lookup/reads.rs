//! Counts of the device reads that lookups have made.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the store was opened. Compared with a read of the device they cost nothing.
#[derive(Debug, Default)]
pub(crate) struct LookupReads {
    lookups: AtomicU64,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl LookupReads {
    /// Notes a read of `bytes` bytes.
    pub(crate) fn note_read(&self, bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Notes the end of a lookup that needed the device.
    pub(crate) fn note_end(&self) {
        self.lookups.fetch_add(1, Relaxed);
    }

    /// Returns the lookups that needed the device, their reads, and the bytes of these.
    pub(crate) fn get(&self) -> [u64; 3] {
        [&self.lookups, &self.reads, &self.bytes].map(|count| count.load(Relaxed))
    }
}
