//! A keyspace whose files are damaged: the others open, it is refused by its name, and can be dropped or
//! salvaged.
//!
//! Each file of each engine is damaged in several ways and places, in an image of a database that was open.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Faults, Mode, SimulatedDisk};
use thermocline::{
    Db, EngineKind, Error, KeyspaceOptions, Lost, Options, Salvage, Way, check_on, salvage_on,
};

const KEYS: u32 = 3000;
/// Written after the flush, so that the journal alone has them, where there is one.
const LATE: std::ops::Range<u32> = 100..120;
const ENGINES: [EngineKind; 4] =
    [EngineKind::Memory, EngineKind::F2, EngineKind::Lsm, EngineKind::FlexDb];

fn options() -> Options {
    Options { memory_bytes: 64 << 20, ..Options::default() }
}

fn of(engine: EngineKind, journaled: bool) -> KeyspaceOptions {
    KeyspaceOptions { engine, journaled, ..KeyspaceOptions::default() }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn value(number: u32, version: u8) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[version; 90]].concat()
}

/// What the keyspace `hurt` has of a key.
fn expected(number: u32) -> Option<Vec<u8>> {
    match number {
        number if LATE.contains(&number) => Some(value(number, 3)),
        number if number.is_multiple_of(7) => None,
        number if number.is_multiple_of(3) => Some(value(number, 2)),
        number => Some(value(number, 1)),
    }
}

/// A database that nobody closed: `hurt`, which is to be damaged, and `sound`. It is what a power cut leaves, so
/// of one moment, whatever a compaction removes meanwhile.
fn fill(engine: EngineKind, is_sound_journaled: bool) -> Arc<dyn Device> {
    let disk = SimulatedDisk::new(1, Faults::none());
    let db = Db::open_on(Arc::clone(&disk) as Arc<dyn Device>, "live", options()).unwrap();
    let sound = db.keyspace("sound", of(EngineKind::Memory, is_sound_journaled)).unwrap();
    let hurt = db.keyspace("hurt", of(engine, true)).unwrap();
    for number in 0..KEYS {
        hurt.put(&key(number), &value(number, 1)).unwrap();
    }
    hurt.flush().unwrap();
    for number in 0..KEYS {
        if number.is_multiple_of(7) {
            hurt.delete(&key(number)).unwrap();
        } else if number.is_multiple_of(3) {
            hurt.put(&key(number), &value(number, 2)).unwrap();
        }
    }
    sound.put(b"key", b"value").unwrap();
    db.flush().unwrap();
    for number in LATE {
        hurt.put(&key(number), &value(number, 3)).unwrap();
    }
    db.sync().unwrap();
    let image = disk.crash(1);
    db.close().unwrap();
    image
}

fn copy_of(device: &Arc<dyn Device>) -> Arc<dyn Device> {
    let copy = device::memory();
    copy_dir(&**device, &*copy, "");
    copy
}

fn copy_dir(from: &dyn Device, to: &dyn Device, dir: &str) {
    for entry in from.list(dir).unwrap() {
        let name = device::join(dir, &entry.name);
        if entry.is_dir {
            to.create_dir(&name).unwrap();
            copy_dir(from, to, &name);
            continue;
        }
        let (from, to) =
            (from.open(&name, Mode::Read).unwrap(), to.open(&name, Mode::CreateNew).unwrap());
        let mut bytes = vec![0; from.len().unwrap() as usize];
        from.read_at(0, &mut bytes).unwrap();
        to.write_at(0, &bytes).unwrap();
    }
}

/// The files of the keyspace `hurt`.
fn files(device: &Arc<dyn Device>) -> Vec<String> {
    let dir = format!("keyspaces/hurt/{}", device.list("keyspaces/hurt").unwrap()[0].name);
    let names = device.list(&dir).unwrap().into_iter().map(|file| format!("{dir}/{}", file.name));
    names.collect()
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A bit, at one part in 64 of its length.
    Flip(u64),
    Cut,
    Remove,
}

impl Damage {
    const ALL: [Self; 8] = [
        Self::Flip(0),
        Self::Flip(1),
        Self::Flip(16),
        Self::Flip(40),
        Self::Flip(63),
        Self::Cut,
        Self::Remove,
        Self::Flip(22),
    ];

    fn do_to(self, device: &Arc<dyn Device>, name: &str) {
        match self {
            Self::Remove => device.remove(name).unwrap(),
            Self::Cut => {
                let file = device.open(name, Mode::Write).unwrap();
                file.set_len(file.len().unwrap() / 2).unwrap();
            }
            Self::Flip(part) => {
                let file = device.open(name, Mode::Write).unwrap();
                let len = file.len().unwrap();
                if len > 0 {
                    let at = (len * part / 64 + 5).min(len - 1);
                    let mut byte = [0];
                    file.read_at(at, &mut byte).unwrap();
                    file.write_at(at, &[byte[0] ^ 4]).unwrap();
                }
            }
        }
    }
}

/// Each file, damaged in each way, in a copy of its own.
fn damages(whole: &Arc<dyn Device>) -> impl Iterator<Item = (String, Arc<dyn Device>)> {
    let cases =
        files(whole).into_iter().flat_map(|name| Damage::ALL.map(|how| (name.clone(), how)));
    cases.map(|(name, how)| {
        let copy = copy_of(whole);
        how.do_to(&copy, &name);
        (format!("{how:?} {name}"), copy)
    })
}

fn open(device: &Arc<dyn Device>, case: &str) -> Db {
    Db::open_on(Arc::clone(device), "copy", options())
        .unwrap_or_else(|error| panic!("{case}: {error}"))
}

#[test]
fn the_others_open_and_the_damaged_one_is_refused_by_its_name_and_place() {
    for engine in ENGINES {
        let mut refusals = 0;
        for (case, device) in damages(&fill(engine, true)) {
            let case = format!("{engine}: {case}");
            let report = check_on(Arc::clone(&device), "copy").unwrap();
            let db = open(&device, &case);
            let sound = db.existing_keyspace("sound").unwrap();
            assert_eq!(sound.get(b"key").unwrap().unwrap(), b"value", "{case}");
            sound.put(b"other", b"value").unwrap();
            match db.existing_keyspace("hurt") {
                Err(Error::DamagedKeyspace { keyspace, damage }) => {
                    refusals += 1;
                    assert_eq!(keyspace, "hurt", "{case}");
                    assert!(damage.file.starts_with("keyspaces/hurt/"), "{case}: {damage}");
                    assert!(!report.is_whole(), "{case}: {damage}, which a check does not tell");
                    must_be_refused(&db, engine, &case);
                    db.flush().unwrap();
                }
                Err(error) => panic!("{case}: {error}"),
                Ok(hurt) => {
                    let known_damage = !report.is_whole();
                    for number in 0..KEYS {
                        match hurt.get(&key(number)) {
                            Ok(found) => assert_eq!(found, expected(number), "{case}: {number}"),
                            Err(error) => {
                                assert!(error.corruption().is_some(), "{case}: {error}");
                                assert!(known_damage, "{case}: {error}, which no check tells");
                            }
                        }
                    }
                }
            }
            db.drop_keyspace("hurt").unwrap();
            // It may be closed with what is still to be told of the damage.
            let _ = db.close();
            assert!(check_on(Arc::clone(&device), "copy").unwrap().is_whole(), "{case}");
            let db = open(&device, &case);
            assert!(matches!(db.existing_keyspace("hurt"), Err(Error::NoKeyspace { .. })));
            let sound = db.existing_keyspace("sound").unwrap();
            assert_eq!(sound.get(b"other").unwrap().unwrap(), b"value", "{case}");
        }
        assert!(refusals >= 4, "{engine}: {refusals}");
    }
}

/// By every way that leads to it.
fn must_be_refused(db: &Db, engine: EngineKind, case: &str) {
    let is_damage = |error: Error| error.corruption().is_some();
    let made = db.keyspace("hurt", of(engine, true));
    assert!(matches!(made, Err(Error::DamagedKeyspace { .. })), "{case}: {made:?}");
    let hurt = db.keyspaces().into_iter().find(|keyspace| keyspace.name() == "hurt").unwrap();
    assert!(hurt.get(b"key").is_err_and(is_damage), "{case}");
    assert!(hurt.put(b"key", b"value").is_err_and(is_damage), "{case}");
    assert!(hurt.flush().is_err_and(is_damage), "{case}");
    let mut batch = thermocline::Batch::new();
    batch.put(&db.existing_keyspace("sound").unwrap(), b"third", b"value");
    batch.put(&hurt, b"key", b"value");
    assert!(db.write(&batch).is_err_and(is_damage), "{case}");
    assert_eq!(db.existing_keyspace("sound").unwrap().get(b"third").unwrap(), None, "{case}");
    assert!(db.checkpoint_on(device::memory(), "checkpoint").is_err_and(is_damage), "{case}");
    if engine.is_ordered() {
        assert!(db.snapshot().unwrap().get(&hurt, b"key").is_err_and(is_damage), "{case}");
    }
    let troubles = db.troubles();
    assert!(troubles.iter().any(|(name, trouble)| name == "hurt" && trouble.refuses_writes));
    assert_eq!(db.failure(), None, "{case}: the database takes writes");
}

/// A key that was lost may have what it had before.
fn versions(number: u32) -> [Option<Vec<u8>>; 4] {
    [None, Some(value(number, 1)), Some(value(number, 2)), Some(value(number, 3))]
}

fn may_be_lost(lost: &[Lost], key: &[u8]) -> bool {
    lost.iter().any(|lost| {
        lost.keys.as_ref().is_none_or(|keys| {
            keys.from.as_slice() <= key && keys.to.as_ref().is_none_or(|to| key <= to.as_slice())
        })
    })
}

/// Salvages, and holds what came of it to what it says. Answers how many keys are not what they were.
fn salvage(device: &Arc<dyn Device>, case: &str) -> (Salvage, u32) {
    let new = device::memory();
    let found = salvage_on((Arc::clone(device), "copy"), (Arc::clone(&new), "new"), options());
    let found = found.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(check_on(Arc::clone(&new), "new").unwrap().is_whole(), "{case}");
    let db = open(&new, case);
    let sound = db.existing_keyspace("sound").unwrap();
    assert_eq!(sound.get(b"key").unwrap().unwrap(), b"value", "{case}");
    let one = found.keyspaces.iter().find(|one| one.name == "hurt").unwrap();
    if one.way == Way::LeftOut {
        return (found, KEYS);
    }
    let hurt = db.existing_keyspace("hurt").unwrap();
    let mut others = 0;
    for number in 0..KEYS {
        let got = hurt.get(&key(number)).unwrap();
        if got != expected(number) {
            others += 1;
            assert!(may_be_lost(&one.lost, &key(number)), "{case}: {number} of {:?}", one.lost);
            assert!(versions(number).contains(&got), "{case}: {number}");
        }
    }
    (found, others)
}

#[test]
fn what_is_sound_of_it_is_salvaged_and_what_is_lost_is_named() {
    for engine in ENGINES {
        // Damage that leaves some, and damage that leaves all.
        let (mut some, mut all) = (0, 0);
        for (case, device) in damages(&fill(engine, true)) {
            let case = format!("{engine}: {case}");
            let report = check_on(Arc::clone(&device), "copy").unwrap();
            let is_whole = report.is_whole();
            let (found, others) = salvage(&device, &case);
            for damage in [&report.damage, &found.damage] {
                let is_new = |at: usize| !damage[..at].contains(&damage[at]);
                assert!((0..damage.len()).all(is_new), "{case}: told twice: {damage:?}");
            }
            assert_eq!(found.damage_count() == 0, is_whole, "{case}: {:?}", found.damage);
            assert!(others == 0 || !is_whole, "{case}: {others} keys went without a word");
            for damage in &found.damage {
                assert!(damage.file.starts_with("keyspaces/hurt/"), "{case}: {damage}");
            }
            // So little is one block to the engine that writes large ones.
            let most = if engine == EngineKind::Memory { KEYS } else { KEYS / 2 };
            some += u32::from((1..most).contains(&others));
            all += u32::from(others == 0);
        }
        assert!(some >= 1 && all >= 2, "{engine}: {some} with a part lost, {all} with none");
    }
}

/// The journal has writes that the damaged files lack: it is not trimmed, whatever else goes on.
#[test]
fn the_journal_is_kept_for_a_damaged_keyspace() {
    for (engine, is_sound_journaled) in
        ENGINES.into_iter().flat_map(|one| [(one, true), (one, false)])
    {
        let device = fill(engine, is_sound_journaled);
        let superblock = files(&device).into_iter().find(|name| name.ends_with("superblock"));
        Damage::Flip(22).do_to(&device, &superblock.unwrap());
        for round in 0..3_u8 {
            let db = open(&device, "kept");
            assert!(matches!(db.existing_keyspace("hurt"), Err(Error::DamagedKeyspace { .. })));
            let sound = db.existing_keyspace("sound").unwrap();
            for number in 0..200 {
                sound.put(&key(number), &[round; 500]).unwrap();
            }
            db.flush().unwrap();
            db.close().unwrap();
        }
        let new = device::memory();
        salvage_on((device, "copy"), (Arc::clone(&new), "new"), options()).unwrap();
        let db = open(&new, "kept");
        let hurt = db.existing_keyspace("hurt").unwrap();
        let late: BTreeMap<u32, Option<Vec<u8>>> =
            LATE.map(|number| (number, hurt.get(&key(number)).unwrap())).collect();
        assert!(
            late.iter().all(|(number, found)| *found == expected(*number)),
            "{engine}: {late:?}"
        );
        let sound = db.existing_keyspace("sound").unwrap();
        assert_eq!(sound.get(&key(7)).unwrap(), Some(vec![2; 500]), "{engine}");
    }
}

/// A new journal in its place would say that nothing was written beyond the keyspaces' own files.
#[test]
fn a_database_without_its_journal_is_refused_and_salvaged() {
    for engine in ENGINES {
        for is_dir_removed in [false, true] {
            let device = fill(engine, true);
            match is_dir_removed {
                true => device.remove_dir("journal").unwrap(),
                false => device.list("journal").unwrap().iter().for_each(|segment| {
                    device.remove(&device::join("journal", &segment.name)).unwrap();
                }),
            }
            let report = check_on(Arc::clone(&device), "copy").unwrap();
            let [missing] = report.damage.as_slice() else { panic!("{engine}: {report:?}") };
            let told = (missing.file.as_str(), missing.what.as_str());
            assert_eq!(told, ("journal", "the journal is missing"), "{engine}");
            let refused = Db::open_on(Arc::clone(&device), "copy", options()).unwrap_err();
            assert_eq!(refused.corruption(), Some(missing), "{engine}: {refused}");
            let refused = Db::open_read_only_on(Arc::clone(&device), "copy", options());
            assert_eq!(refused.unwrap_err().corruption(), Some(missing), "{engine}");
            let is_there = device.exists("journal").unwrap();
            assert!(!is_there || device.list("journal").unwrap().is_empty(), "{engine}");

            let new = device::memory();
            let found = salvage_on((device, "copy"), (Arc::clone(&new), "new"), options()).unwrap();
            assert_eq!(found.damage.as_slice(), std::slice::from_ref(missing), "{engine}");
            assert!(check_on(Arc::clone(&new), "new").unwrap().is_whole(), "{engine}");
            let hurt = open(&new, "salvaged").existing_keyspace("hurt").unwrap();
            for number in (0..KEYS).filter(|number| !LATE.contains(number)) {
                assert_eq!(hurt.get(&key(number)).unwrap(), expected(number), "{engine}: {number}");
            }
            let is_as_it_was = |number: u32| hurt.get(&key(number)).unwrap() == expected(number);
            assert!(!LATE.into_iter().any(is_as_it_was), "{engine}: the journal alone had them");
        }
    }
}

/// What opening says a check has said before, and salvage does not pass over.
#[test]
fn a_journal_without_its_oldest_segment_is_damaged() {
    for engine in ENGINES {
        let device = device::memory();
        for number in 0..4 {
            let db = open(&device, "live");
            let hurt = db.keyspace("hurt", of(engine, true)).unwrap();
            hurt.put(&key(number), &value(number, 1)).unwrap();
            db.close().unwrap();
        }
        let segments = device.list("journal").unwrap();
        assert!(segments.len() > 2, "{engine}: {segments:?}");
        device.remove(&device::join("journal", &segments[0].name)).unwrap();
        let refused = Db::open_on(Arc::clone(&device), "live", options()).unwrap_err();
        let told = refused.to_string();
        let report = check_on(Arc::clone(&device), "live").unwrap();
        let [missing] = report.damage.as_slice() else { panic!("{engine}: {report:?}") };
        assert!(told.contains(&missing.what) && told.contains(&missing.file), "{engine}: {told}");
        let new = device::memory();
        let found = salvage_on((device, "live"), (Arc::clone(&new), "new"), options()).unwrap();
        assert_eq!(found.damage.as_slice(), std::slice::from_ref(missing), "{engine}");
        let hurt = open(&new, "salvaged").existing_keyspace("hurt").unwrap();
        assert_eq!(hurt.get(&key(3)).unwrap(), Some(value(3, 1)), "{engine}");
        assert_eq!(hurt.get(&key(0)).unwrap(), None, "{engine}: it was in that segment alone");
    }
}

/// A copy of such a database has no segment.
#[test]
fn keyspaces_that_are_not_journaled_want_no_journal() {
    let (device, copy) = (device::memory(), device::memory());
    let db = Db::open_on(device, "live", options()).unwrap();
    let lsm = db.keyspace("hurt", of(EngineKind::Lsm, false)).unwrap();
    lsm.put(b"key", b"value").unwrap();
    db.checkpoint_on(Arc::clone(&copy), "copy").unwrap();
    assert!(copy.list("journal").unwrap().is_empty());
    copy.remove_dir("journal").unwrap();
    assert!(check_on(Arc::clone(&copy), "copy").unwrap().is_whole());
    let hurt = open(&copy, "copied").existing_keyspace("hurt").unwrap();
    assert_eq!(hurt.get(b"key").unwrap().unwrap(), b"value");
}

/// An engine without its superblock may look like a new one, or like nothing: whatever it would make of its
/// other files, the database has told before.
#[test]
fn a_keyspace_without_its_superblock_is_damaged() {
    for engine in ENGINES {
        let device = fill(engine, true);
        let named = files(&device).into_iter().find(|name| name.ends_with("superblock")).unwrap();
        Damage::Remove.do_to(&device, &named);
        let report = check_on(Arc::clone(&device), "copy").unwrap();
        let [missing] = report.damage.as_slice() else { panic!("{engine}: {report:?}") };
        assert_eq!(missing.file, named, "{engine}");
        assert_eq!(missing.what, "the superblock of keyspace hurt is missing", "{engine}");
        let db = open(&device, "copy");
        let refused = db.existing_keyspace("hurt").unwrap_err();
        assert_eq!(refused.corruption(), Some(missing), "{engine}: {refused}");
        assert_eq!(db.existing_keyspace("sound").unwrap().get(b"key").unwrap().unwrap(), b"value");
        db.close().unwrap();
        assert!(!device.exists(&named).unwrap(), "{engine}: nothing was made in its place");
    }
}
