//! Counts of the device reads that lookups have made.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the store was opened. Compared with a read of the device they cost nothing.
#[derive(Debug, Default)]
pub(crate) struct LookUpReads {
    look_ups: AtomicU64,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl LookUpReads {
    /// Counts a read of `bytes`.
    pub(super) fn note_read(&self, bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts a lookup that needed the device and has its result.
    pub(super) fn note_end(&self) {
        self.look_ups.fetch_add(1, Relaxed);
    }

    /// Lookups that needed the device, their reads, and the bytes of these.
    pub(crate) fn get(&self) -> [u64; 3] {
        [&self.look_ups, &self.reads, &self.bytes].map(|count| count.load(Relaxed))
    }
}
