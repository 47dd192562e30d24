//! Settings that a keyspace has for itself: which hold, are kept, are refused, and survive a power
//! cut.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::tunings;
use device::{Device, Faults, SimulatedDisk};
use thermocline::{
    Db, EngineKind, Environment, Error, Keyspace, KeyspaceOptions, Options, Scope, Settings,
    check_on, f2, flexdb, lsm,
};

fn with(settings: Settings) -> KeyspaceOptions {
    KeyspaceOptions {
        engine: tunings::engine(settings),
        settings: Some(settings),
        memory_bytes: Some(4 << 20),
        ..Default::default()
    }
}

fn set(engine: EngineKind, values: &[(&str, &str)]) -> Settings {
    let none = engine.settings();
    values.iter().fold(none, |settings, (name, text)| settings.with(name, text).unwrap())
}

fn compressed(by: &str) -> KeyspaceOptions {
    with(set(EngineKind::Lsm, &[("compression", by)]))
}

fn plain(engine: EngineKind) -> KeyspaceOptions {
    KeyspaceOptions { engine, memory_bytes: Some(4 << 20), ..Default::default() }
}

fn open(disk: &Arc<SimulatedDisk>) -> Db {
    let (environment, _clock) = Environment::simulated(1);
    let options =
        Options { environment, sync_interval: None, background_threads: 1, ..Options::default() };
    Db::open_on(Arc::clone(disk) as Arc<dyn Device>, "simulated", options).unwrap()
}

fn disk() -> Arc<SimulatedDisk> {
    SimulatedDisk::new(1, Faults::none())
}

/// Flushes pairs like records of a table, and returns the stored bytes for each thousand bytes of
/// their blocks.
fn stored_permille(space: &Keyspace, life: u32) -> u64 {
    for number in 0..2_000u32 {
        let digits = codec::hash64(7, &number.to_le_bytes());
        let value =
            format!("{{\"name\": \"number {number}\", \"life\": {life}, \"id\": {digits}}}");
        space.put(format!("{life}/{number:08}").as_bytes(), value.as_bytes()).unwrap();
    }
    let before = block_bytes(space);
    space.flush().unwrap();
    let after = block_bytes(space);
    let [all, stored] = [after[0] - before[0], after[1] - before[1]];
    assert!(all > 50_000, "{all} bytes of blocks are too few to compare");
    stored * 1000 / all
}

fn block_bytes(space: &Keyspace) -> [u64; 2] {
    let detail = space.stats().unwrap().detail;
    ["block_bytes", "block_bytes_stored"].map(|name| {
        detail.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).unwrap()
    })
}

#[test]
fn two_keyspaces_of_one_engine_write_each_in_its_own_way_also_when_opened_again() {
    let disk = disk();
    let db = open(&disk);
    db.keyspace("none", compressed("none")).unwrap();
    db.keyspace("database", plain(EngineKind::Lsm)).unwrap();
    db.keyspace("zstd", compressed("zstd")).unwrap();
    let judge = |db: &Db, life: u32| {
        let [none, database, zstd] = ["none", "database", "zstd"]
            .map(|name| stored_permille(&db.existing_keyspace(name).unwrap(), life));
        assert!(none >= 1000, "life {life}: {none}");
        assert!((300..800).contains(&database), "life {life}: {database}");
        assert!(zstd + 50 < database, "life {life}: {zstd} and {database}");
    };
    judge(&db, 0);
    db.close().unwrap();
    drop(db);
    let db = open(&disk);
    judge(&db, 1);
    // A cleared one keeps its own, too.
    db.existing_keyspace("none").unwrap().clear().unwrap();
    judge(&db, 2);
}

#[test]
fn every_option_is_kept_and_shown() {
    let disk = disk();
    let lsm = [
        ("compression", "lz4"),
        ("filter", "ribbon"),
        ("filter_bits_per_key", "12"),
        ("block_bytes", "8192"),
        ("table_bytes", "8388608"),
        ("level0_tables", "6"),
        ("level0_tables_slow", "24"),
        ("level1_bytes", "33554432"),
        ("level_ratio", "8"),
    ];
    let f2 = [
        ("chunk_bytes", "128"),
        ("disk_bytes_max", "67108864"),
        ("cold_disk_bytes_max", "1073741824"),
    ];
    let flexdb = [("interval_pairs", "64"), ("interval_bytes", "8192")];
    let hashkv = [("reserve_percent", "40"), ("separation_bytes", "256")];
    let all = [
        set(EngineKind::F2, &f2),
        set(EngineKind::Lsm, &lsm),
        set(EngineKind::FlexDb, &flexdb),
        set(EngineKind::HashKv, &hashkv),
    ];
    let judge = |db: &Db| {
        let stats = db.stats();
        for settings in all {
            let name = settings.engine();
            assert_eq!(db.existing_keyspace(name).unwrap().options(), with(settings));
            let found = stats.keyspaces.iter().find(|one| one.name == name).unwrap();
            assert_eq!(found.options.settings, Some(settings));
        }
    };
    let db = open(&disk);
    for settings in all {
        db.keyspace(settings.engine(), with(settings)).unwrap().put(b"k", b"v").unwrap();
    }
    judge(&db);
    db.close().unwrap();
    drop(db);
    judge(&open(&disk));
    let lsm = "compression=lz4 filter=ribbon filter_bits_per_key=12 block_bytes=8192 \
               table_bytes=8388608 level0_tables=6 level0_tables_slow=24 level1_bytes=33554432 \
               level_ratio=8";
    assert_eq!(all[1].to_string(), lsm);
}

#[test]
fn new_settings_of_a_keyspace_hold_from_the_next_opening_on() {
    let disk = disk();
    let db = open(&disk);
    let space = db.keyspace("s", compressed("none")).unwrap();
    assert!(stored_permille(&space, 0) >= 1000);
    // Without settings: they do not change.
    assert_eq!(db.keyspace("s", plain(EngineKind::Lsm)).unwrap().options(), compressed("none"));
    let zstd = compressed("zstd");
    assert_eq!(db.keyspace("s", zstd).unwrap().options(), zstd);
    assert_eq!(space.options(), zstd);
    assert!(stored_permille(&space, 1) >= 1000, "it holds before the next opening");
    db.close().unwrap();
    drop((db, space));
    let db = open(&disk);
    let space = db.existing_keyspace("s").unwrap();
    assert_eq!(space.options(), zstd);
    assert!(stored_permille(&space, 2) < 800);
    assert_eq!(space.get(b"0/00000007").unwrap().map(|value| value.len() > 20), Some(true));
    // Settings without any value remove them.
    let nothing = with(set(EngineKind::Lsm, &[]));
    assert_eq!(db.keyspace("s", nothing).unwrap().options().settings, None);
    db.close().unwrap();
    drop((db, space));
    assert_eq!(open(&disk).existing_keyspace("s").unwrap().options().settings, None);
}

#[test]
fn settings_that_it_has_change_no_file() {
    let disk = disk();
    let db = open(&disk);
    let zstd = compressed("zstd");
    db.keyspace("s", zstd).unwrap();
    let before = disk.operations();
    db.keyspace("s", zstd).unwrap();
    db.keyspace("s", plain(EngineKind::Lsm)).unwrap();
    assert_eq!(disk.operations(), before);
    db.keyspace("s", compressed("none")).unwrap();
    assert!(disk.operations() > before);
}

#[test]
fn settings_of_another_engine_out_of_bounds_or_fixed_are_refused() {
    let disk = disk();
    let db = open(&disk);
    let blocks = set(EngineKind::Lsm, &[("block_bytes", "4096")]);
    for engine in [EngineKind::Memory, EngineKind::F2, EngineKind::FlexDb] {
        let options = KeyspaceOptions { engine, ..with(blocks) };
        let refused = db.keyspace("s", options).unwrap_err();
        let given = "block_bytes=4096".to_owned();
        assert_eq!(refused, Error::OtherEngine { engine, of: "lsm", given });
        let text = refused.to_string();
        let begin = format!(
            "settings of engine lsm (block_bytes=4096) are not for a keyspace of engine {engine}, \
             which takes "
        );
        let takes = text.strip_prefix(&begin).unwrap_or_else(|| panic!("{text}"));
        match engine {
            EngineKind::Memory => assert_eq!(takes, "none"),
            EngineKind::F2 => assert!(takes.starts_with("chunk_bytes (between 64 and 4096), ")),
            _ => assert_eq!(
                takes,
                "interval_pairs (between 2 and 4096), interval_bytes (between 512 and 1 MiB)"
            ),
        }
    }
    let nothing = KeyspaceOptions { engine: EngineKind::Memory, ..with(set(EngineKind::Lsm, &[])) };
    let refused = db.keyspace("s", nothing).unwrap_err().to_string();
    assert!(refused.contains("settings of engine lsm (no value)"), "{refused}");
    let bad = lsm::Options { level_ratio: 1, ..lsm::Options::default() };
    let bad = with(bad.into());
    let refused = db.keyspace("s", bad).unwrap_err().to_string();
    assert!(refused.contains("level_ratio: it has to be between 2 and 100"), "{refused}");
    assert!(db.keyspaces().is_empty());
    let of_database = set(EngineKind::Lsm, &[("slots_max", "3")]);
    let refused = db.keyspace("s", with(of_database)).unwrap_err().to_string();
    assert!(refused.contains("slots_max: it has to be set for the database"), "{refused}");
    let of_chunks = |chunk_bytes: Option<u32>, disk_bytes_max: Option<u64>| {
        let options = f2::Options { disk_bytes_max, ..f2::Options::default() };
        let mut settings = Settings::from(options);
        if let Some(bytes) = chunk_bytes {
            settings.set("chunk_bytes", &bytes.to_string()).unwrap();
        }
        with(settings)
    };
    db.keyspace("f2", of_chunks(Some(128), None)).unwrap();
    let refused = db.keyspace("f2", of_chunks(Some(256), None)).unwrap_err();
    let fixed = Error::FixedOption { keyspace: "f2".to_owned(), option: "chunk_bytes" };
    assert_eq!(refused, fixed);
    let small = with(f2::Options { chunk_bytes: 32, ..f2::Options::default() }.into());
    let refused = db.keyspace("f2", small).unwrap_err().to_string();
    assert!(refused.contains("between 64 and 4096"), "{refused}");
    // An option that may change does, and a fixed one stays although it is not given again.
    let changed = db.keyspace("f2", of_chunks(None, Some(32 << 20))).unwrap();
    assert_eq!(changed.options(), of_chunks(Some(128), Some(32 << 20)));
    db.close().unwrap();
    drop((db, changed));
    let disk: Arc<dyn Device> = disk;
    let reading = Db::open_read_only_on(disk, "simulated", Options::default()).unwrap();
    reading.keyspace("f2", of_chunks(Some(128), Some(32 << 20))).unwrap();
    let refused = reading.keyspace("f2", of_chunks(None, Some(64 << 20))).unwrap_err();
    assert!(matches!(refused, Error::OpenedReadOnly { .. }), "{refused}");
}

/// A power cut at every operation of making a keyspace and of changing its settings.
#[test]
fn a_power_cut_leaves_the_old_settings_or_the_new_ones() {
    let disk = disk();
    disk.keep_history();
    let db = open(&disk);
    let [first, second] = ["none", "zstd"].map(compressed);
    let begun = disk.operations();
    db.keyspace("s", first).unwrap();
    let made = disk.operations();
    db.keyspace("s", second).unwrap();
    let changed = disk.operations();
    let mut seen = [0; 3];
    let history = disk.history();
    let mut replay = history.replay();
    for operation in begun..=changed {
        replay.advance_to(operation);
        for seed in 0..4 {
            let image = replay.crash(seed);
            let db = open(&image);
            let found = db.existing_keyspace("s").ok().map(|space| space.options());
            let states = [None, Some(first), Some(second)];
            let at = states.iter().position(|state| *state == found);
            let at = at.unwrap_or_else(|| panic!("operation {operation}: {found:?}"));
            let least = usize::from(operation >= made) + usize::from(operation >= changed);
            let most = 1 + usize::from(operation > made);
            assert!(
                (least..=most).contains(&at),
                "operation {operation} of {made}, {changed}: {at}"
            );
            seen[at] += 1;
            let space = db.keyspace("s", second).unwrap();
            space.put(b"k", b"v").unwrap();
            drop((db, space));
            assert!(check_on(image, "image").unwrap().is_whole(), "operation {operation}");
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "a state was never left: {seen:?}");
}

/// A keyspace that names the default of a setting has it, whatever the database has.
#[test]
fn a_keyspace_may_have_the_default_where_the_database_has_another_value() {
    let disk = disk();
    let (environment, _clock) = Environment::simulated(1);
    let zstd = lsm::Options { compression: vec![lsm::Compression::Zstd], ..Default::default() };
    let options = Options {
        environment,
        sync_interval: None,
        background_threads: 1,
        engines: zstd.into(),
        ..Options::default()
    };
    let db = Db::open_on(Arc::clone(&disk) as Arc<dyn Device>, "simulated", options).unwrap();
    let of_database = db.keyspace("database", plain(EngineKind::Lsm)).unwrap();
    let unset = lsm::Options { compression: vec![lsm::Compression::Lz4], ..Default::default() };
    let unset = db.keyspace("unset", with(unset.into())).unwrap();
    let named = db.keyspace("named", compressed("lz4")).unwrap();
    let [of_database, unset, named] =
        [of_database, unset, named].map(|one| stored_permille(&one, 0));
    assert!(of_database.abs_diff(unset) < 9, "a field with its default counts as not set");
    assert!(of_database + 50 < named, "{of_database} and {named}");
}

/// The database is refused, and nothing is made.
#[test]
fn a_database_with_a_value_that_is_not_allowed_is_refused() {
    let bad: [Settings; 4] = [
        lsm::Options { level_ratio: 1, ..Default::default() }.into(),
        lsm::Options { compression: vec![lsm::Compression::Lz4; 8], ..Default::default() }.into(),
        f2::Options { mutable_share: f64::NAN, ..Default::default() }.into(),
        flexdb::Options { segment_bytes_max: 5000, ..Default::default() }.into(),
    ];
    for settings in bad {
        let device = device::memory();
        let options = Options { engines: settings.into(), ..Options::default() };
        let refused = Db::open_on(Arc::clone(&device), "memory", options).map(drop).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("it has to be"), "{settings:?}: {refused}");
        assert!(device.list("").unwrap().is_empty(), "{settings:?}: a file was made");
    }
    // A space has at least 128 segments, whose size follows from the memory.
    let small = flexdb::Options { capacity_bytes: 4 << 20, ..Default::default() };
    let options = Options { engines: small.into(), ..Options::default() };
    let db = Db::open_on(device::memory(), "memory", options).unwrap();
    let refused = db.keyspace("s", plain(EngineKind::FlexDb)).unwrap_err().to_string();
    assert!(refused.contains("capacity_bytes"), "{refused}");
}

/// The segments of a `flexdb` keyspace follow from the memory with which it was made. With more
/// memory new segments would be too large for the capacity.
#[test]
fn a_keyspace_of_a_small_capacity_opens_with_more_memory() {
    let disk = disk();
    let open = |memory_bytes| {
        let small = flexdb::Options { capacity_bytes: 64 << 20, ..Default::default() };
        let (environment, _clock) = Environment::simulated(1);
        let options = Options {
            memory_bytes,
            environment,
            sync_interval: None,
            background_threads: 1,
            engines: small.into(),
            ..Options::default()
        };
        Db::open_on(Arc::clone(&disk) as Arc<dyn Device>, "simulated", options)
    };
    let flexdb = KeyspaceOptions { engine: EngineKind::FlexDb, ..Default::default() };
    let db = open(24 << 20).unwrap();
    db.keyspace("s", flexdb).unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    drop(db);
    let db = open(1 << 30).unwrap();
    let space = db.existing_keyspace("s").unwrap();
    assert_eq!(space.get(b"k").unwrap(), Some(b"v".to_vec()));
    assert!(db.keyspace("new", flexdb).is_err(), "its segments would be too large");
}

/// The numbers of a cell like "512 to 2^20".
fn range(cell: &str) -> Option<(u64, u64)> {
    let number = |text: &str| match text.split_once('^') {
        Some((base, power)) => base.parse::<u64>().ok()?.checked_pow(power.parse().ok()?),
        None => text.parse().ok(),
    };
    let (least, most) = cell.trim().split_once(" to ")?;
    Some((number(least)?, number(most)?))
}

/// The page of the catalog has the number of each setting, its least value and its largest one.
#[test]
fn the_numbers_of_settings_never_change() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/formats/catalog.md");
    let page = std::fs::read_to_string(path).unwrap();
    let head = "| engine | number | option | values |\n|---|---:|---|---|\n";
    let (_, table) = page.split_once(head).expect("the page has the table");
    let mut documented: Vec<(&str, u8, &str)> = Vec::new();
    let mut ranges = 0;
    for row in table.lines().take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let engine = cells[1].split('`').nth(1);
        let engine = engine.or(documented.last().map(|row| row.0)).expect("a row has an engine");
        let option = cells[3].split('`').nth(1).expect("a row has an option");
        documented.push((engine, cells[2].trim().parse().unwrap(), option));
        let Some((least, most)) = range(cells[4]) else { continue };
        let engine: EngineKind = engine.parse().unwrap();
        let setting = engine.known_settings().iter().find(|one| one.name == option).unwrap();
        assert!(setting.allows(least) && setting.allows(most), "{option}: {}", cells[4]);
        let below = least.checked_sub(1).is_some_and(|below| setting.allows(below));
        assert!(!below && !setting.allows(most + 1), "{option}: {}", cells[4]);
        ranges += 1;
    }
    assert!(ranges > 10, "{ranges}");
    let mut known: Vec<(&str, u8, &str)> = Vec::new();
    for engine in EngineKind::ALL {
        let all = engine.known_settings().iter();
        known.extend(all.filter_map(|one| Some((engine.name(), one.number()?, one.name))));
    }
    assert!(documented.len() > 10, "{documented:?}");
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, documented, "docs/formats/catalog.md has the numbers, which never change");
}

/// Each default is allowed, and `docs/settings.md` has the tables.
#[test]
fn the_page_has_the_settings_of_all_engines() {
    let mut page = String::from(
        "# Settings of the engines\n\n\
         `Options::engines` has the settings of a database, `KeyspaceOptions::settings` those of a keyspace.\n\
         The program takes them by `--engine-settings`, and `thermocline bench` behind an engine's name. Each is a field of the engine's `Options`, whose documentation says\n\
         more. One that is not set follows from the memory, unless its meaning says more. This page is made from the tables in `crates/engines/*/src/driver.rs`, and a test compares the two.\n",
    );
    for engine in EngineKind::ALL {
        let driver = engine.driver();
        page += &format!("\n## `{engine}`\n\nThe engine is {}.\n\n", driver.summary);
        page += "| setting | values | default | set for | meaning |\n|---|---|---|---|---|\n";
        for (setting, default) in driver.settings.iter().zip((driver.defaults)()) {
            if let Some(value) = default {
                assert!(setting.allows(value), "{engine} {}: {value}", setting.name);
            }
            let default =
                default.map_or("not set".to_owned(), |value| format!("`{}`", setting.shown(value)));
            let scope = match setting.scope {
                Scope::Keyspace(_) => "database, keyspace",
                Scope::NewKeyspace(_) => "database, new keyspace",
                Scope::Database => "database",
                Scope::Experiment => "database, for comparisons",
            };
            let (name, allowed, help) = (setting.name, setting.allowed, setting.help);
            page += &format!("| `{name}` | {allowed} | {default} | {scope} | {help} |\n");
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/settings.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        #[expect(clippy::disallowed_methods, reason = "writes a file of the repository")]
        std::fs::write(path, &page).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == page, "docs/settings.md differs: run this test with UPDATE_GOLDEN=1");
}
