//! Figures about a store.

use std::sync::atomic::Ordering::Relaxed;

use engine::Stats;

use crate::dranges::Dranges;
use crate::store::Shared;
use lsm_tree::version::LEVELS;

/// The figures of each level, by its number.
const LEVEL_TABLES: [&str; LEVELS] = [
    "level0_tables",
    "level1_tables",
    "level2_tables",
    "level3_tables",
    "level4_tables",
    "level5_tables",
    "level6_tables",
];
const LEVEL_BYTES: [&str; LEVELS] = [
    "level0_bytes",
    "level1_bytes",
    "level2_bytes",
    "level3_bytes",
    "level4_bytes",
    "level5_bytes",
    "level6_bytes",
];

/// Figures that only a running store has.
const RUNNING: [&str; 33] = [
    "put_share_deviation_ppm",
    "reorganisations_minor",
    "reorganisations_major",
    "reorganisations_early",
    "cache_hits",
    "cache_misses",
    "cache_metadata_misses",
    "cache_ghost_hits",
    "led_to_memtables",
    "led_to_tables",
    "filtered",
    "searched",
    "searched_in_vain",
    "flushes",
    "flushed_bytes",
    "memtable_merges",
    "compactions",
    "compactions_under_way",
    "compactions_failed",
    "compacted_read_bytes",
    "compacted_bytes",
    "idle_compactions",
    "idle_compacted_bytes",
    "scanned_dead_entries",
    "moves",
    "drops",
    "ingestions",
    "ingested_bytes",
    "block_bytes",
    "block_bytes_stored",
    "zstd_mistakes",
    "slowed_nanos",
    "stalls",
];

/// The causes of long waits of writers.
const ROOM: &str = "room in memtables or in Level 0";
const COMPACTIONS: &str = "compactions that are behind";

impl Shared {
    /// Returns figures about the store. Visits every table's summary.
    pub(crate) fn stats(&self) -> Stats {
        let state = self.state.load_full();
        let memtable_bytes = state.memtables().map(|memtable| memtable.bytes()).sum::<u64>();
        let (hits, misses) = self.cache.hits_and_misses();
        let (background, lookups) = (&self.background, &self.lookups.counts);
        let counts = &background.counts;
        let mut detail = vec![
            ("memtables", state.memtables().count() as u64),
            ("dranges", state.dranges.all().len() as u64),
            ("drange_slots", state.dranges.slots() as u64),
            ("put_share_deviation_ppm", put_share_deviation_ppm(&state.dranges)),
            ("reorganisations_minor", background.reorganiser.minor.load(Relaxed)),
            ("reorganisations_major", background.reorganiser.major.load(Relaxed)),
            ("reorganisations_early", background.reorganiser.early.load(Relaxed)),
            ("memtable_bytes", memtable_bytes),
            ("spare_bytes", self.memtables.memory().spare_bytes()),
            ("memtable_entries", state.memtables().map(|memtable| memtable.len() as u64).sum()),
            ("cache_bytes", self.cache.bytes()),
            ("cache_held_bytes", self.cache.held_bytes()),
            ("cache_hits", hits),
            ("cache_misses", misses),
            ("cache_metadata_misses", self.cache.metadata_misses()),
            ("cache_ghost_hits", self.cache.ghost_hits()),
            ("pair_bytes", self.cache.pairs().bytes()),
            ("pair_hits", self.cache.pairs().hits()),
            ("lookup_index_bytes", self.lookups.index.load().bytes()),
            ("led_to_memtables", lookups.led.load(Relaxed)),
            ("led_to_tables", lookups.led_to_tables.load(Relaxed)),
            ("filtered", lookups.filtered.load(Relaxed)),
            ("searched", lookups.searched.load(Relaxed)),
            ("searched_in_vain", lookups.mistaken.load(Relaxed)),
            ("flushes", counts.flushes.load(Relaxed)),
            ("flushed_bytes", counts.flushed_bytes.load(Relaxed)),
            ("memtable_merges", counts.merges.load(Relaxed)),
            ("compactions", counts.compactions.load(Relaxed)),
            ("compactions_under_way", self.compactions_under_way() as u64),
            ("compactions_failed", self.compactions_failed() as u64),
            ("compacted_read_bytes", counts.compacted_read_bytes.load(Relaxed)),
            ("compacted_bytes", counts.compacted_bytes.load(Relaxed)),
            ("idle_compactions", background.idle.compactions.load(Relaxed)),
            ("idle_compacted_bytes", background.idle.bytes.load(Relaxed)),
            ("scanned_dead_entries", background.dead_runs.steps()),
            ("moves", counts.moves.load(Relaxed)),
            ("drops", counts.drops.load(Relaxed)),
            ("ingestions", counts.ingestions.load(Relaxed)),
            ("ingested_bytes", counts.ingested_bytes.load(Relaxed)),
            ("block_bytes", background.tally.block_bytes.load(Relaxed)),
            ("block_bytes_stored", background.tally.stored_bytes.load(Relaxed)),
            ("zstd_mistakes", background.tally.mistakes.load(Relaxed)),
            ("range_deletes", state.deletes.all.len() as u64),
            ("range_delete_bytes", state.deletes.all.memory()),
            ("slowed_nanos", self.admission.writers.slowed_nanos()),
            ("stalls", self.admission.writers.stalls()),
        ];
        let mut disk_bytes = engine::Superblock::FILE_BYTES;
        for (level, (tables, bytes)) in LEVEL_TABLES.into_iter().zip(LEVEL_BYTES).enumerate() {
            disk_bytes += state.version.level_bytes(level);
            detail.push((tables, state.version.level(level).len() as u64));
            detail.push((bytes, state.version.level_bytes(level)));
        }
        let of_cache = self.cache.bytes() + self.cache.ghost_bytes() + self.cache.pairs().bytes();
        Stats {
            live_keys: None,
            live_bytes: None,
            memory_bytes: memtable_bytes
                + self.memtables.memory().spare_bytes()
                + of_cache
                + self.lookups.index.load().bytes(),
            disk_bytes,
            reserved: self.memtables.memory().reservations(),
            waits: self.admission.writers.long_waits(ROOM, COMPACTIONS).to_vec(),
            detail,
            running: &RUNNING,
        }
    }
}

/// Returns the standard deviation of the slots' shares of puts. It counts the puts since the
/// Dranges were made; the older ones count less.
fn put_share_deviation_ppm(dranges: &Dranges) -> u64 {
    let layout = dranges.layout();
    (layout.imbalance() / layout.slots().max(1) as f64 * 1e6).round() as u64
}
