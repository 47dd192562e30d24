//! Figures about the store.

use std::sync::atomic::Ordering::Relaxed;

use engine::Stats;

use crate::cold::Cold;
use crate::compaction::CompactionFigures;
use crate::hybrid_log::HybridLog;
use crate::store::Shared;

impl Shared {
    pub(crate) fn stats(&self) -> Stats {
        let index = self.hot.index.figures();
        let log = &self.hot.log;
        let cache = self.cache.figures();
        let recovery = &self.checkpoints.recovery;
        let (ghosts, moves) = (log.ghost_hits(), self.memory.split.moves());
        let mut detail = vec![
            ("charged_bytes", self.host.memory.used()),
            ("checkpoint", self.checkpoints.newest().number),
            ("recovered_checkpoint", recovery.checkpoint.number),
            ("checkpoints_in_part", self.checkpoints.marks.parts()),
            ("recovery_us", recovery.time.as_micros() as u64),
            ("recovery_hot_log_us", recovery.hot_log_time.as_micros() as u64),
            ("recovery_chunk_log_us", recovery.chunk_log_time.as_micros() as u64),
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
            ("memory_moves_to_digests", moves.to_digests),
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
            ("log_bytes", log.bytes()),
            ("log_disk_bytes", log.segments.disk_bytes()),
            ("ballast_bytes", self.admission.room.ballast.bytes()),
        ];
        let refuses = self.background_errors().iter().any(|error| error.refuses_writes);
        detail.push(("compactions_failing", self.compactions_failing()));
        detail.push(("writes_refused", u64::from(refuses)));
        self.compactions.hot.figures.tell(&HOT_NAMES, &mut detail);
        let mut memory_bytes = index.bytes + log.memory_bytes() + cache.bytes;
        if let Some(cold) = &self.cold {
            memory_bytes += report_cold(cold, &mut detail);
            self.compactions.cold.figures.tell(&COLD_NAMES, &mut detail);
        }
        let logs = self.logs().into_iter().flatten();
        let logs_disk_bytes: u64 = logs.map(|log| log.segments.disk_bytes()).sum();
        let snapshot = self.cold.as_ref().map_or(0, |cold| cold.index.figures().snapshot_bytes);
        let disk_bytes = logs_disk_bytes + snapshot;
        self.report_ratios(memory_bytes, disk_bytes, &mut detail);
        self.report_progress(&mut detail);
        Stats {
            live_keys: None,
            live_bytes: None,
            memory_bytes,
            disk_bytes: disk_bytes
                + engine::Superblock::FILE_BYTES
                + self.admission.room.ballast.bytes(),
            reserved: log.reserved(),
            waits: self.admission.long_waits(),
            detail,
            running: &RUNNING,
        }
    }

    /// Adds the memory, disk space and reads that a key takes.
    fn report_ratios(&self, memory_bytes: u64, disk_bytes: u64, detail: &mut Detail) {
        let chunks = self.cold.as_ref().map(|cold| cold.index.figures()).unwrap_or_default();
        let cold_keys = chunks.entries.saturating_sub(chunks.covered);
        // Nearly: chains of several keys count once, keys in both halves twice.
        let keys = cold_keys + self.hot.index.figures().entries;
        let (cache, digests) = (self.cache.figures(), self.digest_figures());
        let [lookups, reads, read_bytes] = self.lookups.get();
        detail.extend([
            ("memory_per_key_millibytes", per_thousand(memory_bytes, keys)),
            (
                "memory_per_cold_key_millibytes",
                per_thousand(chunks.directory_bytes, chunks.entries),
            ),
            ("read_cache_hits_permille", per_thousand(cache.hits, cache.hits + cache.misses)),
            (
                "chunk_digest_hits_permille",
                per_thousand(digests.found, digests.found + digests.read),
            ),
            ("lookups", lookups),
            ("lookup_reads", reads),
            ("lookup_read_bytes", read_bytes),
            ("reads_per_lookup_permille", per_thousand(reads, lookups)),
        ]);
        let written = |log: &HybridLog| log.segments.written_bytes();
        let mut appended = self.compactions.hot.figures.appended_since_opening(self.hot.log.tail());
        if self.cold.is_none() {
            // Live records were appended to the same log.
            appended =
                appended.saturating_sub(self.compactions.hot.figures.bytes_live.load(Relaxed));
        }
        let all_written: u64 = self.logs().into_iter().flatten().map(|log| written(log)).sum();
        detail.extend([
            ("appended_bytes", appended),
            ("log_written_bytes", written(&self.hot.log)),
            ("write_amplification_permille", per_thousand(all_written, appended)),
        ]);
        if let Some(cold) = &self.cold {
            let live = cold.log.bytes() as f64 * (1.0 - cold.dead_share());
            let live = live as u64 + self.hot.log.bytes();
            detail.extend([
                ("cold_log_written_bytes", written(&cold.log)),
                ("chunk_log_written_bytes", written(&cold.chunk_log)),
                ("cold_log_dead_permille", (cold.dead_share() * 1000.0) as u64),
                ("space_amplification_permille", per_thousand(disk_bytes, live)),
            ]);
        }
    }

    /// Adds how far the rounds in progress have advanced.
    fn report_progress(&self, detail: &mut Detail) {
        let (bytes, done) = self.compactions.hot.figures.progress();
        detail.extend([
            ("compaction_round_bytes", bytes),
            ("compaction_round_done_permille", per_thousand(done, bytes)),
        ]);
        if self.cold.is_some() {
            let (bytes, done) = self.compactions.cold.figures.progress();
            let (chunk_bytes, chunk_done) = self.compactions.chunks.figures.progress();
            detail.extend([
                ("cold_compaction_round_bytes", bytes),
                ("cold_compaction_round_done_permille", per_thousand(done, bytes)),
                ("chunk_compaction_round_bytes", chunk_bytes),
                ("chunk_compaction_round_done_permille", per_thousand(chunk_done, chunk_bytes)),
                ("chunk_compactions", self.compactions.chunks.figures.rounds.load(Relaxed)),
                (
                    "chunk_compaction_failures",
                    self.compactions.chunks.figures.failures.load(Relaxed),
                ),
            ]);
        }
    }
}

/// Adds the figures of the cold log and its index; returns the bytes of memory that they take.
fn report_cold(cold: &Cold, detail: &mut Detail) -> u64 {
    let (chunks, digests) = (cold.index.figures(), cold.index.digests.figures());
    detail.extend([
        ("cold_log_memory_bytes", cold.log.memory_bytes()),
        ("cold_log_begin", cold.log.begin().get()),
        ("cold_log_tail", cold.log.tail().get()),
        ("cold_log_bytes", cold.log.bytes()),
        ("cold_log_disk_bytes", cold.log.segments.disk_bytes()),
        ("chunk_log_disk_bytes", cold.chunk_log.segments.disk_bytes()),
        ("cold_index_level", u64::from(chunks.level)),
        ("cold_index_chunks", chunks.chunks),
        ("cold_index_entries", chunks.entries),
        ("cold_index_covered_entries", chunks.covered),
        ("cold_index_directory_bytes", chunks.directory_bytes),
        ("cold_index_directory_disk_bytes", chunks.snapshot_bytes),
        ("chunk_digest_bytes", digests.page_bytes + digests.slot_bytes),
        ("chunk_digest_bytes_allowed", digests.allowed),
        ("chunk_digest_hits", digests.found),
        ("chunk_digest_misses", digests.read),
        ("chunk_digests", digests.kept),
        ("chunk_digest_pass_bytes", cold.index.filled_bytes()),
        ("chunk_log_memory_bytes", chunks.log_memory_bytes),
        ("chunk_log_bytes", chunks.log_bytes),
        ("chunk_log_live_bytes", chunks.live_bytes),
    ]);
    let index = chunks.log_memory_bytes + chunks.directory_bytes;
    cold.log.memory_bytes() + index + digests.page_bytes + digests.slot_bytes
}

/// Figures by name.
type Detail = Vec<(&'static str, u64)>;

/// Figures that only a running store has.
const RUNNING: [&str; 52] = [
    "compactions_failing",
    "writes_refused",
    "log_ghost_reads",
    "log_ghost_appends",
    "memory_moves_to_log",
    "memory_moves_to_read_cache",
    "memory_moves_to_digests",
    "chunk_digest_bytes",
    "chunk_digest_bytes_allowed",
    "chunk_digest_hits",
    "chunk_digest_misses",
    "chunk_digests",
    "chunk_digest_pass_bytes",
    "read_cache_ghost_hits",
    "read_cache_hits",
    "read_cache_misses",
    "read_cache_inserted",
    "read_cache_second_chances",
    "read_cache_evicted",
    "read_cache_hits_permille",
    "chunk_digest_hits_permille",
    "lookups",
    "lookup_reads",
    "lookup_read_bytes",
    "reads_per_lookup_permille",
    "appended_bytes",
    "log_written_bytes",
    "cold_log_written_bytes",
    "chunk_log_written_bytes",
    "write_amplification_permille",
    "cold_log_dead_permille",
    "space_amplification_permille",
    "compaction_round_bytes",
    "compaction_round_done_permille",
    "cold_compaction_round_bytes",
    "cold_compaction_round_done_permille",
    "chunk_compaction_round_bytes",
    "chunk_compaction_round_done_permille",
    "chunk_compactions",
    "chunk_compaction_failures",
    "compactions",
    "compaction_failures",
    "compacted_bytes",
    "compacted_live_bytes",
    "compacted_records",
    "compacted_live_records",
    "cold_compactions",
    "cold_compaction_failures",
    "cold_compacted_bytes",
    "cold_compacted_live_bytes",
    "cold_compacted_records",
    "cold_compacted_live_records",
];

/// How many of `part` there are for a thousand of `whole`.
fn per_thousand(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 1000).checked_div(u128::from(whole)).unwrap_or_default() as u64
}

/// Names of the figures of compactions: rounds, failures, bytes and records that were read, and the
/// live bytes and records of these.
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
