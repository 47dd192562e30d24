//! Ways to tune each engine.
//!
//! Each option that a keyspace may have for itself differs from its default, alone, and all of an
//! engine's together.

use thermocline::lsm::Compression::{Lz4, None as Plain, Zstd};
use thermocline::{Tuning, f2, flexdb, lsm};

/// Returns the ways, grouped by engine; the last one of each engine sets every option.
///
/// # Panics
/// If an option is in none of them alone.
pub(crate) fn all() -> Vec<Tuning> {
    [of_f2(), of_lsm(), of_flexdb()].concat()
}

/// Each of the options alone, and all of them.
fn with_all(mut alone: Vec<Tuning>, together: Tuning) -> Vec<Tuning> {
    let said: Vec<_> = alone.iter().flat_map(Tuning::said).collect();
    assert_eq!(said, together.said(), "an option is in no tuning alone");
    alone.push(together);
    alone
}

fn of_f2() -> Vec<Tuning> {
    let all = f2::Tuning {
        chunk_bytes: Some(128),
        disk_bytes_max: Some(1 << 20),
        cold_disk_bytes_max: Some(2 << 20),
    };
    let none = f2::Tuning::default();
    let alone = [
        f2::Tuning { chunk_bytes: all.chunk_bytes, ..none },
        f2::Tuning { disk_bytes_max: all.disk_bytes_max, ..none },
        f2::Tuning { cold_disk_bytes_max: all.cold_disk_bytes_max, ..none },
    ];
    with_all(alone.map(Tuning::F2).to_vec(), Tuning::F2(all))
}

fn of_lsm() -> Vec<Tuning> {
    let all = lsm::Tuning {
        compression: Some([Plain, Lz4, Zstd, Zstd, Zstd, Zstd, Zstd]),
        filter: Some(lsm::FilterKind::Ribbon),
        filter_bits_per_key: Some(3),
        block_bytes: Some(1 << 10),
        table_bytes: Some(64 << 10),
        level0_tables: Some(1),
        level0_tables_slow: Some(3),
        level1_bytes: Some(64 << 10),
        level_ratio: Some(3),
    };
    let none = lsm::Tuning::default();
    let alone = [
        lsm::Tuning { compression: all.compression, ..none },
        lsm::Tuning { filter: all.filter, ..none },
        lsm::Tuning { filter_bits_per_key: all.filter_bits_per_key, ..none },
        lsm::Tuning { block_bytes: all.block_bytes, ..none },
        lsm::Tuning { table_bytes: all.table_bytes, ..none },
        lsm::Tuning { level0_tables: all.level0_tables, ..none },
        lsm::Tuning { level0_tables_slow: all.level0_tables_slow, ..none },
        lsm::Tuning { level1_bytes: all.level1_bytes, ..none },
        lsm::Tuning { level_ratio: all.level_ratio, ..none },
    ];
    with_all(alone.map(Tuning::Lsm).to_vec(), Tuning::Lsm(all))
}

fn of_flexdb() -> Vec<Tuning> {
    let all = flexdb::Tuning { interval_pairs: Some(2), interval_bytes: Some(512) };
    let none = flexdb::Tuning::default();
    let alone = [
        flexdb::Tuning { interval_pairs: all.interval_pairs, ..none },
        flexdb::Tuning { interval_bytes: all.interval_bytes, ..none },
    ];
    with_all(alone.map(Tuning::FlexDb).to_vec(), Tuning::FlexDb(all))
}
