//! Options that a keyspace has for itself: which hold, are kept, are refused, and survive a power
//! cut.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::{Device, Faults, SimulatedDisk};
use thermocline::lsm::{Compression, FilterKind};
use thermocline::{
    Db, EngineKind, Environment, Error, Keyspace, KeyspaceOptions, Options, Tuning, check_on, f2,
    flexdb, lsm,
};

const LEVELS: usize = lsm::Options::LEVELS;

fn tuned(tuning: Tuning) -> KeyspaceOptions {
    KeyspaceOptions {
        engine: tuning.engine(),
        tuning: Some(tuning),
        memory_bytes: Some(4 << 20),
        ..Default::default()
    }
}

fn compressed(by: Compression) -> KeyspaceOptions {
    tuned(Tuning::Lsm(lsm::Tuning { compression: Some([by; LEVELS]), ..Default::default() }))
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
    db.keyspace("none", compressed(Compression::None)).unwrap();
    db.keyspace("database", plain(EngineKind::Lsm)).unwrap();
    db.keyspace("zstd", compressed(Compression::Zstd)).unwrap();
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
    let all = [
        Tuning::F2(f2::Tuning {
            chunk_bytes: Some(128),
            disk_bytes_max: Some(64 << 20),
            cold_disk_bytes_max: Some(1 << 30),
        }),
        Tuning::Lsm(lsm::Tuning {
            compression: Some([Compression::Lz4; LEVELS]),
            filter: Some(FilterKind::Ribbon),
            filter_bits_per_key: Some(12),
            block_bytes: Some(8 << 10),
            table_bytes: Some(8 << 20),
            level0_tables: Some(6),
            level0_tables_slow: Some(24),
            level1_bytes: Some(32 << 20),
            level_ratio: Some(8),
        }),
        Tuning::FlexDb(flexdb::Tuning { interval_pairs: Some(64), interval_bytes: Some(8 << 10) }),
    ];
    let judge = |db: &Db| {
        let stats = db.stats();
        for tuning in all {
            let name = tuning.engine().name();
            assert_eq!(db.existing_keyspace(name).unwrap().options(), tuned(tuning));
            let found = stats.keyspaces.iter().find(|one| one.name == name).unwrap();
            assert_eq!(found.options.tuning, Some(tuning));
        }
    };
    let db = open(&disk);
    for tuning in all {
        db.keyspace(tuning.engine().name(), tuned(tuning)).unwrap().put(b"k", b"v").unwrap();
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
fn a_keyspace_that_exists_is_tuned_anew_and_holds_it_from_the_next_opening_on() {
    let disk = disk();
    let db = open(&disk);
    let space = db.keyspace("s", compressed(Compression::None)).unwrap();
    assert!(stored_permille(&space, 0) >= 1000);
    // Named without options: they do not change.
    assert_eq!(
        db.keyspace("s", plain(EngineKind::Lsm)).unwrap().options(),
        compressed(Compression::None)
    );
    let zstd = compressed(Compression::Zstd);
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
    // Which says nothing takes it away.
    let nothing = tuned(Tuning::Lsm(lsm::Tuning::default()));
    assert_eq!(db.keyspace("s", nothing).unwrap().options().tuning, None);
    db.close().unwrap();
    drop((db, space));
    assert_eq!(open(&disk).existing_keyspace("s").unwrap().options().tuning, None);
}

#[test]
fn what_is_named_as_it_is_changes_no_file() {
    let disk = disk();
    let db = open(&disk);
    let zstd = compressed(Compression::Zstd);
    db.keyspace("s", zstd).unwrap();
    let before = disk.operations();
    db.keyspace("s", zstd).unwrap();
    db.keyspace("s", plain(EngineKind::Lsm)).unwrap();
    assert_eq!(disk.operations(), before);
    db.keyspace("s", compressed(Compression::None)).unwrap();
    assert!(disk.operations() > before);
}

#[test]
fn what_is_not_the_engines_or_out_of_bounds_or_fixed_is_refused() {
    let disk = disk();
    let db = open(&disk);
    let blocks = Tuning::Lsm(lsm::Tuning { block_bytes: Some(4096), ..Default::default() });
    for engine in [EngineKind::Memory, EngineKind::F2, EngineKind::FlexDb] {
        let options = KeyspaceOptions { engine, ..tuned(blocks) };
        let refused = db.keyspace("s", options).unwrap_err();
        assert_eq!(refused, Error::OtherEngine { engine, of: EngineKind::Lsm });
    }
    let bad = tuned(Tuning::Lsm(lsm::Tuning { level_ratio: Some(1), ..Default::default() }));
    let refused = db.keyspace("s", bad).unwrap_err().to_string();
    assert!(refused.contains("level_ratio: it has to be between 2 and 100"), "{refused}");
    assert!(db.keyspaces().is_empty());
    let of_chunks = |chunk_bytes, disk_bytes_max| {
        tuned(Tuning::F2(f2::Tuning { chunk_bytes, disk_bytes_max, ..Default::default() }))
    };
    db.keyspace("f2", of_chunks(Some(128), None)).unwrap();
    let refused = db.keyspace("f2", of_chunks(Some(256), None)).unwrap_err();
    let fixed = Error::FixedOption { keyspace: "f2".to_owned(), option: "chunk_bytes" };
    assert_eq!(refused, fixed);
    assert_eq!(
        db.keyspace("f2", of_chunks(Some(32), None)).unwrap_err().to_string().matches("64").count(),
        1
    );
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

/// A power cut at every operation of making a keyspace and of changing its tuning.
#[test]
fn a_power_cut_leaves_the_one_tuning_or_the_other() {
    let disk = disk();
    disk.keep_history();
    let db = open(&disk);
    let [first, second] = [Compression::None, Compression::Zstd].map(compressed);
    let begun = disk.operations();
    db.keyspace("s", first).unwrap();
    let made = disk.operations();
    db.keyspace("s", second).unwrap();
    let tuned = disk.operations();
    let mut seen = [0; 3];
    let history = disk.history();
    let mut replay = history.replay();
    for operation in begun..=tuned {
        replay.advance_to(operation);
        for seed in 0..4 {
            let image = replay.crash(seed);
            let db = open(&image);
            let found = db.existing_keyspace("s").ok().map(|space| space.options());
            let states = [None, Some(first), Some(second)];
            let at = states.iter().position(|state| *state == found);
            let at = at.unwrap_or_else(|| panic!("operation {operation}: {found:?}"));
            let least = usize::from(operation >= made) + usize::from(operation >= tuned);
            let most = 1 + usize::from(operation > made);
            assert!((least..=most).contains(&at), "operation {operation} of {made}, {tuned}: {at}");
            seen[at] += 1;
            let space = db.keyspace("s", second).unwrap();
            space.put(b"k", b"v").unwrap();
            drop((db, space));
            assert!(check_on(image, "image").unwrap().is_whole(), "operation {operation}");
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "a state was never left: {seen:?}");
}
