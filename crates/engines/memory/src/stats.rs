//! Figures about a store.

use std::sync::atomic::Ordering::Relaxed;

use engine::Stats;

use crate::store::Shared;

impl Shared {
    /// Figures about the store, at the cost of some loads.
    pub(crate) fn stats(&self) -> Stats {
        let leaves = self.map.leaves();
        let last = &self.last_snapshot;
        let snapshot_bytes = last.bytes.load(Relaxed);
        Stats {
            live_keys: Some(self.map.tally.keys()),
            live_bytes: Some(self.map.tally.bytes()),
            memory_bytes: self.map.memory(),
            disk_bytes: snapshot_bytes + engine::Superblock::FILE_BYTES,
            reserved: self.reserved.load(Relaxed),
            waits: Vec::new(),
            detail: vec![
                ("leaves", leaves.leaves),
                ("splits", leaves.splits),
                ("merges", leaves.merges),
                ("scanned_dead_entries", self.scanned_dead.load(Relaxed)),
                ("snapshots_written", last.count.load(Relaxed)),
                ("snapshot_bytes", snapshot_bytes),
                ("snapshot_pairs", last.pairs.load(Relaxed)),
                ("snapshot_micros", last.micros.load(Relaxed)),
            ],
            running: &[
                "splits",
                "merges",
                "scanned_dead_entries",
                "snapshots_written",
                "snapshot_micros",
            ],
        }
    }
}
