//! Figures about the store.

use std::sync::atomic::Ordering::Relaxed;

use engine::Stats;

use crate::store::Shared;

impl Shared {
    pub(crate) fn stats(&self) -> Stats {
        let index = self.index.figures();
        let compaction = &self.compaction_figures;
        let log = &self.log;
        let log_bytes = log.memory_bytes();
        Stats {
            live_keys: None,
            live_bytes: None,
            memory_bytes: index.bytes + log_bytes,
            disk_bytes: log.segments.disk_bytes() + engine::Superblock::FILE_BYTES,
            detail: vec![
                ("index_bytes", index.bytes),
                ("index_buckets", index.buckets),
                ("index_overflow_buckets", index.overflow_buckets),
                ("index_chains", index.entries),
                ("log_memory_bytes", log_bytes),
                ("compactions", compaction.rounds.load(Relaxed)),
                ("compaction_failures", compaction.failures.load(Relaxed)),
                ("compacted_bytes", compaction.bytes.load(Relaxed)),
                ("compacted_live_bytes", compaction.bytes_live.load(Relaxed)),
                ("compacted_records", compaction.records.load(Relaxed)),
                ("compacted_live_records", compaction.records_live.load(Relaxed)),
                ("log_begin", log.begin().get()),
                ("log_head", log.head().get()),
                ("log_read_only", log.read_only().get()),
                ("log_tail", log.tail().get()),
            ],
        }
    }
}
