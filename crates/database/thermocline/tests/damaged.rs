//! A keyspace whose files are damaged: the others open, it is refused by its name, and can be
//! dropped or salvaged.
//!
//! Each file of each engine is damaged in several ways and places, in an image of a database that
//! was open.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use device::{Device, Faults, Mode, SimulatedDisk};
use thermocline::{
    Db, EngineKind, Environment, Error, KeyspaceOptions, Lost, Options, Salvage, SalvageOutcome,
    check_on, salvage_on,
};

const KEYS: u32 = 3000;
/// Written after the flush, so that the journal alone has them, where there is one.
const LATE: std::ops::Range<u32> = 100..116;

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
    // A record of `f2` with such a late value takes 256 bytes, so that all of them fill one of its
    // blocks.
    let more = if version == 3 { 228 } else { 60 + number as usize * 37 % 230 };
    [&number.to_le_bytes()[..], &vec![version; more]].concat()
}

/// Returns the value that the keyspace `hurt` has for a key.
fn expected(number: u32) -> Option<Vec<u8>> {
    match number {
        number if LATE.contains(&number) => Some(value(number, 3)),
        number if number.is_multiple_of(7) => None,
        number if number.is_multiple_of(3) => Some(value(number, 2)),
        number => Some(value(number, 1)),
    }
}

/// Returns a database that was not closed, with the keyspaces `hurt`, which is to be damaged, and
/// `sound`. It is an image of a power cut, so it is of one moment, whatever a compaction removes
/// meanwhile.
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
    let mut names = Vec::new();
    add_files(&**device, &dir, &mut names);
    names
}

/// Adds the files of a directory and of the directories in it, those of the directory first.
fn add_files(device: &dyn Device, dir: &str, names: &mut Vec<String>) {
    let (dirs, files): (Vec<_>, Vec<_>) =
        device.list(dir).unwrap().into_iter().partition(|entry| entry.is_dir);
    names.extend(files.iter().map(|file| device::join(dir, &file.name)));
    dirs.iter().for_each(|inner| add_files(device, &device::join(dir, &inner.name), names));
}

/// A change of a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// A bit, at one part in 64 of its length.
    Flip(u64),
    Cut,
    Remove,
    /// Takes this number of bytes off the end.
    Shorten(u64),
    /// Adds this number of bytes to the end, each of this value, or noise.
    Append(u64, Option<u8>),
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

    /// Changes of a file's length alone.
    const LENGTHS: [Self; 8] = [
        Self::Shorten(17),
        Self::Shorten(512),
        Self::Append(17, Some(0)),
        Self::Append(512, Some(0)),
        Self::Append(4096, Some(0)),
        Self::Append(17, None),
        Self::Append(512, None),
        Self::Append(4096, None),
    ];

    fn is_shorter(self) -> bool {
        matches!(self, Self::Shorten(..))
    }

    fn do_to(self, device: &Arc<dyn Device>, name: &str) {
        match self {
            Self::Remove => device.remove(name).unwrap(),
            Self::Cut => {
                let file = device.open(name, Mode::Write).unwrap();
                file.set_len(file.len().unwrap() / 2).unwrap();
            }
            Self::Shorten(bytes) => {
                let file = device.open(name, Mode::Write).unwrap();
                file.set_len(file.len().unwrap().saturating_sub(bytes)).unwrap();
            }
            Self::Append(bytes, fill) => {
                let file = device.open(name, Mode::Write).unwrap();
                let noise = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
                let more: Vec<u8> =
                    (1..=bytes).map(|at| fill.unwrap_or_else(|| noise(at))).collect();
                file.write_at(file.len().unwrap(), &more).unwrap();
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
    for &engine in EngineKind::ALL {
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
            // The close may still report the damage.
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
    let errors = db.background_errors();
    assert!(errors.iter().any(|(name, error)| name == "hurt" && error.refuses_writes));
    assert_eq!(db.failure(), None, "{case}: the database takes writes");
}

/// Returns the values that a key may have: a lost key may have an earlier one.
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

/// Salvages, and checks the result against its report. Returns the number of keys whose values have
/// changed.
fn salvage(device: &Arc<dyn Device>, case: &str) -> (Salvage, u32) {
    let new = device::memory();
    let found = salvage_on((Arc::clone(device), "copy"), (Arc::clone(&new), "new"), options());
    let found = found.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(check_on(Arc::clone(&new), "new").unwrap().is_whole(), "{case}");
    let db = open(&new, case);
    let sound = db.existing_keyspace("sound").unwrap();
    assert_eq!(sound.get(b"key").unwrap().unwrap(), b"value", "{case}");
    let one = found.keyspaces.iter().find(|one| one.name == "hurt").unwrap();
    if one.outcome == SalvageOutcome::LeftOut {
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
    for &engine in EngineKind::ALL {
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

/// The journal has writes that the damaged files lack: it is not trimmed, whatever else happens.
#[test]
fn the_journal_is_kept_for_a_damaged_keyspace() {
    for (engine, is_sound_journaled) in
        EngineKind::ALL.iter().flat_map(|&one| [(one, true), (one, false)])
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
    for &engine in EngineKind::ALL {
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

/// A check reports the same damage as an opening, and salvage does not pass over it.
#[test]
fn a_journal_without_its_oldest_segment_is_damaged() {
    for &engine in EngineKind::ALL {
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

/// An engine without its superblock may look like a new one, or like nothing. The database reports
/// the damage before the engine could use its other files.
#[test]
fn a_keyspace_without_its_superblock_is_damaged() {
    for &engine in EngineKind::ALL {
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

/// Small parts, so that an engine has several files of each kind.
fn in_small_parts() -> Options {
    let f2 = thermocline::f2::Options {
        page_bytes: Some(8192),
        segment_bytes: 64 << 10,
        log_memory_bytes: Some(12 * 8192),
        read_cache_bytes: Some(0),
        ..Default::default()
    };
    let lsm = thermocline::lsm::Options { table_bytes: 128 << 10, ..Default::default() };
    Options { engines: thermocline::EngineSettings::from(f2).with(lsm), ..options() }
}

/// A database that was closed and opened again several times, so that logs end within their files.
fn in_many_files(engine: EngineKind) -> Arc<dyn Device> {
    let device = device::memory();
    let has =
        |device: &Arc<dyn Device>, kind: &str| files(device).iter().any(|name| name.contains(kind));
    let write = |keys: &mut dyn Iterator<Item = u32>, version: u8| {
        let db = Db::open_on(Arc::clone(&device), "live", in_small_parts()).unwrap();
        let hurt = db.keyspace("hurt", of(engine, true)).unwrap();
        db.keyspace("sound", of(EngineKind::Memory, true)).unwrap().put(b"key", b"value").unwrap();
        for number in keys {
            let wanted = if version == 1 { Some(value(number, 1)) } else { expected(number) };
            match wanted {
                Some(wanted) => hurt.put(&key(number), &wanted).unwrap(),
                None => hurt.delete(&key(number)).unwrap(),
            };
        }
        db.flush().unwrap();
        // Records move to the cold log in the background.
        while engine == EngineKind::F2 && version == 2 && !has(&device, "/chunks-") {
            Environment::real().sleep(std::time::Duration::from_millis(5));
        }
        db.close().unwrap();
    };
    for version in [1, 2] {
        for part in 0..3 {
            write(&mut (0..KEYS).filter(|number| number % 3 == part), version);
        }
    }
    let mut late = LATE;
    write(&mut late, 3);
    device
}

/// The first file of each kind, and the last two.
fn some_of_each_kind(names: Vec<String>) -> Vec<String> {
    let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names {
        let kind = name.rsplit_once('-').map_or(name.as_str(), |(kind, _)| kind).to_owned();
        let some = kinds.entry(kind).or_default();
        if some.len() == 3 {
            some.remove(1);
        }
        some.push(name);
    }
    kinds.into_values().flatten().collect()
}

/// Returns the reason why a read of `hurt` does not find all that was written, if there is one.
fn failure_to_read(device: &Arc<dyn Device>, case: &str) -> Option<Error> {
    let db = Db::open_on(Arc::clone(device), "copy", in_small_parts());
    let db = db.unwrap_or_else(|error| panic!("{case}: {error}"));
    let hurt = match db.existing_keyspace("hurt") {
        Ok(hurt) => hurt,
        Err(refusal) => return Some(refusal),
    };
    let mut failure = None;
    for number in 0..KEYS {
        match hurt.get(&key(number)) {
            Ok(found) => assert_eq!(found, expected(number), "{case}: {number}"),
            Err(error) => failure = Some(error),
        }
    }
    let mut walked = 0;
    let walk = hurt.walk(None, |_, _| {
        walked += 1;
        std::ops::ControlFlow::Continue(())
    });
    let whole = (0..KEYS).filter(|number| expected(*number).is_some()).count();
    assert!(walk.is_err() || walked == whole, "{case}: {walked} pairs were walked over");
    failure.or(walk.err())
}

/// A file that is longer than it was written, or whose last block is short.
#[test]
fn check_reads_and_salvage_agree_on_a_file_of_another_length() {
    for &engine in EngineKind::ALL {
        let whole = in_many_files(engine);
        assert_eq!(failure_to_read(&copy_of(&whole), "whole"), None, "{engine}");
        let mut wrong = Vec::new();
        let names = some_of_each_kind(files(&whole));
        let cases = names.iter().flat_map(|name| Damage::LENGTHS.map(|how| (name, how)));
        for (name, how) in cases {
            let case = format!("{engine}: {how:?} {name}");
            let device = copy_of(&whole);
            how.do_to(&device, name);
            let report = check_on(Arc::clone(&device), "copy").unwrap();
            let (found, others) = salvage(&device, &case);
            let failure = failure_to_read(&device, &case);
            let is_whole = report.is_whole();
            // Missing bytes may be needed by no read, and without an index `flexdb` makes one.
            let may_be_read = how.is_shorter() || name.ends_with("/index");
            if is_whole != (found.damage_count() == 0)
                || is_whole && (failure.is_some() || others > 0)
                || !is_whole && failure.is_none() && !may_be_read
            {
                wrong.push(format!("{case}: {report:?}, read {failure:?}, salvaged {found:?}"));
            }
        }
        assert!(wrong.is_empty(), "{} cases: {wrong:#?}", wrong.len());
    }
}

/// One of many files is lost: a table, a segment of a log, a part of an index.
#[test]
fn the_loss_of_any_file_is_reported() {
    for &engine in EngineKind::ALL {
        let whole = in_many_files(engine);
        let mut wrong = Vec::new();
        for name in some_of_each_kind(files(&whole)) {
            let case = format!("{engine}: without {name}");
            let device = copy_of(&whole);
            Damage::Remove.do_to(&device, &name);
            let report = check_on(Arc::clone(&device), "copy").unwrap();
            let (found, others) = salvage(&device, &case);
            let failure = failure_to_read(&device, &case);
            // Without an index `flexdb` makes one; ballast and a lock have no data.
            let holds_data = !["index", "ballast", "lock"].iter().any(|it| name.ends_with(it));
            let are_whole = [report.is_whole(), found.damage_count() == 0 && others == 0];
            let is_right = match holds_data {
                true => are_whole == [false; 2] && failure.is_some(),
                false => are_whole[0] == are_whole[1] && (!are_whole[0] || failure.is_none()),
            };
            if !is_right {
                wrong.push(format!("{case}: {report:?}, read {failure:?}, salvaged {found:?}"));
            }
        }
        assert!(wrong.is_empty(), "{} cases: {wrong:#?}", wrong.len());
    }
}
