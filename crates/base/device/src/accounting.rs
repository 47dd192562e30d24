//! Every byte and every operation, counted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::error::Result;

/// Counters of one device. Reading them costs writers nothing.
#[derive(Debug, Default)]
pub struct Accounting {
    read_ops: AtomicU64,
    read_bytes: AtomicU64,
    write_ops: AtomicU64,
    write_bytes: AtomicU64,
    syncs: AtomicU64,
    has_failed: AtomicBool,
}

/// Counts of the reads, writes and syncs of a device at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Reads that reached the device.
    pub read_ops: u64,
    /// Bytes they asked for.
    pub read_bytes: u64,
    /// Writes that reached the device.
    pub write_ops: u64,
    /// Bytes they carried.
    pub write_bytes: u64,
    /// Syncs of files and directories.
    pub syncs: u64,
}

impl Accounting {
    /// Counts one read.
    pub fn read(&self, bytes: usize) {
        self.read_ops.fetch_add(1, Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts one write.
    pub fn wrote(&self, bytes: usize) {
        self.write_ops.fetch_add(1, Relaxed);
        self.write_bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts one sync.
    pub fn synced(&self) {
        self.syncs.fetch_add(1, Relaxed);
    }

    /// Notes that a write or a sync failed for a reason that does not pass: from then on it is
    /// unknown which of the bytes that can be read are on the storage.
    pub fn note_failure(&self) {
        self.has_failed.store(true, Relaxed);
    }

    /// Returns whether a write or a sync has failed so.
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Relaxed)
    }

    /// Notes how a write or a sync has ended.
    pub(crate) fn ended<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.as_ref().is_err_and(|error| !error.is_retryable()) {
            self.note_failure();
        }
        outcome
    }

    /// The counts so far.
    pub fn counts(&self) -> IoCounts {
        IoCounts {
            read_ops: self.read_ops.load(Relaxed),
            read_bytes: self.read_bytes.load(Relaxed),
            write_ops: self.write_ops.load(Relaxed),
            write_bytes: self.write_bytes.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
        }
    }
}
