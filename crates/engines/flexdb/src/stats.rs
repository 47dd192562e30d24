//! Figures about a store.

use std::sync::atomic::Ordering::Relaxed;

use engine::Stats;

use crate::store::Shared;

/// Figures that only a running store knows.
const RUNNING: [&str; 28] = [
    "cache_hits",
    "cache_misses",
    "cache_ghost_hits",
    "pair_hits",
    "commits",
    "committed_memtables",
    "committed_pairs",
    "replaced_versions",
    "intervals_appended",
    "bytes_appended",
    "intervals_in_place",
    "intervals_rewritten",
    "bytes_rewritten",
    "intervals_rewritten_for_scans",
    "bytes_written_for_scans",
    "intervals_defragmented",
    "bytes_defragmented",
    "intervals_joined",
    "intervals_coarsened",
    "damaged_updates",
    "collected_segments",
    "collected_bytes",
    "changes_broken_off",
    "room_made",
    "relieved_pairs",
    "scanned_dead_entries",
    "opening_keys",
    "stalls",
];

impl Shared {
    /// Figures about the store. Those of the space are of before, while a commit is under way.
    pub(crate) fn stats(&self) -> Stats {
        let state = self.state.load_full();
        let state = state.as_ref();
        let memtables = || state.into_iter().flat_map(|state| state.memtables());
        let (index, blocks) = (self.index_memory.bytes(), self.cache.memory.bytes());
        let (pairs, ghosts) = (self.cache.pairs.bytes(), self.cache.ghost_bytes());
        let memtable_bytes = self.writes.memory_bytes();
        let space = self.figures.of_space(&self.space);
        let counts = &self.figures.counts;
        let segment_bytes = self.figures.segment_bytes();
        let detail = vec![
            ("memtables", memtables().count() as u64),
            ("memtable_bytes", memtable_bytes),
            ("memtable_entries", memtables().map(|memtable| memtable.len() as u64).sum()),
            ("index_bytes", index),
            ("cache_bytes", blocks),
            ("cache_hits", self.cache.hits.load(Relaxed)),
            ("cache_misses", self.cache.misses.load(Relaxed)),
            ("cache_ghost_hits", self.cache.ghost_hits()),
            ("pair_bytes", pairs),
            ("pair_hits", self.cache.pairs.hits()),
            ("pinned_bases", state.map_or(0, |state| state.pinned.len() as u64)),
            ("commits", counts.commits.load(Relaxed)),
            ("committed_memtables", counts.committed_memtables.load(Relaxed)),
            ("committed_pairs", counts.committed_pairs.load(Relaxed)),
            ("replaced_versions", counts.replaced.load(Relaxed)),
            ("intervals_appended", counts.blind.load(Relaxed)),
            ("bytes_appended", counts.appended_bytes.load(Relaxed)),
            ("intervals_in_place", counts.in_place.load(Relaxed)),
            ("intervals_rewritten", counts.rewritten.load(Relaxed)),
            ("bytes_rewritten", counts.rewritten_bytes.load(Relaxed)),
            ("intervals_rewritten_for_scans", counts.rewritten_for_scans.load(Relaxed)),
            ("bytes_written_for_scans", counts.written_for_scans.load(Relaxed)),
            ("intervals_defragmented", counts.defragmented.load(Relaxed)),
            ("bytes_defragmented", counts.defragmented_bytes.load(Relaxed)),
            ("intervals_joined", counts.joined.load(Relaxed)),
            ("intervals_coarsened", counts.coarsened.load(Relaxed)),
            ("damaged_updates", counts.damaged.load(Relaxed)),
            ("changes_broken_off", counts.broken_off.load(Relaxed)),
            ("room_made", counts.room_made.load(Relaxed)),
            ("relieved_pairs", counts.relieved_pairs.load(Relaxed)),
            ("collected_segments", counts.collected_segments.load(Relaxed)),
            ("collected_bytes", counts.collected_bytes.load(Relaxed)),
            ("scanned_dead_entries", self.background.reclaim.dead_runs.steps()),
            ("opening_keys", counts.opening_keys),
            ("stalls", self.writes.writers.stalls()),
            ("space_bytes", space.len),
            ("used_segments", space.used_segments),
            ("free_segments", space.free_segments),
            ("held_segments", space.held_segments),
            ("unreadable_segments", space.unreadable_segments),
            ("log_bytes", space.log_bytes),
        ];
        let used = (space.used_segments + space.held_segments) * segment_bytes;
        Stats {
            live_keys: None,
            live_bytes: None,
            memory_bytes: memtable_bytes + index + blocks + pairs + ghosts,
            disk_bytes: used + space.log_bytes,
            reserved: self.writes.memtables.memory().reservations(),
            waits: self.writes.writers.long_waits("room in memtables", "commits").to_vec(),
            detail,
            running: &RUNNING,
        }
    }
}
