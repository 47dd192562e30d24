//! Settings that a keyspace of each engine may have for itself.
//!
//! Each setting differs from its default, alone, and all of an engine's together.

use thermocline::{EngineKind, Scope, Settings};

/// Returns the settings, grouped by engine; the last ones of each engine have all values.
///
/// # Panics
/// If a setting of a keyspace is in none of them.
pub(crate) fn all() -> Vec<Settings> {
    let values: [(EngineKind, &[(&str, &str)]); 4] = [
        (
            EngineKind::F2,
            &[
                ("chunk_bytes", "128"),
                ("disk_bytes_max", "1048576"),
                ("cold_disk_bytes_max", "2097152"),
            ],
        ),
        (
            EngineKind::Lsm,
            &[
                ("compression", "none,lz4,zstd"),
                ("filter", "ribbon"),
                ("filter_bits_per_key", "3"),
                ("block_bytes", "1024"),
                ("table_bytes", "65536"),
                ("level0_tables", "1"),
                ("level0_tables_slow", "3"),
                ("level1_bytes", "65536"),
                ("level_ratio", "3"),
            ],
        ),
        (EngineKind::FlexDb, &[("interval_pairs", "2"), ("interval_bytes", "512")]),
        (
            EngineKind::HashKv,
            &[
                ("separation_bytes", "40"),
                ("disk_bytes_max", "67108864"),
                ("reserve_percent", "100"),
            ],
        ),
    ];
    values.into_iter().flat_map(|(engine, values)| of(engine, values)).collect()
}

fn of(engine: EngineKind, values: &[(&str, &str)]) -> Vec<Settings> {
    let driver = engine.driver();
    let of_keyspaces = driver
        .settings
        .iter()
        .filter(|setting| matches!(setting.scope, Scope::Keyspace(_) | Scope::NewKeyspace(_)));
    let known: Vec<&str> = of_keyspaces.map(|setting| setting.name).collect();
    let named: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, known, "a setting of {engine} is missing");
    let none = engine.settings();
    let with = |settings: Settings, (name, text): &(&str, &str)| {
        settings.with(name, text).expect("the value is allowed")
    };
    let mut all: Vec<Settings> = values.iter().map(|value| with(none, value)).collect();
    all.push(values.iter().fold(none, with));
    all
}

/// Returns the engine of settings.
pub(crate) fn engine(settings: Settings) -> EngineKind {
    settings.engine().parse().expect("it is an engine")
}
