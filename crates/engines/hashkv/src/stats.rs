//! Figures of a store.

use std::sync::atomic::Ordering::Relaxed;

use engine::Stats;

use crate::contract::Store;
use crate::volumes::HEADER_BYTES;

impl Store {
    pub(crate) fn figures(&self) -> Stats {
        let shared = &self.shared;
        let index = shared.index.stats();
        let values = &shared.values;
        let volume_bytes = values.bound.allocated().saturating_sub(HEADER_BYTES);
        let counts = values.counts();
        let space = shared.space();
        let of_index = |name: &str| {
            let found = index.detail.iter().find(|(known, _)| *known == name);
            found.map_or(0, |(_, figure)| *figure)
        };
        let detail = vec![
            ("segments", values.segment_count()),
            ("groups", values.groups.len() as u64),
            ("volume_bytes", volume_bytes),
            ("limit_bytes", values.bound.limit()),
            ("promised_bytes", values.bound.promised()),
            ("buffered_bytes", values.buffered()),
            ("absorbed_bytes", counts.absorbed_bytes.load(Relaxed)),
            ("buffer_flushes", counts.flushes.load(Relaxed)),
            ("flushed_bytes", counts.flushed_bytes.load(Relaxed)),
            ("sealed_segments", counts.sealed.load(Relaxed)),
            ("footer_bytes", counts.footer_bytes.load(Relaxed)),
            ("live_bytes", space.live),
            ("garbage_bytes", space.garbage),
            ("pending_bytes", space.pending),
            ("held_bytes", space.held),
            ("collections", counts.collections.load(Relaxed)),
            ("collections_under_way", u64::from(shared.admission.is_collect_queued.load(Relaxed))),
            ("collected_segments", counts.collected.load(Relaxed)),
            ("copied_bytes", counts.copied_bytes.load(Relaxed)),
            ("judged_bytes", counts.judged_bytes.load(Relaxed)),
            ("directory_bytes", values.directory_bytes()),
            ("filter_bytes", values.filter_bytes()),
            ("omitted_markers", counts.omitted_markers.load(Relaxed)),
            ("cached_value_bytes", shared.cached.bytes()),
            ("cached_value_hits", shared.cached.hits()),
            ("cache_ghost_hits", shared.cached.ghost_hits()),
            ("space_stalls", shared.admission.space_writers.stalls()),
            ("collector_wait_nanos", shared.admission.writers.slowed_nanos()),
            ("compactions_under_way", of_index("compactions_under_way")),
            ("index_bytes", index.disk_bytes),
            ("index_memory_bytes", index.memory_bytes),
        ];
        Stats {
            live_keys: None,
            live_bytes: None,
            memory_bytes: index.memory_bytes
                + values.accounts.buffers.bytes()
                + values.entry_bytes()
                + values.directory_bytes()
                + values.filter_bytes()
                + shared.cached.bytes(),
            disk_bytes: index.disk_bytes + volume_bytes,
            reserved: index.reserved + values.accounts.buffers.reservations(),
            waits: index.waits.into_iter().chain(shared.admission.long_waits()).collect(),
            detail,
            running: &[
                "buffered_bytes",
                "absorbed_bytes",
                "omitted_markers",
                "buffer_flushes",
                "flushed_bytes",
                "sealed_segments",
                "footer_bytes",
                "collections",
                "collected_segments",
                "copied_bytes",
                "judged_bytes",
                "space_stalls",
                "collector_wait_nanos",
                "cached_value_hits",
                "cache_ghost_hits",
            ],
        }
    }
}
