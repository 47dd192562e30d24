//! Reads of the device that look-ups have taken, counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts since the store was opened. Beside a read of the device they cost nothing.
#[derive(Debug, Default)]
pub(crate) struct LookUpReads {
    look_ups: AtomicU64,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl LookUpReads {
    /// A read of so many bytes.
    pub(super) fn note_read(&self, bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// A look-up that needed the device has its answer.
    pub(super) fn note_end(&self) {
        self.look_ups.fetch_add(1, Relaxed);
    }

    /// Look-ups that needed the device, their reads, and the bytes of these.
    pub(crate) fn get(&self) -> [u64; 3] {
        [&self.look_ups, &self.reads, &self.bytes].map(|count| count.load(Relaxed))
    }
}
