//! Files that do not belong together, and files that are lost: opening refuses them and changes
//! nothing, the check reports them, and salvage brings the rest to a new database.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Faults, Mode, SimulatedDisk};
use thermocline::{
    Backups, Batch, Db, Durability, EngineKind, Error, Keyspace, KeyspaceOptions, Options,
    Progress, Salvage, SalvageOutcome, check_on, salvage_on,
};

fn options() -> Options {
    Options { memory_bytes: 64 << 20, ..Options::default() }
}

fn of(engine: EngineKind) -> KeyspaceOptions {
    KeyspaceOptions { engine, ..KeyspaceOptions::default() }
}

fn open(device: &Arc<dyn Device>) -> Result<Db, Error> {
    Ok(Db::open_on(Arc::clone(device), "db", options())?.durability(Durability::Synced))
}

/// All files below `dir`.
fn files(device: &dyn Device, dir: &str, into: &mut BTreeMap<String, Vec<u8>>) {
    for entry in device.list(dir).unwrap() {
        let name = device::join(dir, &entry.name);
        if entry.is_dir {
            files(device, &name, into);
        } else {
            into.insert(name.clone(), read(device, &name));
        }
    }
}

fn everything(device: &dyn Device) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    files(device, "", &mut found);
    found.remove("LOCK");
    found
}

fn read(device: &dyn Device, name: &str) -> Vec<u8> {
    let file = device.open(name, Mode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn put_file(device: &dyn Device, name: &str, content: &[u8]) {
    if let Some((dir, _)) = name.rsplit_once('/') {
        device.create_dir(dir).unwrap();
    }
    let file = device.open(name, Mode::Create).unwrap();
    file.set_len(0).unwrap();
    file.write_at(0, content).unwrap();
}

fn copy_dir(from: &dyn Device, to: &dyn Device, dir: &str) {
    let mut found = BTreeMap::new();
    files(from, dir, &mut found);
    found.into_iter().for_each(|(name, content)| put_file(to, &name, &content));
}

/// A device with a copy of all files.
pub(crate) fn copy_of(device: &dyn Device) -> Arc<dyn Device> {
    let copy = device::memory();
    copy_dir(device, &*copy, "");
    copy.create_dir("keyspaces").unwrap();
    copy
}

fn segments(device: &dyn Device) -> Vec<String> {
    let names = device.list("journal").unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".journal")).map(|name| format!("journal/{name}")).collect()
}

/// Opening, read-only opening and the check report the same; `file` is named. Returns the report of
/// salvage, and the new database.
fn refused(device: &Arc<dyn Device>, file: &str, case: &str) -> (Salvage, Db) {
    let report = check_on(Arc::clone(device), "db").unwrap();
    let is_it = |damage: &thermocline::Corruption| damage.file.contains(file);
    assert!(report.damage.iter().any(is_it), "{case}: {report:?}");
    for opened in [open(device), Db::open_read_only_on(Arc::clone(device), "db", options())] {
        let refusal = opened.expect_err(case);
        let damage = refusal.corruption().unwrap_or_else(|| panic!("{case}: {refusal}"));
        assert!(is_it(damage), "{case}: {damage}");
    }
    let new = device::memory();
    let found = salvage_on((Arc::clone(device), "db"), (Arc::clone(&new), "new"), options());
    let found = found.unwrap();
    assert!(found.damage.iter().any(is_it), "{case}: {:?}", found.damage);
    assert!(check_on(Arc::clone(&new), "new").unwrap().is_whole(), "{case}");
    let db = open(&new).unwrap();
    (found, db)
}

fn put_all(keyspace: &Keyspace, value: &[u8]) {
    for key in 0..20 {
        keyspace.put(&[key], value).unwrap();
    }
}

fn keys(db: &Db, keyspace: &str) -> Vec<u8> {
    let keyspace = db.existing_keyspace(keyspace).unwrap();
    (0..20).filter(|key| keyspace.get(&[*key]).unwrap().is_some()).collect()
}

/// A database that was opened four times, each time for a write to two keyspaces, and closed.
fn closed(engine: EngineKind) -> Arc<dyn Device> {
    let device = device::memory();
    for key in 0..4 {
        let db = open(&device).unwrap();
        let (a, b) = (db.keyspace("a", of(engine)).unwrap(), db.keyspace("b", of(engine)).unwrap());
        db.write(Batch::new().put(&a, &[key], b"1").put(&b, &[key], b"1")).unwrap();
        db.close().unwrap();
    }
    device
}

#[test]
fn a_lost_segment_of_a_closed_database_is_reported() {
    for &engine in EngineKind::ALL {
        let device = closed(engine);
        let names = segments(&*device);
        assert!(names.len() > 3, "{engine}: {names:?}");
        for (lost, name) in names.iter().enumerate() {
            let copy = copy_of(&*device);
            copy.remove(name).unwrap();
            let before = everything(&*copy);
            let case = format!("{engine}: {name}");
            let newest = lost + 1 == names.len();
            // Of a gap the file after it is named.
            let named = if newest { name.as_str() } else { "journal/" };
            let (_, new) = refused(&copy, named, &case);
            if newest {
                assert!(before == everything(&*copy), "{case}: something was changed");
                assert_eq!(keys(&new, "a"), [0, 1, 2], "{case}");
            }
            assert_eq!(keys(&new, "a"), keys(&new, "b"), "{case}");
        }
        let copy = copy_of(&*device);
        copy.remove("journal/END").unwrap();
        let (_, new) = refused(&copy, "journal/END", &format!("{engine}: END"));
        assert_eq!(keys(&new, "b"), [0, 1, 2, 3], "{engine}");
    }
}

#[test]
fn a_lost_newest_segment_is_reported_after_a_kill() {
    for &engine in EngineKind::ALL {
        for is_flushed in [false, true] {
            let device = closed(engine);
            let db = open(&device).unwrap();
            let (a, b) = (db.existing_keyspace("a").unwrap(), db.existing_keyspace("b").unwrap());
            db.write(Batch::new().put(&a, &[9], b"1").put(&b, &[9], b"1")).unwrap();
            if is_flushed {
                a.flush().unwrap();
            }
            let copy = copy_of(&*device);
            db.close().unwrap();
            let newest = segments(&*copy).pop().unwrap();
            copy.remove(&newest).unwrap();
            let case = format!("{engine}, flushed: {is_flushed}");
            refused(&copy, &newest, &case);
        }
    }
}

/// An archive whose journal is older than the keyspaces, as `tar` and `rsync` make one of a running
/// database.
#[test]
fn a_copy_whose_journal_is_older_than_its_keyspaces_is_refused() {
    for &engine in EngineKind::ALL {
        let device = device::memory();
        let db = open(&device).unwrap();
        let a = db.keyspace("a", of(engine)).unwrap();
        let b = db.keyspace("b", KeyspaceOptions::default()).unwrap();
        db.write(Batch::new().put(&a, b"n", b"1").put(&b, b"n", b"1")).unwrap();
        let copy = device::memory();
        put_file(&*copy, "THERMOCLINE", &read(&*device, "THERMOCLINE"));
        copy_dir(&*device, &*copy, "journal");
        db.write(Batch::new().put(&a, b"n", b"2").put(&b, b"n", b"2")).unwrap();
        a.flush().unwrap();
        copy_dir(&*device, &*copy, "keyspaces");
        db.close().unwrap();
        let (found, new) = refused(&copy, "journal/", &engine.to_string());
        let damage = &found.damage[0];
        assert!(damage.what.contains("keyspace \"a\""), "{engine}: {damage}");
        let value = |name: &str| new.existing_keyspace(name).unwrap().get(b"n").unwrap().unwrap();
        assert_eq!((value("a"), value("b")), (b"2".to_vec(), b"1".to_vec()), "{engine}");
        // The salvaged database is whole: its journal reaches as far as its files.
        new.close().unwrap();
    }
}

/// Unjournaled writes take numbers that no journal has.
#[test]
fn numbers_that_no_journal_has_are_not_wanted_of_it() {
    for &engine in EngineKind::ALL {
        let device = device::memory();
        let loose = KeyspaceOptions { journaled: false, ..of(engine) };
        for (round, &other) in EngineKind::ALL.iter().take(3).enumerate() {
            let db = open(&device).unwrap();
            let space = db.keyspace("loose", loose).unwrap();
            put_all(&space, b"1");
            space.flush().unwrap();
            let made = db.keyspace(&format!("made-{round}"), of(other)).unwrap();
            put_all(&space, b"2");
            made.flush().unwrap();
            if round == 1 {
                made.put(b"key", b"value").unwrap();
                put_all(&space, b"2");
                db.flush().unwrap();
            }
            let copy = device::memory();
            db.checkpoint_on(Arc::clone(&copy), "copy").unwrap();
            for killed in [copy, copy_of(&*device)] {
                let report = check_on(Arc::clone(&killed), "db").unwrap();
                assert!(report.is_whole(), "{engine}: {report:?}");
                open(&killed).unwrap().close().unwrap();
            }
            db.close().unwrap();
            assert!(check_on(Arc::clone(&device), "db").unwrap().is_whole(), "{engine}");
        }
    }
}

#[test]
fn copies_of_a_database_whose_journal_was_trimmed_are_whole() {
    for &engine in EngineKind::ALL {
        let device = device::memory();
        let db = open(&device).unwrap();
        let (a, b) = (db.keyspace("a", of(engine)).unwrap(), db.keyspace("b", of(engine)).unwrap());
        for key in 0..20 {
            a.put(&[key], b"1").unwrap();
            b.put(&[key], b"1").unwrap();
            if key % 5 == 0 {
                db.flush().unwrap();
            }
            if key % 3 == 0 {
                a.flush().unwrap();
            }
            let copy = device::memory();
            db.checkpoint_on(Arc::clone(&copy), "copy").unwrap();
            let report = check_on(Arc::clone(&copy), "copy").unwrap();
            assert!(report.is_whole(), "{engine}: {report:?}");
            let (opened, new) = (open(&copy).unwrap(), device::memory());
            assert_eq!(keys(&opened, "a").len(), usize::from(key) + 1, "{engine}");
            opened.close().unwrap();
            let found = salvage_on((copy, "copy"), (Arc::clone(&new), "new"), options()).unwrap();
            assert_eq!(found.damage_count(), 0, "{engine}: {:?}", found.damage);
            assert!(check_on(Arc::clone(&new), "new").unwrap().is_whole(), "{engine}");
            assert_eq!(keys(&open(&new).unwrap(), "b").len(), usize::from(key) + 1, "{engine}");
        }
        let (backups, restored) = (device::memory(), device::memory());
        let backups = Backups::open_on(backups, "backups").unwrap();
        db.flush().unwrap();
        db.backup(&backups, &Progress::default()).unwrap();
        backups.restore_on(None, &restored, "restored", &Progress::default()).unwrap();
        assert_eq!(keys(&open(&restored).unwrap(), "b").len(), 20, "{engine}");
    }
}

/// A database with an older catalog, and the newer one: `old` was there before, `new` was made and
/// `cleared` was cleared after it.
fn with_older_catalog(engine: EngineKind) -> (Arc<dyn Device>, Vec<u8>) {
    let device = device::memory();
    let db = open(&device).unwrap();
    let space = |name: &str| db.keyspace(name, of(engine)).unwrap();
    space("old").put(&[1], b"1").unwrap();
    space("cleared").put(&[1], b"1").unwrap();
    let older = read(&*device, "THERMOCLINE");
    space("new").put(&[2], b"2").unwrap();
    space("cleared").clear().unwrap();
    space("cleared").put(&[3], b"3").unwrap();
    db.close().unwrap();
    drop(db);
    let newer = read(&*device, "THERMOCLINE");
    put_file(&*device, "THERMOCLINE", &older);
    (device, newer)
}

#[test]
fn an_older_catalog_is_refused_and_nothing_is_changed() {
    for &engine in EngineKind::ALL {
        let (device, newer) = with_older_catalog(engine);
        let before = everything(&*device);
        let refusal = open(&device).unwrap_err();
        assert!(matches!(refusal, Error::OlderCatalog { .. }), "{engine}: {refusal}");
        let (found, new) = refused(&device, "THERMOCLINE", &engine.to_string());
        assert!(before == everything(&*device), "{engine}: something was changed");
        // Salvage knows the keyspaces by their directories.
        for db in [new, {
            put_file(&*device, "THERMOCLINE", &newer);
            open(&device).unwrap()
        }] {
            let found = ["old", "new", "cleared"].map(|name| keys(&db, name));
            assert_eq!(found, [[1], [2], [3]], "{engine}");
        }
        assert!(
            found.keyspaces.iter().all(|one| one.outcome == SalvageOutcome::Copied),
            "{:?}",
            found.keyspaces
        );
    }
}

#[test]
fn a_journal_with_keyspaces_that_the_catalog_never_had_is_refused() {
    let device = device::memory();
    let db = open(&device).unwrap();
    db.keyspace("old", of(EngineKind::Lsm)).unwrap().put(&[1], b"1").unwrap();
    let older = read(&*device, "THERMOCLINE");
    db.keyspace("new", of(EngineKind::Lsm)).unwrap().put(&[2], b"2").unwrap();
    let copy = copy_of(&*device);
    db.close().unwrap();
    copy.remove_dir("keyspaces/new").unwrap();
    put_file(&*copy, "THERMOCLINE", &older);
    let refusal = open(&copy_of(&*copy)).unwrap_err();
    assert!(matches!(refusal, Error::OlderCatalog { .. }), "{refusal}");
    let (_, new) = refused(&copy, "THERMOCLINE", "records alone");
    assert_eq!(keys(&new, "old"), [1]);
}

#[test]
fn files_and_directories_of_others_stay() {
    let device = device::memory();
    let foreign = [
        "keyspaces/notes",
        "keyspaces/mine/notes",
        "keyspaces/mine/7/notes",
        "keyspaces/b/2/notes",
        "keyspaces/b/2/superblock",
        "keyspaces/b/3/KEYSPACE",
        "keyspaces/b/4/KEYSPACE.making",
        "keyspaces/a/notes",
        "keyspaces/a/1.old/superblock",
    ];
    let db = open(&device).unwrap();
    db.keyspace("a", KeyspaceOptions::default()).unwrap().put(&[1], b"1").unwrap();
    db.close().unwrap();
    drop(db);
    for name in foreign {
        put_file(&*device, name, b"of the user");
    }
    device.create_dir("keyspaces/empty").unwrap();
    // Directories of a keyspace of another database, and of this one in another place.
    let other = closed(EngineKind::Lsm);
    let mut files_of_other = BTreeMap::new();
    files(&*other, "keyspaces/a", &mut files_of_other);
    for (name, content) in &files_of_other {
        put_file(&*device, name.replace("keyspaces/a/1", "keyspaces/a/40").as_str(), content);
    }
    let own = read(&*device, "keyspaces/a/1/KEYSPACE");
    put_file(&*device, "keyspaces/moved/1/KEYSPACE", &own);

    let is_there = |name: &str| read(&*device, name) == b"of the user";
    for round in 0..3 {
        let report = check_on(Arc::clone(&device), "db").unwrap();
        assert!(report.is_whole(), "round {round}: {report:?}");
        let db = open(&device).unwrap();
        let b = db.keyspace("b", KeyspaceOptions::default()).unwrap();
        b.put(&[round], b"1").unwrap();
        b.clear().unwrap();
        assert_eq!(keys(&db, "a"), [1], "round {round}");
        db.drop_keyspace("b").unwrap();
        db.close().unwrap();
        assert!(foreign.iter().all(|name| is_there(name)), "round {round}");
        assert!(device.exists("keyspaces/empty").unwrap(), "round {round}");
        assert!(device.exists("keyspaces/moved/1/KEYSPACE").unwrap(), "round {round}");
        for name in files_of_other.keys() {
            let name = name.replace("keyspaces/a/1", "keyspaces/a/40");
            assert!(device.exists(&name).unwrap(), "round {round}: {name}");
        }
    }
}

/// The files of one keyspace in the place of another's.
#[test]
fn files_of_another_keyspace_are_refused() {
    let device = closed(EngineKind::Lsm);
    let other = closed(EngineKind::Lsm);
    let other_id = other_database(&other);
    for (from, dir) in [(&device, "keyspaces/b/2"), (&other_id, "keyspaces/a/1")] {
        let copy = copy_of(&*device);
        copy.remove_dir("keyspaces/a/1").unwrap();
        let mut found = BTreeMap::new();
        files(&**from, dir, &mut found);
        for (name, content) in found {
            put_file(&*copy, name.replace(dir, "keyspaces/a/1").as_str(), &content);
        }
        let report = check_on(Arc::clone(&copy), "db").unwrap();
        let [damage] = report.damage.as_slice() else { panic!("{report:?}") };
        assert_eq!(damage.file, "keyspaces/a/1/KEYSPACE");
        let db = open(&copy).unwrap();
        let refusal = db.existing_keyspace("a").unwrap_err();
        assert!(
            matches!(&refusal, Error::DamagedKeyspace { damage: found, .. } if found == damage)
        );
        assert_eq!(keys(&db, "b"), [0, 1, 2, 3]);
    }
}

/// The whole journal of another database, whose records name keyspaces of the same ids and follow
/// what these have persisted.
#[test]
fn the_journal_of_another_database_is_refused() {
    for &engine in EngineKind::ALL {
        let device = closed(engine);
        let other = device::memory();
        let db = open(&other).unwrap();
        for name in ["a", "b"] {
            let space = db.keyspace(name, of(engine)).unwrap();
            for key in 0..50 {
                space.put(&[key], b"foreign").unwrap();
            }
        }
        drop(db);
        for name in device.list("journal").unwrap() {
            device.remove(&format!("journal/{}", name.name)).unwrap();
        }
        let mut journal = BTreeMap::new();
        files(&*other, "journal", &mut journal);
        journal.iter().for_each(|(name, content)| put_file(&*device, name, content));
        let (found, db) = refused(&device, "journal", &format!("{engine}"));
        assert_eq!(found.journal_records, 0, "{engine}");
        for name in ["a", "b"] {
            let keyspace = db.existing_keyspace(name).unwrap();
            for key in 0..50 {
                assert_ne!(keyspace.get(&[key]).unwrap().as_deref(), Some(&b"foreign"[..]));
            }
        }
    }
}

/// The same database under another id: the id is random, so another seed makes one.
fn other_database(_like: &Arc<dyn Device>) -> Arc<dyn Device> {
    let device = device::memory();
    let (environment, _clock) = thermocline::Environment::simulated(99);
    let options = Options { environment, background_threads: 2, ..options() };
    let db = Db::open_on(Arc::clone(&device), "other", options).unwrap();
    db.keyspace("a", of(EngineKind::Lsm)).unwrap().put(&[1], b"1").unwrap();
    db.close().unwrap();
    device
}

/// A power cut at every operation while keyspaces are made, cleared and dropped: the database
/// opens, and no directory is left but empty ones.
#[test]
fn keyspaces_that_a_crash_left_half_made_are_swept() {
    for seed in 0..3 {
        let disk = SimulatedDisk::new(seed, Faults::none());
        disk.keep_history();
        let db = open(&(Arc::clone(&disk) as Arc<dyn Device>)).unwrap();
        for name in ["one", "two"] {
            let space = db.keyspace(name, of(EngineKind::Memory)).unwrap();
            space.put(&[1], b"1").unwrap();
            space.clear().unwrap();
        }
        db.drop_keyspace("one").unwrap();
        db.close().unwrap();
        let history = disk.history();
        let mut replay = history.replay();
        for operation in 0..=history.last_operation() {
            replay.advance_to(operation);
            let image: Arc<dyn Device> = replay.crash(seed ^ operation);
            let db = open(&image).unwrap_or_else(|error| panic!("operation {operation}: {error}"));
            let space = db.keyspace("one", of(EngineKind::Memory)).unwrap();
            space.put(&[2], b"2").unwrap();
            let named = db.keyspaces().len();
            db.close().unwrap();
            drop((db, space));
            let report = check_on(Arc::clone(&image), "db").unwrap();
            assert!(report.is_whole(), "operation {operation}: {report:?}");
            let mut found = BTreeMap::new();
            files(&*image, "keyspaces", &mut found);
            let owners = found.keys().filter(|name| name.contains("KEYSPACE")).count();
            assert_eq!(owners, named, "operation {operation}: {:?}", found.keys());
        }
    }
}
