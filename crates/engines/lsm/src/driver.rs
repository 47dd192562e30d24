//! The engine as a host lists it, and its settings.

use engine::{Capabilities, CheckReport, Driver, MemoryUse, Scope, SettingKind, opened};

use crate::FORMATS;
use crate::contract::Store;
use crate::options::{Options, Routing};
use lsm_tree::edit::Edit;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const COMPRESSIONS: &[&str] = &["none", "lz4", "zstd"];
const FILTERS: &[&str] = &["bloom", "ribbon"];
const ROUTINGS: &[&str] = &["dranges", "random", "one"];

const _: () = assert!(Options::LEVELS == engine::Setting::LEVELS, "a setting has all levels");

engine::settings! {
    Options, DRIVER;
    compression: SettingKind::Levels(COMPRESSIONS), "none, lz4 or zstd, for each level from Level 0 on, with commas between them", Scope::Keyspace(0),
        "How blocks are compressed, level by level; the last one holds for all levels below.";
    filter: SettingKind::Word(FILTERS), "bloom or ribbon", Scope::Keyspace(1),
        "The kind of a table's filter.";
    filter_bits_per_key: SettingKind::Number(1, 32), "between 1 and 32", Scope::Keyspace(2),
        "Bits that a table's filter has for each key.";
    block_bytes: SettingKind::Number(512, MIB), "between 512 and 1 MiB", Scope::Keyspace(3),
        "Bytes of entries after which a data block ends.";
    table_bytes: SettingKind::Number(KIB, 1 << 30), "between 1 KiB and 1 GiB",
        Scope::Keyspace(4), "Bytes of data after which a table of a compaction ends.";
    level0_tables: SettingKind::Number(1, 1024), "between 1 and 1024", Scope::Keyspace(5),
        "Tables of Level 0 from which on they are compacted.";
    level0_tables_slow: SettingKind::Number(1, 1024), "between 1 and 1024", Scope::Keyspace(6),
        "Tables in Level 0 from which on writers are slowed down.";
    level1_bytes: SettingKind::Number(0, 1 << 40), "at most 1 TiB", Scope::Keyspace(7),
        "Bytes in Level 1 above which it is compacted; at 0 a part of the memory.";
    level_ratio: SettingKind::Number(2, 100), "between 2 and 100", Scope::Keyspace(8),
        "How many times larger a level is than the one above it, at most.";
    memtable_bytes_max: SettingKind::Number(KIB, 1 << 40), "between 1 KiB and 1 TiB",
        Scope::Database, "Bytes of a memtable above which it is sealed.";
    slots_max: SettingKind::Number(1, 1024), "between 1 and 1024", Scope::Database,
        "Memtables that are written to at the same time, at most.";
    lookup_index_bytes_max: SettingKind::Number(0, 1 << 40), "at most 1 TiB", Scope::Database,
        "Bytes that the lookup index may take, at most; none at 0.";
    compacts_when_idle: SettingKind::Flag, "on or off", Scope::Database,
        "Whether Level 0 is compacted while there are no writes.";
    range_deletes_max: SettingKind::Number(0, 8192), "at most 8192", Scope::Database,
        "Range deletes that are kept before tables are rewritten for their sake alone.";
    manifest_bytes: SettingKind::Number(KIB, 1 << 30), "between 1 KiB and 1 GiB",
        Scope::Database, "Bytes of the manifest after which it is rewritten.";
    routing: SettingKind::Word(ROUTINGS), "dranges, random or one", Scope::Experiment,
        "Which memtable a write goes to.";
    duplicates: SettingKind::Flag, "on or off", Scope::Experiment,
        "Whether a Drange of a hot key may have several slots.";
    range_index: SettingKind::Flag, "on or off", Scope::Experiment,
        "Whether reads look only at memtables and tables of Level 0 of a part of the keys.";
    pairs: SettingKind::Flag, "on or off", Scope::Experiment,
        "Whether single pairs that gets found in tables are cached.";
    merging: SettingKind::Flag, "on or off", Scope::Experiment,
        "Whether memtables of which little is kept are merged instead of flushed.";
}

/// The engine `lsm`.
pub static DRIVER: Driver = Driver {
    capabilities: Capabilities {
        name: "lsm",
        ordered: true,
        deletes_ranges: true,
        orders_writes: false,
        flush_rewrites_all: false,
        counts_keys: false,
    },
    summary: "a log-structured merge-tree: ordered, over data larger than memory",
    settings: SETTINGS,
    defaults: Options::default_numbers,
    open: |host, settings, dir| opened(Store::open(host, Options::of_settings(settings)), dir),
    formats: FORMATS,
    opens_without_changes: false,
    check: |device| {
        let found = crate::check(device)?;
        Ok(CheckReport {
            pairs: found.entries,
            pair_bytes: found.raw_bytes,
            persisted: found.persisted,
            newest: found.newest.max(found.persisted),
            damage: found.damage,
            further_damage: 0,
        })
    },
    counted: "records, old versions and tombstones too",
    salvage: crate::salvage,
    memory: MemoryUse::Share {
        least_of_new: Options::MEMORY_BYTES_MIN,
        least_of: |_| Ok(Options::MEMORY_BYTES_MIN),
    },
    descriptors: 0,
    opening_bytes: 0,
    // The manifest.
    rewritten_bytes: edits::stored_bytes::<Edit>,
    trials: &crate::trials::TRIALS,
};

engine::setting_words!(Routing: Self::Dranges, Self::Random, Self::One);

#[cfg(test)]
mod tests {
    use engine::SettingValue;
    use lsm_tree::table::{Compression, FilterKind};

    use super::*;

    /// The catalog stores compression and filter as these numbers.
    #[test]
    fn words_have_the_numbers_of_their_places() -> engine::Result<()> {
        let words = |place: usize| match SETTINGS[place].kind {
            SettingKind::Word(words) | SettingKind::Levels(words) => words,
            _ => &[],
        };
        let names = COMPRESSIONS.iter().map(|name| name.parse::<Compression>());
        let numbers: Vec<_> = names.map(|found| found.ok().and_then(|one| one.number())).collect();
        assert_eq!((words(0), numbers), (COMPRESSIONS, vec![Some(0), Some(1), Some(2)]));
        let filters = [FilterKind::Bloom, FilterKind::Ribbon].map(|kind| kind.number());
        assert_eq!((words(1), filters), (FILTERS, [Some(0), Some(1)]));
        let settings = engine::Settings::new(&DRIVER).with("routing", "one")?;
        assert_eq!(Options::of_settings(&settings).routing, Routing::One);
        Ok(())
    }

    /// As `docs/formats/catalog.md` has them.
    #[test]
    fn settings_are_the_documented_bytes() -> engine::Result<()> {
        let options = Options {
            compression: vec![Compression::None, Compression::Lz4, Compression::Zstd],
            filter: FilterKind::Ribbon,
            block_bytes: 16 << 10,
            ..Options::default()
        };
        let settings = engine::Settings::from(options);
        assert_eq!(
            settings.to_string(),
            "compression=none,lz4,zstd filter=ribbon block_bytes=16384"
        );
        let bytes = engine::Settings::to_bytes(Some(settings));
        assert_eq!(bytes, [3, 0, 0x90, 0xc4, 0x88, 0x11, 1, 1, 3, 0x80, 0x80, 1]);
        assert_eq!(engine::Settings::of_bytes(&DRIVER, &bytes)?, Some(settings));
        // No such option, out of order, of a kind and of a compression that do not exist.
        for bad in [&[1, 9, 1][..], &[2, 2, 10, 1, 1], &[1, 1, 2], &[1, 0, 3]] {
            assert!(engine::Settings::of_bytes(&DRIVER, bad).is_err(), "{bad:?}");
        }
        Ok(())
    }
}
