//! Rounds over engines whose parts are small, so that within a life there are many of them.
//!
//! These are tables that are flushed and compacted down the levels, intervals that are split and
//! rewritten, and segments that are collected.

use thermocline::{EngineKind, EngineSettings, Options, f2, flexdb, lsm};

/// The name of all engines together.
const ALL: &str = "db";

/// Figures of a program's keyspaces, for the work next to its writes.
pub(crate) const FIGURES: [(EngineKind, &str); 12] = [
    (EngineKind::F2, "compactions"),
    (EngineKind::F2, "cold_compactions"),
    (EngineKind::Lsm, "flushes"),
    (EngineKind::Lsm, "compactions"),
    (EngineKind::Lsm, "level0_tables"),
    (EngineKind::Lsm, "level2_tables"),
    (EngineKind::Lsm, "reorganisations_minor"),
    (EngineKind::FlexDb, "commits"),
    (EngineKind::FlexDb, "intervals_appended"),
    (EngineKind::FlexDb, "intervals_rewritten"),
    (EngineKind::FlexDb, "intervals_in_place"),
    (EngineKind::FlexDb, "collected_segments"),
];

/// Returns `name` if it is [`ALL`] or the name of an engine.
pub(crate) fn named(name: &str) -> &'static str {
    let mut names = EngineKind::ALL.iter().map(|engine| engine.name()).chain([ALL]);
    let found = names.find(|known| *known == name);
    found.unwrap_or_else(|| panic!("no engines {name:?}: {ALL:?}, or one of {:?}", EngineKind::ALL))
}

/// Returns the engines that a round may have a keyspace of each of.
pub(crate) fn engines(name: &str) -> &'static [EngineKind] {
    if name == ALL {
        return EngineKind::ALL;
    }
    let mut each = EngineKind::ALL.chunks(1);
    each.find(|one| one[0].name() == name).unwrap_or_default()
}

/// The same with small parts.
pub(crate) fn with_small_parts(options: Options) -> Options {
    Options {
        engines: EngineSettings::from(f2::Options {
            log_memory_bytes: Some(512 << 10),
            read_cache_bytes: Some(128 << 10),
            page_bytes: Some(16 << 10),
            segment_bytes: 64 << 10,
            disk_bytes_max: Some(1 << 20),
            cold_disk_bytes_max: Some(3 << 20),
            index_bits: Some(4),
            ..f2::Options::default()
        })
        .with(lsm::Options {
            memtable_bytes_max: 32 << 10,
            slots_max: 4,
            lookup_index_bytes_max: 64 << 10,
            table_bytes: 16 << 10,
            block_bytes: 1 << 10,
            level0_tables: 2,
            level0_tables_slow: 12,
            level1_bytes: 64 << 10,
            level_ratio: 3,
            manifest_bytes: 4 << 10,
            ..lsm::Options::default()
        })
        .with(flexdb::Options {
            memtable_bytes_max: 64 << 10,
            interval_pairs: 8,
            interval_bytes: 4 << 10,
            tail_pairs_max: 6,
            fragments_max: 6,
            segment_bytes_max: 64 << 10,
            stored_intervals_min: 1,
            ..flexdb::Options::default()
        }),
        ..options
    }
}
