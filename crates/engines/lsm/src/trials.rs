//! Stores of small parts, for tests over every engine.

use engine::{Trial, Trials};

use crate::options::Options;

pub(crate) static TRIALS: Trials = Trials {
    crashed: &[Trial {
        flushes_keys_apart: true,
        // So that tables come down the levels.
        long_life_writes: 400,
        ..Trial::new("lsm", || crashed().into())
    }],
    killed: || {
        let options = Options {
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
            ..Options::default()
        };
        options.into()
    },
    work: &["flushes", "compactions", "level0_tables", "level2_tables", "reorganisations_minor"],
};

/// Returns options of small parts, so that little data takes many memtables, tables and levels.
pub fn crashed() -> Options {
    Options {
        memtable_bytes_max: 4 << 10,
        slots_max: 6,
        lookup_index_bytes_max: 16 << 10,
        table_bytes: 2 << 10,
        block_bytes: 512,
        level0_tables: 2,
        level0_tables_slow: 6,
        level1_bytes: 8 << 10,
        level_ratio: 2,
        manifest_bytes: 1 << 10,
        ..Options::default()
    }
}
