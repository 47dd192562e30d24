//! Figures about the store.

use std::sync::atomic::Ordering::Relaxed;

use engine::Stats;

use crate::compaction::CompactionFigures;
use crate::store::Shared;

impl Shared {
    pub(crate) fn stats(&self) -> Stats {
        let index = self.index.figures();
        let log = &self.log;
        let cache = self.cache.figures();
        let (ghosts, moves) = (log.ghost_hits(), self.split.moves());
        let mut detail = vec![
            ("charged_bytes", self.host.memory.used()),
            ("checkpoint", self.newest_checkpoint.read().number),
            ("recovered_checkpoint", self.recovered.number),
            ("recovery_us", self.recovery_time.as_micros() as u64),
            ("index_bytes", index.bytes),
            ("index_buckets", index.buckets),
            ("index_overflow_buckets", index.overflow_buckets),
            ("index_chains", index.entries),
            ("log_memory_bytes", log.memory_bytes()),
            ("log_pages", log.frames()),
            ("log_ghost_reads", ghosts.reads),
            ("log_ghost_appends", ghosts.appends),
            ("memory_moves_to_log", moves.to_log),
            ("memory_moves_to_read_cache", moves.to_cache),
            ("read_cache_bytes", cache.bytes),
            ("read_cache_pages", cache.pages),
            ("read_cache_ghost_hits", cache.ghost_hits),
            ("read_cache_hits", cache.hits),
            ("read_cache_misses", cache.misses),
            ("read_cache_inserted", cache.inserted),
            ("read_cache_second_chances", cache.second_chances),
            ("read_cache_evicted", cache.evicted),
            ("log_begin", log.begin().get()),
            ("log_head", log.head().get()),
            ("log_read_only", log.read_only().get()),
            ("log_tail", log.tail().get()),
        ];
        let troubles = self.troubles();
        let refuses = troubles.iter().any(|trouble| trouble.refuses_writes);
        detail.push(("compactions_failing", troubles.len() as u64));
        detail.push(("writes_refused", u64::from(refuses)));
        self.hot_figures.tell(&HOT_NAMES, &mut detail);
        let mut memory_bytes = index.bytes + log.memory_bytes() + cache.bytes;
        if let Some(cold) = &self.cold {
            let chunks = cold.index.figures();
            detail.extend([
                ("cold_log_memory_bytes", cold.log.memory_bytes()),
                ("cold_log_begin", cold.log.begin().get()),
                ("cold_log_tail", cold.log.tail().get()),
                ("cold_index_level", u64::from(chunks.level)),
                ("cold_index_chunks", chunks.chunks),
                ("cold_index_entries", chunks.entries),
                ("cold_index_covered_entries", chunks.covered),
                ("cold_index_directory_bytes", chunks.directory_bytes),
                ("chunk_log_memory_bytes", chunks.log_memory_bytes),
                ("chunk_log_bytes", chunks.log_bytes),
                ("chunk_log_live_bytes", chunks.live_bytes),
            ]);
            self.cold_figures.tell(&COLD_NAMES, &mut detail);
            memory_bytes +=
                cold.log.memory_bytes() + chunks.log_memory_bytes + chunks.directory_bytes;
        }
        let logs = self.logs().into_iter().flatten();
        let log_disk_bytes: u64 = logs.map(|log| log.segments.disk_bytes()).sum();
        Stats {
            live_keys: None,
            live_bytes: None,
            memory_bytes,
            disk_bytes: log_disk_bytes + engine::Superblock::FILE_BYTES,
            detail,
        }
    }
}

/// What the figures of compactions are called: rounds, failures, bytes and records that were read,
/// and of these what lived.
type Names = [&'static str; 6];

const HOT_NAMES: Names = [
    "compactions",
    "compaction_failures",
    "compacted_bytes",
    "compacted_live_bytes",
    "compacted_records",
    "compacted_live_records",
];
const COLD_NAMES: Names = [
    "cold_compactions",
    "cold_compaction_failures",
    "cold_compacted_bytes",
    "cold_compacted_live_bytes",
    "cold_compacted_records",
    "cold_compacted_live_records",
];

impl CompactionFigures {
    fn tell(&self, names: &Names, detail: &mut Vec<(&'static str, u64)>) {
        let figures = [
            &self.rounds,
            &self.failures,
            &self.bytes,
            &self.bytes_live,
            &self.records,
            &self.records_live,
        ];
        detail
            .extend(names.iter().zip(figures).map(|(name, figure)| (*name, figure.load(Relaxed))));
    }
}
