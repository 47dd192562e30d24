//! Engines of parts so small that a short run fills, flushes and compacts them.

use thermocline::{EngineSettings, Options, f2, flexdb, hashkv, lsm};

pub(crate) fn with_small_parts(options: Options) -> Options {
    Options {
        engines: EngineSettings::from(f2::Options {
            log_memory_bytes: Some(5 * (16 << 10)),
            read_cache_bytes: Some(16 << 10),
            page_bytes: Some(16 << 10),
            segment_bytes: 32 << 10,
            disk_bytes_max: Some(64 << 10),
            cold_disk_bytes_max: Some(128 << 10),
            chunk_bytes: 64,
            index_bits: Some(1),
            ..f2::Options::default()
        })
        .with(lsm::Options {
            memtable_bytes_max: 4 << 10,
            slots_max: 2,
            lookup_index_bytes_max: 16 << 10,
            table_bytes: 2 << 10,
            block_bytes: 512,
            level0_tables: 2,
            level0_tables_slow: 6,
            level1_bytes: 8 << 10,
            level_ratio: 2,
            manifest_bytes: 1 << 10,
            ..lsm::Options::default()
        })
        .with(flexdb::Options {
            memtable_bytes_max: 4 << 10,
            interval_pairs: 4,
            interval_bytes: 1 << 10,
            tail_pairs_max: 3,
            fragments_max: 5,
            segment_bytes_max: 16 << 10,
            stored_intervals_min: 1,
            ..flexdb::Options::default()
        })
        .with(hashkv::Options {
            separation_bytes: 24,
            segment_bytes_max: 64 << 10,
            groups_max: 4,
            buffer_bytes_max: 64 << 10,
            reserve_percent: 0,
            table_bytes: 1 << 10,
            ..hashkv::Options::default()
        }),
        ..options
    }
}
