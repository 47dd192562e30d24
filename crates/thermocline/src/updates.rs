//! Counts of the bytes that updates write.
//!
//! An update makes a key's new value of the present one: a merge, a read-modify-write, a compare-and-swap.
//! The journal and the engine get the whole new value, however short the operand is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::Op;

/// Updates of a keyspace, since the database was opened or the keyspace cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateStats {
    /// Values that updates have written; several merges of one key in one write make one.
    pub written: u64,
    /// Bytes of these, with their keys. They go through the journal if the keyspace is journaled.
    pub written_bytes: u64,
    /// Merges.
    pub merges: u64,
    /// Bytes of their operands, with their keys.
    pub operand_bytes: u64,
}

/// The counts while they grow.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    written: AtomicU64,
    written_bytes: AtomicU64,
    merges: AtomicU64,
    operand_bytes: AtomicU64,
}

impl Updates {
    /// Counts what an update has written.
    pub(crate) fn note_written(&self, op: &Op<'_>) {
        if let Op::Put { key, value } = op {
            self.note_put(key, value.len());
        }
    }

    /// Counts a value of `value_bytes` bytes that an update has put.
    pub(crate) fn note_put(&self, key: &[u8], value_bytes: usize) {
        self.written.fetch_add(1, Relaxed);
        self.written_bytes.fetch_add((key.len() + value_bytes) as u64, Relaxed);
    }

    /// Counts a merge.
    pub(crate) fn note_merge(&self, key: &[u8], operand: &[u8]) {
        self.merges.fetch_add(1, Relaxed);
        self.operand_bytes.fetch_add((key.len() + operand.len()) as u64, Relaxed);
    }

    pub(crate) fn stats(&self) -> UpdateStats {
        UpdateStats {
            written: self.written.load(Relaxed),
            written_bytes: self.written_bytes.load(Relaxed),
            merges: self.merges.load(Relaxed),
            operand_bytes: self.operand_bytes.load(Relaxed),
        }
    }
}
