//! The database as its users see it: keyspaces, batches, snapshots, errors, reopening.

#![expect(clippy::disallowed_methods, reason = "the test plays with the database's files")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use thermocline::{
    Batch, Change, Db, Durability, EngineKind, Error, KeyRange, KeyspaceOptions, Options,
};

fn open(dir: &TempDir) -> Db {
    Db::open(dir.path(), Options::default()).unwrap()
}

fn pairs(scan: thermocline::Scan) -> Vec<(String, String)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    scan.map(|pair| pair.map(|(key, value)| (text(key), text(value))).unwrap()).collect()
}

#[test]
fn what_was_written_is_there_after_reopening() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let fruit = db.keyspace("fruit", KeyspaceOptions::default()).unwrap();
    fruit.put(b"apple", b"red").unwrap();
    fruit.put(b"banana", b"yellow").unwrap();
    fruit.put(b"apple", b"green").unwrap();
    fruit.delete(b"banana").unwrap();
    fruit.put(b"", b"").unwrap();
    db.close().unwrap();
    assert_eq!(fruit.get(b"apple"), Err(Error::Closed));
    drop((db, fruit));

    let db = open(&dir);
    let fruit = db.existing_keyspace("fruit").unwrap();
    assert_eq!(fruit.get(b"apple").unwrap().as_deref(), Some(&b"green"[..]));
    assert_eq!(fruit.get(b"banana").unwrap(), None);
    assert_eq!(fruit.get(b"").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(fruit.stats().unwrap().live_keys, Some(2));
}

#[test]
fn a_flush_lets_the_journal_go_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let value = vec![7; 1 << 16];
    for index in 0..2000_u32 {
        space.put(&index.to_be_bytes(), &value).unwrap();
    }
    let before = db.stats().journal.bytes;
    assert!(before > 100 << 20, "the journal holds it all: {before}");
    db.flush().unwrap();
    let after = db.stats().journal.bytes;
    assert!(after < before / 2, "flushed and trimmed: {after} of {before}");
    drop((space, db));
    let db = open(&dir);
    let space = db.existing_keyspace("a").unwrap();
    assert_eq!(space.scan(KeyRange::all()).unwrap().count(), 2000);
}

#[test]
fn a_batch_is_one_write_over_keyspaces() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let one = db.keyspace("one", KeyspaceOptions::default()).unwrap();
    let two = db.keyspace("two", KeyspaceOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.put(&one, b"k", b"1").put(&two, b"k", b"2").put(&one, b"k", b"3").delete(&two, b"x");
    let seqno = db.write(&batch).unwrap();
    assert_eq!(db.last(), seqno, "four steps, one number");
    assert_eq!(one.get(b"k").unwrap().as_deref(), Some(&b"3"[..]), "the later step stands");
    assert_eq!(two.get(b"k").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn a_batch_refused_for_one_step_does_nothing() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let mut batch = Batch::new();
    batch.put(&space, b"k", b"1").put(&space, &[0; 70_000], b"2");
    let refused = db.write(&batch).unwrap_err();
    assert_eq!(refused.to_string(), "a key of 70000 bytes is too long: at most 65535 are allowed");
    assert_eq!(space.get(b"k").unwrap(), None);
    space.put(b"k", b"still writable").unwrap();
}

#[test]
fn scans_go_both_ways_and_keep_their_moment() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    for key in ["a", "b", "c", "d"] {
        space.put(key.as_bytes(), b"old").unwrap();
    }
    let scan = space.scan(KeyRange::of("b".."d")).unwrap();
    let reverse = space.scan_reverse(KeyRange::of("b"..="d")).unwrap();
    space.put(b"b", b"new").unwrap();
    space.delete(b"c").unwrap();
    let old = |key: &str| (key.to_owned(), "old".to_owned());
    assert_eq!(pairs(scan), [old("b"), old("c")]);
    assert_eq!(pairs(reverse), [old("d"), old("c"), old("b")]);
}

#[test]
fn a_snapshot_outlives_clearing_and_dropping() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let cleared = db.keyspace("cleared", KeyspaceOptions::default()).unwrap();
    let dropped = db.keyspace("dropped", KeyspaceOptions::default()).unwrap();
    cleared.put(b"k", b"1").unwrap();
    dropped.put(b"k", b"2").unwrap();
    let snapshot = db.snapshot().unwrap();
    cleared.clear().unwrap();
    db.drop_keyspace("dropped").unwrap();
    assert_eq!(cleared.get(b"k").unwrap(), None);
    assert_eq!(dropped.get(b"k"), Err(Error::NoKeyspace { name: "dropped".to_owned() }));
    assert_eq!(snapshot.get(&cleared, b"k").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(snapshot.get(&dropped, b"k").unwrap().as_deref(), Some(&b"2"[..]));
    cleared.put(b"k", b"3").unwrap();
    drop((snapshot, cleared, dropped, db));

    let db = open(&dir);
    let names: Vec<_> = db.keyspaces().iter().map(|space| space.name().to_owned()).collect();
    assert_eq!(names, ["cleared"]);
    let cleared = db.existing_keyspace("cleared").unwrap();
    assert_eq!(cleared.get(b"k").unwrap().as_deref(), Some(&b"3"[..]), "replay skips the old one");
    let leftovers = std::fs::read_dir(dir.path().join("keyspaces/cleared")).unwrap().count();
    assert_eq!(leftovers, 1, "the old instance's files are gone");
    assert!(!dir.path().join("keyspaces/dropped").exists());
}

#[test]
fn a_database_whose_last_keyspace_is_dropped_opens_again() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    for index in 0..100_u32 {
        space.put(&index.to_be_bytes(), &[0; 1 << 20]).unwrap();
    }
    db.flush().unwrap();
    let newest = space.put(b"k", b"v").unwrap();
    db.drop_keyspace("a").unwrap();
    db.flush().unwrap();
    drop((db, space));
    let db = open(&dir);
    assert!(db.last() >= newest, "numbers are not given twice");
    db.keyspace("a", KeyspaceOptions::default()).unwrap().put(b"k", b"v").unwrap();
    drop(db);
    open(&dir);
}

#[test]
fn another_databases_keyspace_is_refused() {
    let (dir, other_dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (db, other) = (open(&dir), open(&other_dir));
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let foreign = other.keyspace("b", KeyspaceOptions::default()).unwrap();
    foreign.put(b"k", b"v").unwrap();
    let refused = Err(Error::NoKeyspace { name: "b".to_owned() });
    let keys: &[(&thermocline::Keyspace, &[u8])] = &[(&space, b"k"), (&foreign, b"k")];
    assert_eq!(db.atomically(keys, |section| section.put(1, b"w".to_vec())), refused);
    assert_eq!(db.snapshot().unwrap().get(&foreign, b"k").map(drop), refused);
    let mut batch = Batch::new();
    batch.put(&foreign, b"k", b"w");
    assert_eq!(db.write(&batch).map(drop), refused);
    assert_eq!(foreign.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn a_second_opener_is_refused() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let second = Db::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(second, Error::InUse { .. }), "{second}");
    drop(db);
    open(&dir);
}

#[test]
fn a_directory_of_something_else_is_left_alone() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("thesis.txt"), "precious").unwrap();
    let refused = Db::open(dir.path(), Options::default()).unwrap_err();
    assert!(
        matches!(&refused, Error::NotADatabase { found: Some(name), .. } if name == "thesis.txt")
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was added");
}

#[test]
fn a_missing_database_is_not_made_unasked() {
    let dir = TempDir::new().unwrap();
    let options = Options { create_if_missing: false, ..Options::default() };
    let missing = dir.path().join("nowhere");
    let refused = Db::open(&missing, options.clone()).unwrap_err();
    assert!(matches!(refused, Error::NotADatabase { found: None, .. }), "{refused}");
    assert!(!missing.exists());
    let refused = Db::open(dir.path(), options).unwrap_err();
    assert!(matches!(refused, Error::NotADatabase { found: None, .. }), "{refused}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_newer_or_damaged_catalog_is_refused_and_not_touched() {
    let dir = TempDir::new().unwrap();
    drop(open(&dir));
    let file = dir.path().join("THERMOCLINE");
    let good = std::fs::read(&file).unwrap();
    let mut newer = good.clone();
    newer[8] = 99;
    let header_crc = codec::crc32c(&newer[..12]).to_le_bytes();
    newer[12..16].copy_from_slice(&header_crc);
    std::fs::write(&file, &newer).unwrap();
    let refused = Db::open(dir.path(), Options::default()).unwrap_err();
    let Error::NewerVersion(newer) = refused else { panic!("{refused}") };
    assert_eq!(newer.newer, codec::Newer::Version { found: 99, newest: 5 });
    for at in 0..good.len() {
        let mut damaged = good.clone();
        damaged[at] ^= 0x40;
        std::fs::write(&file, &damaged).unwrap();
        let refused = Db::open(dir.path(), Options::default()).unwrap_err();
        let place = refused.corruption().unwrap_or_else(|| panic!("byte {at}: {refused}"));
        assert_eq!(place.file, "THERMOCLINE");
        assert_eq!(std::fs::read(&file).unwrap(), damaged, "byte {at}: the file was altered");
    }
}

#[test]
fn an_engine_that_does_not_exist_is_refused_with_the_names_of_all() {
    let names: Vec<&str> = EngineKind::ALL.iter().map(|engine| engine.name()).collect();
    let names = names.join(", ");
    for name in ["rocks", "sqlite", "nova", ""] {
        let unknown = name.parse::<EngineKind>().unwrap_err();
        assert!(unknown.to_string().ends_with(&names), "{unknown}");
    }
}

#[test]
fn options_that_are_not_given_open_a_keyspace_as_it_is() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    for &engine in EngineKind::ALL {
        let name = engine.to_string();
        let made =
            KeyspaceOptions { engine, journaled: false, expiring: true, ..Default::default() };
        db.keyspace(&name, made).unwrap().put(b"key", b"value").unwrap();
        let opened = db.keyspace(&name, KeyspaceOptions::default()).unwrap();
        assert_eq!(opened.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(opened.options().engine, engine);
        assert!(!opened.options().journaled && opened.options().expiring);
        // An option that is given is compared, and the others are not.
        let given = KeyspaceOptions { engine, ..Default::default() };
        assert_eq!(db.keyspace(&name, given).unwrap().options().engine, engine);
    }
    let other = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
    let refused = db.keyspace("lsm", other).unwrap_err();
    assert!(matches!(refused, Error::KeyspaceExists { engine: EngineKind::Lsm, .. }), "{refused}");
}

#[test]
fn keyspaces_keep_their_options_and_their_names_are_checked() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let unjournaled = KeyspaceOptions { journaled: false, ..KeyspaceOptions::default() };
    db.keyspace("a", unjournaled).unwrap();
    db.keyspace("journaled", KeyspaceOptions::default()).unwrap();
    let refused = db.keyspace("journaled", unjournaled).unwrap_err();
    assert!(matches!(refused, Error::KeyspaceExists { journaled: true, .. }), "{refused}");
    for name in ["", ".", "..", "-x", "a/b", "ä", "a b", &"x".repeat(65)] {
        let refused = db.keyspace(name, unjournaled).unwrap_err();
        assert!(matches!(refused, Error::BadKeyspaceName { .. }), "{name:?}: {refused}");
    }
}

#[test]
fn counters_are_exact_beside_flushes() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 2_000;
    let dir = TempDir::new().unwrap();
    let db = open(&dir).durability(Durability::Buffered);
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let environment = thermocline::Environment::real();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let space = space.clone();
            let count = move || {
                for round in 0..ROUNDS {
                    let key = (round % 3).to_be_bytes();
                    space.rmw(&key, |old| Change::Put((number(old) + 1).to_le_bytes().into()))?;
                }
                Ok::<_, Error>(())
            };
            environment.spawn("counter", count).unwrap()
        })
        .collect();
    while threads.iter().any(|thread| !thread.is_finished()) {
        space.flush().unwrap();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    let total = |space: &thermocline::Keyspace| -> u64 {
        space.scan(KeyRange::all()).unwrap().map(|pair| number(Some(&pair.unwrap().1))).sum()
    };
    assert_eq!(total(&space), THREADS * ROUNDS);
    drop((db, space));
    assert_eq!(total(&open(&dir).existing_keyspace("a").unwrap()), THREADS * ROUNDS);
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

#[test]
fn a_section_sees_its_own_writes_and_commits_or_not() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    space.put(b"x", b"1").unwrap();
    db.atomically(&[(&space, b"x"), (&space, b"y"), (&space, b"x")], |section| {
        section.put(0, b"2".to_vec())?;
        assert_eq!(section.get(2)?.as_deref(), Some(&b"2"[..]), "declared twice, one key");
        section.delete(2)?;
        assert_eq!(section.get(0)?, None);
        section.put(1, b"9".to_vec())
    })
    .unwrap();
    assert_eq!(space.get(b"x").unwrap(), None);
    let before = db.last();
    let undeclared = db.atomically(&[(&space, b"y")], |section| {
        section.delete(0)?;
        section.delete(1)
    });
    assert_eq!(undeclared, Err(Error::UndeclaredKey));
    assert_eq!(space.get(b"y").unwrap().as_deref(), Some(&b"9"[..]), "an error writes nothing");
    assert_eq!(db.last(), before);
}

#[test]
fn a_checkpoint_opens_as_a_database_of_its_moment() {
    let dir = TempDir::new().unwrap();
    let copy = TempDir::new().unwrap();
    let db = open(&dir);
    let one = db.keyspace("one", KeyspaceOptions::default()).unwrap();
    let two = db.keyspace("two", KeyspaceOptions::default()).unwrap();
    one.put(b"k", b"flushed").unwrap();
    one.flush().unwrap();
    two.put(b"k", b"journaled").unwrap();
    db.checkpoint(copy.path()).unwrap();
    one.put(b"k", b"later").unwrap();
    let refused = db.checkpoint(copy.path()).unwrap_err();
    assert!(matches!(refused, Error::NotEmpty { .. }), "{refused}");

    let other = open(&copy);
    let value = |name: &str| other.existing_keyspace(name).unwrap().get(b"k").unwrap();
    assert_eq!(value("one").as_deref(), Some(&b"flushed"[..]));
    assert_eq!(value("two").as_deref(), Some(&b"journaled"[..]));
    drop(other);
    let report = thermocline::check(copy.path()).unwrap();
    assert!(report.is_whole(), "{report:?}");
}

#[test]
fn the_memory_budget_refuses_writes_and_takes_deletes() {
    let dir = TempDir::new().unwrap();
    let limit = Options::MEMORY_BYTES_MIN;
    let options = Options { memory_bytes: limit, ..Options::default() };
    let db = Db::open(dir.path(), options.clone()).unwrap();
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let value = vec![1; 1000];
    let mut written = 0_u32;
    let refused = loop {
        match space.put(&written.to_be_bytes(), &value) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000, "the budget was never reached");
    };
    assert_eq!(refused, Error::Engine(engine::Error::OutOfMemory { limit }));
    // A leaf that splits may take a little more than was admitted.
    assert!(db.stats().memory_used_bytes <= limit + (64 << 10));
    for index in 0..written / 2 {
        space.delete(&index.to_be_bytes()).unwrap();
    }
    space.put(b"again", &value).unwrap();
    drop((db, space));
    let space = Db::open(dir.path(), options).unwrap().existing_keyspace("a").unwrap();
    let left = u64::from(written - written / 2) + 1;
    assert_eq!(space.stats().unwrap().live_keys, Some(left), "what was refused is not journaled");
}

/// Puts values of 1,000 bytes under keys from `first` on until one is refused; the next number.
fn fill(space: &thermocline::Keyspace, first: u32) -> u32 {
    let mut next = first;
    while space.put(&next.to_be_bytes(), &[1; 1000]).is_ok() {
        next += 1;
        assert!(next < first + 100_000, "the budget was never reached");
    }
    next
}

#[test]
fn what_was_taken_under_a_memory_setting_opens_under_it() {
    let dir = TempDir::new().unwrap();
    let options = Options { memory_bytes: 8 << 20, ..Options::default() };
    let db = Db::open(dir.path(), options.clone()).unwrap();
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let first = fill(&space, 0);
    for number in 0..first {
        space.delete(&number.to_be_bytes()).unwrap();
    }
    let second = fill(&space, first);
    for number in first..first + (second - first) / 2 {
        space.delete(&number.to_be_bytes()).unwrap();
    }
    let third = fill(&space, second);
    assert!(third > second, "there was room again");
    let live = space.live_keys().unwrap();
    drop((db, space));
    // All of it is in the journal: nothing was flushed.
    for flush in [false, true] {
        let db = Db::open(dir.path(), options.clone()).unwrap();
        assert_eq!(db.existing_keyspace("a").unwrap().live_keys().unwrap(), live);
        if flush {
            db.flush().unwrap();
        }
        db.close().unwrap();
    }
    Db::open(dir.path(), options).unwrap();
}

#[test]
fn data_far_above_a_lowered_memory_setting_are_not_opened() {
    let dir = TempDir::new().unwrap();
    let of = |bytes: u64| Options { memory_bytes: bytes, ..Options::default() };
    let db = Db::open(dir.path(), of(32 << 20)).unwrap();
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    fill(&space, 0);
    let live = space.live_keys().unwrap();
    drop((db, space));
    // Once from the journal, once from a snapshot.
    for _ in 0..2 {
        let refused = Db::open(dir.path(), of(8 << 20)).unwrap_err();
        let Error::MemoryTooSmall { limit, needed } = refused else { panic!("{refused}") };
        assert_eq!(limit, 8 << 20);
        // Somewhat more than the values, and no more than that.
        let values = live.unwrap() * 1000;
        assert!((values..values + values / 4).contains(&needed), "{needed}, values {values}");
        let less = Db::open(dir.path(), of(needed / 3 * 2));
        assert!(matches!(less, Err(Error::MemoryTooSmall { .. })), "a third less is too little");
        let db = Db::open(dir.path(), of(needed)).unwrap();
        assert_eq!(db.existing_keyspace("a").unwrap().live_keys().unwrap(), live);
        db.flush().unwrap();
        db.close().unwrap();
    }

    // A little above it, growth is refused, and everything else works.
    let db = Db::open(dir.path(), of(28 << 20)).unwrap();
    let space = db.existing_keyspace("a").unwrap();
    let full = Error::Engine(engine::Error::OutOfMemory { limit: 28 << 20 });
    assert_eq!(space.put(b"new", &[0; 8 << 20]).unwrap_err(), full);
    assert!(space.get(&0_u32.to_be_bytes()).unwrap().is_some());
    space.delete(&0_u32.to_be_bytes()).unwrap();
}

/// A refusal counts each key once, whether it is in the snapshot, in the replayed records or in the
/// rest.
#[test]
fn memory_said_to_be_needed_is_what_is_needed() {
    let of = |bytes: u64| Options { memory_bytes: bytes, ..Options::default() };
    for (flushed, other) in
        [(0, None), (1, None), (2, None), (0, Some(EngineKind::Lsm)), (1, Some(EngineKind::FlexDb))]
    {
        let dir = TempDir::new().unwrap();
        let db = Db::open(dir.path(), of(64 << 20)).unwrap();
        let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
        let other = other.map(|engine| {
            let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
            db.keyspace("other", options).unwrap()
        });
        for round in 0..2_u8 {
            for number in 0..16_000_u32 {
                // Keys come and go, and are written again.
                let key = (number * 7 % 16_000).to_be_bytes();
                space.put(&key, &[round; 1000]).unwrap();
                if number >= 12_000 {
                    space.delete(&key).unwrap();
                }
                if let Some(other) = &other {
                    other.put(&key, &[round; 1000]).unwrap();
                }
            }
            if round < flushed {
                space.flush().unwrap();
            }
        }
        db.sync().unwrap();
        // As a killed process leaves it: a close would flush. A compaction may take a file away
        // meanwhile.
        let copies = (0..20).map(|_| {
            let copy = TempDir::new().unwrap();
            let both = [dir.path().join("."), copy.path().to_owned()];
            let copied = std::process::Command::new("cp").arg("-r").args(both).status().unwrap();
            copied.success().then_some(copy)
        });
        let dir = copies.flatten().next().expect("compactions come to an end");
        drop((db, space, other));
        let refused = Db::open(dir.path(), of(8 << 20)).unwrap_err();
        let Error::MemoryTooSmall { needed, .. } = refused else { panic!("{refused}") };
        let said = format!("{flushed} flushed: {needed}");
        assert!((12_000_000..16_000_000).contains(&needed), "{said}");
        let db = Db::open(dir.path(), of(needed)).unwrap();
        let keys = db.existing_keyspace("a").unwrap().live_keys().unwrap();
        assert_eq!(keys, Some(12_000), "{said}");
        db.close().unwrap();
    }
}

#[test]
fn a_keyspace_whose_files_are_lost_is_damage_and_not_empty() {
    for empty in [false, true] {
        let dir = TempDir::new().unwrap();
        let options = KeyspaceOptions { journaled: false, ..KeyspaceOptions::default() };
        let db = Db::open(dir.path(), Options::default()).unwrap();
        db.keyspace("a", options).unwrap().put(b"k", b"v").unwrap();
        db.close().unwrap();
        drop(db);
        let lost = dir.path().join("keyspaces/a/1");
        std::fs::remove_dir_all(&lost).unwrap();
        if empty {
            std::fs::create_dir(&lost).unwrap();
        }
        let report = thermocline::check(dir.path()).unwrap();
        assert_eq!((report.damage.len(), lost.exists()), (1, empty), "{report:?}");
        assert_eq!(report.damage[0].file, "keyspaces/a/1");
        let db = Db::open(dir.path(), Options::default()).unwrap();
        let refused = db.keyspace("a", options).unwrap_err();
        assert!(matches!(refused, Error::DamagedKeyspace { .. }), "{refused}");
        assert_eq!(refused.corruption(), Some(&report.damage[0]));
        db.close().unwrap();
        assert_eq!(lost.exists(), empty, "nothing was made in its place");
    }
}

#[test]
fn a_file_is_no_database() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    #[expect(clippy::disallowed_methods, reason = "writes what the test is about")]
    std::fs::write(&path, "text").unwrap();
    for refused in [
        Db::open(&path, Options::default()).unwrap_err(),
        Db::open(&path, Options { create_if_missing: false, ..Options::default() }).unwrap_err(),
        thermocline::check(&path).unwrap_err(),
    ] {
        assert!(matches!(refused, Error::NotADirectory { .. }), "{refused}");
    }
}

#[test]
fn threads_beyond_reason_are_not_started() {
    let dir = TempDir::new().unwrap();
    let options = Options { background_threads: usize::MAX, ..Options::default() };
    let db = Db::open(dir.path(), options).unwrap();
    db.keyspace("a", KeyspaceOptions::default()).unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
}

#[test]
fn memory_that_no_database_could_do_with_is_refused_and_nothing_made() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("db");
    let options = Options { memory_bytes: Options::MEMORY_BYTES_MIN - 1, ..Options::default() };
    let refused = Db::open(&path, options.clone()).unwrap_err();
    let needed = Options::MEMORY_BYTES_MIN;
    assert_eq!(refused, Error::MemoryTooSmall { limit: options.memory_bytes, needed });
    assert!(!path.exists());
}

#[test]
fn handles_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<Db>();
    shared::<thermocline::Keyspace>();
    shared::<thermocline::Snapshot>();
    sent::<thermocline::Scan>();
    let _: Option<Arc<Db>> = None;
}

fn journal_files(path: &std::path::Path) -> usize {
    let names = std::fs::read_dir(path.join("journal")).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|name| name.extension().is_some_and(|extension| extension == "journal")).count()
}

#[test]
fn short_openings_do_not_pile_up_journal() {
    let dir = TempDir::new().unwrap();
    let open = || Db::open(dir.path(), Options::default()).unwrap();
    let db = open();
    db.keyspace("a", KeyspaceOptions::default()).unwrap().put(b"k", b"v").unwrap();
    db.close().unwrap();
    drop(db);
    for _ in 0..10 {
        let db = open();
        assert!(db.existing_keyspace("a").unwrap().get(b"k").unwrap().is_some());
    }
    assert_eq!(journal_files(dir.path()), 2);
    for number in 0..100_u32 {
        let db = open();
        let space = db.existing_keyspace("a").unwrap();
        assert_eq!(space.live_keys().unwrap(), Some(1 + u64::from(number)));
        space.put(&number.to_be_bytes(), b"v").unwrap();
        assert!(journal_files(dir.path()) <= 34, "after {number} puts");
    }
}

#[test]
fn clearing_and_dropping_give_the_journal_back_at_once() {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path(), Options::default()).unwrap();
    let made = |name: &str| db.keyspace(name, KeyspaceOptions::default()).unwrap();
    made("idle").put(b"k", b"v").unwrap();
    db.flush().unwrap();
    let large = 32 << 20;
    for drop_it in [false, true] {
        let space = made("large");
        let value = vec![7; 1 << 20];
        for number in 0..40_u32 {
            space.put(&number.to_be_bytes(), &value).unwrap();
        }
        assert!(db.stats().disk_bytes() > large);
        if drop_it {
            db.drop_keyspace("large").unwrap()
        } else {
            space.clear().unwrap()
        }
        assert!(db.stats().disk_bytes() < 1 << 20, "{:?}", db.stats());
    }
    assert!(made("idle").get(b"k").unwrap().is_some());
}

#[test]
fn a_large_idle_keyspace_does_not_hold_the_journal_back() {
    let dir = TempDir::new().unwrap();
    let options = Options { journal_bytes: 1 << 20, ..Options::default() };
    let db = Db::open(dir.path(), options).unwrap();
    let made = |name: &str| db.keyspace(name, KeyspaceOptions::default()).unwrap();
    let (idle, busy) = (made("idle"), made("busy"));
    let value = vec![7; 1 << 20];
    for number in 0..60_u32 {
        idle.put(&number.to_be_bytes(), &value).unwrap();
    }
    db.flush().unwrap();
    assert!(db.stats().journal.bytes < 1 << 20, "it begins empty");
    // Much less than the idle data, and enough that a segment is worth ending.
    for _ in 0..20 {
        busy.put(b"k", &value).unwrap();
    }
    let snapshots = |name: &str| {
        let stats = db.existing_keyspace(name).unwrap().stats().unwrap();
        stats.detail.iter().find(|(name, _)| *name == "snapshots_written").unwrap().1
    };
    let written = snapshots("idle");
    let clock = environment::Environment::real();
    let deadline = clock.now() + std::time::Duration::from_secs(20);
    // The last record may stay: it is no longer than the snapshot that its keyspace would write.
    while db.stats().journal.bytes > 2 << 20 {
        assert!(clock.now() < deadline, "it was not trimmed: {:?}", db.stats());
        clock.sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(snapshots("idle"), written, "its data were not written again");
}

#[test]
fn a_clearing_beside_a_close_leaves_the_journal_of_others() {
    for _ in 0..3 {
        let dir = TempDir::new().unwrap();
        let open = || Db::open(dir.path(), Options::default()).unwrap();
        let journaled = KeyspaceOptions::default();
        // Several segments of journal, so that older ones can be removed.
        for number in 0..3_u32 {
            let db = open();
            db.keyspace("a", journaled).unwrap().put(&number.to_be_bytes(), b"v").unwrap();
            db.close().unwrap();
        }
        let db = open();
        // Closing takes a while, since the first keyspace has to be written.
        let unjournaled = KeyspaceOptions { journaled: false, ..journaled };
        let slow = db.keyspace("0", unjournaled).unwrap();
        for key in 0..100_000_u32 {
            slow.put(&key.to_be_bytes(), &[7; 1000]).unwrap();
        }
        // Giving the journal back takes a while, since all of these are idle.
        (0..30).for_each(|name| drop(db.keyspace(&format!("idle-{name}"), journaled).unwrap()));
        let cleared = db.keyspace("b", journaled).unwrap();
        db.keyspace("a", journaled).unwrap().put(b"last", b"v").unwrap();
        std::thread::scope(|scope| {
            // It may come too late, or be cut short.
            let clearing = scope.spawn(|| cleared.clear());
            std::thread::yield_now();
            while !clearing.is_finished() && db.close().is_err() {}
            let _ = clearing.join().unwrap();
        });
        db.close().unwrap();
        drop((db, slow, cleared));
        let found = open().existing_keyspace("a").unwrap().live_keys().unwrap();
        assert_eq!(found, Some(4));
    }
}

#[test]
fn the_age_of_the_oldest_snapshot_is_reported() {
    let (environment, clock) = thermocline::Environment::simulated(1);
    let options = Options { environment, background_threads: 1, ..Options::default() };
    let db = Db::open_on(device::memory(), "db", options).unwrap();
    let space = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    let age = |db: &Db| db.stats().oldest_snapshot_age.map(|age| age.as_secs());
    assert_eq!(age(&db), None);
    space.put(b"k", b"1").unwrap();
    let older = db.snapshot().unwrap();
    assert_eq!(age(&db), Some(0));
    space.put(b"k", b"2").unwrap();
    clock.advance(Duration::from_secs(60));
    let younger = space.scan(KeyRange::all()).unwrap();
    assert_eq!(age(&db), Some(60));
    clock.advance(Duration::from_secs(5));
    assert_eq!(age(&db), Some(65));
    drop(older);
    assert_eq!(age(&db), Some(5), "a scan is as good as a snapshot");
    drop(younger);
    assert_eq!(age(&db), None);
}
