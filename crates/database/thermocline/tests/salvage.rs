//! A new database from the sound parts of a damaged one.

#![expect(clippy::disallowed_methods, reason = "the test plays with the database's files")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use thermocline::{
    Db, EngineKind, Error, KeyspaceOptions, Options, SalvageOutcome, SeqNo, check, salvage,
};

const KEYS: u32 = 2000;
/// Writes of which the salvaged files know.
const NUMBERS: u64 = 5 * KEYS as u64;

fn of(engine: EngineKind, journaled: bool) -> KeyspaceOptions {
    KeyspaceOptions { engine, journaled, ..KeyspaceOptions::default() }
}

fn keyspaces() -> [(&'static str, KeyspaceOptions); 4] {
    [
        ("counters", of(EngineKind::F2, false)),
        ("events", of(EngineKind::F2, true)),
        ("names", of(EngineKind::Memory, true)),
        ("rows", of(EngineKind::Lsm, true)),
    ]
}

fn value(number: u32, version: u8) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[version; 60]].concat()
}

/// A copy of a database that is open, with every key written twice: once before a flush, once in
/// part of the keyspaces after it. The last writes are in the journal alone.
fn copied(dir: &TempDir) -> PathBuf {
    let live = dir.path().join("live");
    let db = Db::open(&live, Options::default()).unwrap();
    for (name, options) in keyspaces() {
        let keyspace = db.keyspace(name, options).unwrap();
        (0..KEYS).for_each(|number| drop(keyspace.put(&number.to_be_bytes(), &value(number, 1))));
        keyspace.delete(&7_u32.to_be_bytes()).unwrap();
    }
    db.flush().unwrap();
    // These take numbers, and are in no journal.
    let counters = db.existing_keyspace("counters").unwrap();
    (0..KEYS).for_each(|number| drop(counters.put(&number.to_be_bytes(), &value(number, 1))));
    for (name, options) in keyspaces() {
        if options.journaled {
            let keyspace = db.existing_keyspace(name).unwrap();
            keyspace.put(&1_u32.to_be_bytes(), &value(1, 2)).unwrap();
            keyspace.delete(&2_u32.to_be_bytes()).unwrap();
        }
    }
    let copy = dir.path().join("copy");
    copy_dir(&live, &copy);
    assert!(db.last() > SeqNo::new(NUMBERS));
    copy
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Changes one byte in the value of `number` wherever it is below `dir`.
fn damage(dir: &Path, number: u32) -> usize {
    let (wanted, mut count) = (value(number, 1), 0);
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count += damage(&path, number);
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        let places: Vec<usize> = bytes
            .windows(wanted.len())
            .enumerate()
            .filter(|(_, at)| *at == wanted)
            .map(|(at, _)| at)
            .collect();
        if !places.is_empty() {
            places.iter().for_each(|at| bytes[at + 30] ^= 1);
            fs::write(&path, bytes).unwrap();
            count += places.len();
        }
    }
    count
}

fn must_have(db: &Db, name: &str, journaled: bool, without: Option<u32>) {
    let keyspace = db.existing_keyspace(name).unwrap();
    for number in (0..KEYS).filter(|number| without != Some(*number)) {
        let wanted = match number {
            7 => None,
            1 if journaled => Some(value(1, 2)),
            2 if journaled => None,
            number => Some(value(number, 1)),
        };
        assert_eq!(keyspace.get(&number.to_be_bytes()).unwrap(), wanted, "{name}: {number}");
    }
    if let Some(number) = without {
        assert_eq!(keyspace.get(&number.to_be_bytes()).unwrap(), None, "{name}");
    }
}

#[test]
fn a_whole_database_is_copied_with_its_journal() {
    let dir = TempDir::new().unwrap();
    let (copy, new) = (copied(&dir), dir.path().join("new"));
    let found = salvage(&copy, &new, Options::default()).unwrap();
    assert_eq!(found.damage_count(), 0, "{:?}", found.damage);
    assert!(
        found.keyspaces.iter().all(|one| one.outcome == SalvageOutcome::Copied),
        "{:?}",
        found.keyspaces
    );
    assert_eq!(found.journal_records, 6);
    assert!(check(&new).unwrap().is_whole());
    for _ in 0..2 {
        let db = Db::open(&new, Options::default()).unwrap();
        assert!(db.last() > SeqNo::new(NUMBERS), "a number would be given again: {:?}", db.last());
        for (name, options) in keyspaces() {
            must_have(&db, name, options.journaled, None);
            assert_eq!(db.existing_keyspace(name).unwrap().options(), options);
        }
        db.close().unwrap();
    }
}

#[test]
fn keyspaces_of_f2_that_do_not_open_are_salvaged_but_for_their_damage() {
    let dir = TempDir::new().unwrap();
    let (copy, new) = (copied(&dir), dir.path().join("new"));
    let damaged = ["counters", "events"];
    for name in damaged {
        assert_eq!(damage(&copy.join("keyspaces").join(name), 500), 1, "{name}");
    }
    let db = Db::open(&copy, Options::default()).unwrap();
    for name in damaged {
        let refused = db.existing_keyspace(name).unwrap_err();
        assert!(matches!(refused, Error::DamagedKeyspace { .. }), "{refused}");
    }
    // A write meanwhile is salvaged too.
    db.existing_keyspace("names").unwrap().put(b"meanwhile", b"value").unwrap();
    drop(db);
    let found = salvage(&copy, &new, Options::default()).unwrap();
    assert_eq!(found.damage_count(), 2, "{:?}", found.damage);
    assert!(found.damage[0].file.starts_with("keyspaces/counters/"), "{:?}", found.damage);
    let rewritten = |way| matches!(way, SalvageOutcome::Rewritten { writes, may_be_outdated: false } if writes >= 1999);
    for one in &found.keyspaces {
        let is_damaged = damaged.contains(&one.name.as_str());
        assert!(
            if is_damaged { rewritten(one.outcome) } else { one.outcome == SalvageOutcome::Copied },
            "{one:?}"
        );
    }
    assert_eq!(found.journal_records, 7);
    for _ in 0..2 {
        let db = Db::open(&new, Options::default()).unwrap();
        let names = db.existing_keyspace("names").unwrap();
        assert_eq!(names.get(b"meanwhile").unwrap().unwrap(), b"value");
        for (name, options) in keyspaces() {
            let without = damaged.contains(&name).then_some(500);
            must_have(&db, name, options.journaled, without);
        }
        db.close().unwrap();
    }
    assert!(check(&new).unwrap().is_whole());
    assert!(!check(&copy).unwrap().is_whole(), "the old one is as it was");
}

#[test]
fn a_keyspace_whose_files_are_gone_is_left_out_and_named() {
    let dir = TempDir::new().unwrap();
    let (copy, new) = (copied(&dir), dir.path().join("new"));
    fs::remove_dir_all(copy.join("keyspaces/names")).unwrap();
    let found = salvage(&copy, &new, Options::default()).unwrap();
    assert_eq!(found.damage_count(), 1);
    let left_out: Vec<_> =
        found.keyspaces.iter().filter(|one| one.outcome == SalvageOutcome::LeftOut).collect();
    assert_eq!(left_out.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["names"]);
    let db = Db::open(&new, Options::default()).unwrap();
    assert_eq!(db.keyspaces().len(), 3);
    must_have(&db, "rows", true, None);
}

#[test]
fn a_place_that_is_not_empty_and_one_without_a_database_are_refused() {
    let dir = TempDir::new().unwrap();
    let copy = copied(&dir);
    let refused = salvage(&copy, dir.path().join("live"), Options::default());
    assert!(matches!(refused, Err(Error::NotEmpty { .. })), "{refused:?}");
    let nothing = dir.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    let refused = salvage(&nothing, dir.path().join("new"), Options::default());
    assert!(matches!(refused, Err(Error::NotADatabase { .. })), "{refused:?}");
    assert!(!dir.path().join("new").exists(), "nothing was made");
    let open = Db::open(&copy, Options::default()).unwrap();
    let refused = salvage(&copy, dir.path().join("new"), Options::default());
    assert!(matches!(refused, Err(Error::InUse { .. })), "{refused:?}");
    drop(open);
}
