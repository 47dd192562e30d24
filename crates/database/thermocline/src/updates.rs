//! Counts of the bytes that updates write.
//!
//! An update makes a key's new value of the present one: a merge, a read-modify-write, a
//! compare-and-swap. The journal and the engine get the whole new value, however short the operand
//! is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::Op;
use telemetry::Shards;

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

/// The counts while they grow. Threads that update do not share a cache line.
#[derive(Debug)]
pub(crate) struct Updates(Shards<Counts>);

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    written_bytes: AtomicU64,
    merges: AtomicU64,
    operand_bytes: AtomicU64,
}

impl Default for Updates {
    fn default() -> Self {
        Self(Shards::new(Counts::default))
    }
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
        let counts = self.0.mine();
        counts.written.fetch_add(1, Relaxed);
        counts.written_bytes.fetch_add((key.len() + value_bytes) as u64, Relaxed);
    }

    /// Counts a merge.
    pub(crate) fn note_merge(&self, key: &[u8], operand: &[u8]) {
        let counts = self.0.mine();
        counts.merges.fetch_add(1, Relaxed);
        counts.operand_bytes.fetch_add((key.len() + operand.len()) as u64, Relaxed);
    }

    pub(crate) fn stats(&self) -> UpdateStats {
        let sum = |count: fn(&Counts) -> &AtomicU64| {
            self.0.iter().map(|counts| count(counts).load(Relaxed)).sum()
        };
        UpdateStats {
            written: sum(|counts| &counts.written),
            written_bytes: sum(|counts| &counts.written_bytes),
            merges: sum(|counts| &counts.merges),
            operand_bytes: sum(|counts| &counts.operand_bytes),
        }
    }
}
