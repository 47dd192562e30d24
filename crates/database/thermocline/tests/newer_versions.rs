//! A file that a newer release wrote is refused by its name and its version, and every byte stays.
//!
//! Each kind of file of a database with a keyspace of each engine gets the next version, or a flag
//! that no release knows, with the right checksum.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use device::{Device, Failure, Fault, FaultDevice, Lasting, Mode, OperationKind};
use environment::{Environment, ManualClock};
use flexspace::space::FlexSpace;
use thermocline::{
    Backups, Db, EngineKind, Error, KeyspaceOptions, Newer, NewerVersion, Options, Progress, check,
    check_on, salvage_on,
};

use crate::small_parts::with_small_parts;

const KEYS: u32 = 4000;
/// Bytes of a header.
const HEADER_BYTES: usize = 16;

/// All files by their names.
type Files = BTreeMap<String, Vec<u8>>;

/// A file's header of a newer release.
#[derive(Clone, Copy, Debug)]
enum Raised {
    Version,
    Flag,
}

fn options() -> Options {
    with_small_parts(Options { memory_bytes: 256 << 20, ..Options::default() })
}

/// A database that was closed in order, with all kinds of files that its engine has.
fn fill(engine: EngineKind) -> Arc<dyn Device> {
    let device = device::memory();
    let db = Db::open_on(Arc::clone(&device), "whole", options()).unwrap();
    let keyspace = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
    let space = db.keyspace("space", keyspace).unwrap();
    for round in 0..3_u8 {
        for number in 0..KEYS {
            space.put(&number.to_be_bytes(), &[round; 60]).unwrap();
        }
        space.flush().unwrap();
    }
    db.close().unwrap();
    device
}

fn read(device: &dyn Device, dir: &str, files: &mut Files) {
    for entry in device.list(dir).unwrap() {
        let name = device::join(dir, &entry.name);
        if entry.is_dir {
            read(device, &name, files);
            continue;
        }
        let file = device.open(&name, Mode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        files.insert(name, bytes);
    }
}

fn files_of(device: &Arc<dyn Device>) -> Files {
    let mut files = Files::new();
    read(&**device, "", &mut files);
    files
}

fn device_with(files: &Files) -> Arc<dyn Device> {
    let device = device::memory();
    for (name, bytes) in files {
        if let Some((dir, _)) = name.rsplit_once('/') {
            device.create_dir(dir).unwrap();
        }
        device.open(name, Mode::CreateNew).unwrap().write_at(0, bytes).unwrap();
    }
    device
}

fn has_header(bytes: &[u8]) -> bool {
    let Some(header) = bytes.get(..HEADER_BYTES) else { return false };
    codec::crc32c(&header[..12]).to_le_bytes() == header[12..]
}

fn raise(bytes: &mut [u8], raised: Raised) -> Newer {
    let version = u16::from_le_bytes([bytes[8], bytes[9]]);
    let newer = match raised {
        Raised::Version => {
            bytes[8..10].copy_from_slice(&(version + 1).to_le_bytes());
            Newer::Version { found: version + 1, newest: version }
        }
        Raised::Flag => {
            bytes[11] |= 0x80;
            Newer::Flags { unknown: 0x8000 }
        }
    };
    let checksum = codec::crc32c(&bytes[..12]);
    bytes[12..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    newer
}

/// Each kind of file, by its magic and the word that its name begins with: the first file of the
/// kind and the last, raised in each way.
fn cases(whole: &Files) -> Vec<(String, Files, Newer)> {
    let mut kinds: BTreeMap<(&[u8], &str), Vec<&String>> = BTreeMap::new();
    // The superblock describes `data`, whose first bytes may be an older header of a store.
    let described = |name: &str| name.ends_with("/data");
    for (name, bytes) in whole.iter().filter(|(name, bytes)| has_header(bytes) && !described(name))
    {
        let word = name.split_once('-').map_or(name.as_str(), |(word, _)| word);
        let word = if name.ends_with(".journal") { "journal" } else { word };
        kinds.entry((&bytes[..8], word)).or_default().push(name);
    }
    let mut cases = Vec::new();
    for names in kinds.values() {
        let chosen: BTreeSet<_> = [names[0], names[names.len() - 1]].into();
        for (name, raised) in
            chosen.into_iter().flat_map(|name| [(name, Raised::Version), (name, Raised::Flag)])
        {
            let mut files = whole.clone();
            let newer = raise(files.get_mut(name).unwrap(), raised);
            cases.push((name.clone(), files, newer));
        }
    }
    cases
}

#[track_caller]
fn must_refuse<T>(call: &str, outcome: Result<T, Error>, expected: &NewerVersion) {
    match outcome.map(drop) {
        Err(Error::NewerVersion(newer)) if newer == *expected => {}
        other => panic!("{call} of {expected:?}: {other:?}"),
    }
}

fn every_kind_is_refused(engine: EngineKind, kinds: &[&str]) {
    let whole = files_of(&fill(engine));
    let cases = cases(&whole);
    let magics: BTreeSet<_> = cases.iter().map(|(name, ..)| &whole[name][..8]).collect();
    for kind in kinds {
        assert!(
            magics.contains(kind.as_bytes()),
            "{engine} has no file {kind}: {:?}",
            whole.keys()
        );
    }
    for (file, files, newer) in cases {
        let expected = NewerVersion { file, newer };
        let device = device_with(&files);
        must_refuse("check", check_on(Arc::clone(&device), "newer"), &expected);
        must_refuse("open", Db::open_on(Arc::clone(&device), "newer", options()), &expected);
        let read_only = Db::open_read_only_on(Arc::clone(&device), "newer", options());
        must_refuse("open_read_only", read_only, &expected);
        let (old, new) = (Arc::clone(&device), device::memory());
        let salvaged = salvage_on((old, "newer"), (Arc::clone(&new), "new"), options());
        must_refuse("salvage", salvaged, &expected);
        assert!(files_of(&new).is_empty(), "nothing is salvaged of {expected}");
        assert!(files_of(&device) == files, "{engine}: something was changed of {expected}");
    }
}

#[test]
fn newer_files_of_memory_are_refused() {
    let kinds = ["TCMEMSNP", "TCSUPERB", "TCJOURNL", "TCJOUEND", "THERMOCL", "TCKEYSPC"];
    every_kind_is_refused(EngineKind::Memory, &kinds);
}

#[test]
fn newer_files_of_f2_are_refused() {
    every_kind_is_refused(EngineKind::F2, &["TCF2LOGS", "TCF2DIRS", "TCSUPERB"]);
}

#[test]
fn newer_files_of_lsm_are_refused() {
    every_kind_is_refused(EngineKind::Lsm, &["TCLSMTAB", "TCLSMMAN", "TCSUPERB"]);
}

#[test]
fn newer_files_of_flexdb_are_refused() {
    every_kind_is_refused(EngineKind::FlexDb, &["TCFLXLOG", "TCFLEXIX", "TCSUPERB"]);
}

#[test]
fn newer_files_of_hashkv_are_refused() {
    let kinds = ["TCHKVTAB", "TCHKVVOL", "TCLSMTAB", "TCLSMMAN", "TCSUPERB"];
    every_kind_is_refused(EngineKind::HashKv, &kinds);
}

/// The keyspaces in front of the refused one would be changed by their opening: each has a file
/// that a crash left.
#[test]
fn no_keyspace_is_changed_because_of_the_order_of_opening() {
    let whole = {
        let device = device::memory();
        let db = Db::open_on(Arc::clone(&device), "whole", options()).unwrap();
        for &engine in EngineKind::ALL {
            for name in ["a", "z"] {
                let keyspace = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
                let space = db.keyspace(&format!("{name}-{engine}"), keyspace).unwrap();
                for number in 0..KEYS / 4 {
                    space.put(&number.to_be_bytes(), &[1; 60]).unwrap();
                }
                space.flush().unwrap();
            }
        }
        db.close().unwrap();
        let mut files = files_of(&device);
        for (directory, file, left) in [
            ("keyspaces/a-f2/", "/log-", "log-0000000000009999"),
            ("keyspaces/a-lsm/", "/table-", "table-9999"),
            ("keyspaces/a-memory/", "/snapshot-", "snapshot-00000000000000009999"),
        ] {
            let is_one = |name: &&String| name.starts_with(directory) && name.contains(file);
            let name = files.keys().find(is_one).unwrap().clone();
            let (dir, _) = name.rsplit_once('/').unwrap();
            files.insert(format!("{dir}/{left}"), files[&name].clone());
        }
        files
    };
    let opened = device_with(&whole);
    Db::open_on(Arc::clone(&opened), "whole", options()).unwrap().close().unwrap();
    let after = files_of(&opened);
    let gone = whole.keys().filter(|name| name.contains("9999") && !after.contains_key(*name));
    assert!(gone.count() == 3, "an opening removes what a crash left: {:?}", after.keys());
    let mut refused = 0;
    for (file, files, newer) in cases(&whole) {
        let expected = NewerVersion { file, newer };
        if !expected.file.contains("/z-") {
            continue;
        }
        let device = device_with(&files);
        must_refuse("open", Db::open_on(Arc::clone(&device), "newer", options()), &expected);
        assert!(files_of(&device) == files, "something was changed because of {expected}");
        refused += 1;
    }
    assert!(refused > 4, "{refused}");
}

/// The header of a store of `flexdb` is in its space, so the space is read before it is found.
#[test]
fn a_newer_header_in_the_space_of_flexdb_changes_nothing() {
    let device = fill(EngineKind::FlexDb);
    let db = Db::open_on(Arc::clone(&device), "whole", options()).unwrap();
    for &engine in EngineKind::ALL {
        let keyspace = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
        db.keyspace(&format!("a-{engine}"), keyspace).unwrap().put(b"key", b"value").unwrap();
    }
    db.close().unwrap();
    let dir = format!("keyspaces/space/{}", device.list("keyspaces/space").unwrap()[0].name);
    let space = FlexSpace::open(device.subdevice(&dir).unwrap(), Default::default()).unwrap();
    let mut header = space.read(0, HEADER_BYTES as u64).unwrap();
    let newer = raise(&mut header, Raised::Version);
    space.pwrite(0, &header).unwrap();
    space.close().unwrap();
    drop(space);
    let files = files_of(&device);
    assert!(files.contains_key("CLOSED"));
    let expected = NewerVersion { file: format!("{dir}/data"), newer };
    must_refuse("open", Db::open_on(Arc::clone(&device), "newer", options()), &expected);
    assert!(files_of(&device) == files, "something was changed");
}

/// The same files with an engine of another build in the catalog, in place of `engine`.
fn with_unknown_engine(files: &Files, engine: EngineKind, unknown: &str) -> Files {
    let (known, mut files) = (engine.name().as_bytes(), files.clone());
    assert_eq!(known.len(), unknown.len());
    let catalog = files.values_mut().find(|bytes| bytes.starts_with(b"THERMOCL")).unwrap();
    let (head, body) = catalog.split_at_mut(HEADER_BYTES + 4);
    // With the byte of its length in front: names of keyspaces contain it, too.
    let prefixed = [&[known.len() as u8], known].concat();
    let at = body.windows(prefixed.len()).position(|bytes| bytes == prefixed).unwrap() + 1;
    body[at..at + known.len()].copy_from_slice(unknown.as_bytes());
    head[HEADER_BYTES..].copy_from_slice(&codec::crc32c(body).to_le_bytes());
    files
}

/// After a close, and after a power cut, which leaves files that an opening changes.
#[test]
fn a_catalog_with_an_unknown_engine_is_refused_and_no_file_changes() {
    let device = fill(EngineKind::FlexDb);
    let db = Db::open_on(Arc::clone(&device), "whole", options()).unwrap();
    for &engine in EngineKind::ALL {
        for place in ["a", "z"] {
            let keyspace = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
            let space = db.keyspace(&format!("{place}-{engine}"), keyspace).unwrap();
            space.put(b"key", b"value").unwrap();
        }
    }
    db.close().unwrap();
    let closed = files_of(&device);
    let mut cut = closed.clone();
    cut.remove("CLOSED").unwrap();
    cut.insert("THERMOCLINE.next".to_owned(), b"left".to_vec());
    for whole in [closed, cut] {
        let opened = device_with(&whole);
        drop(Db::open_on(Arc::clone(&opened), "whole", options()).unwrap());
        assert!(files_of(&opened) != whole, "an opening that is not refused changes something");
        let device = device_with(&with_unknown_engine(&whole, EngineKind::FlexDb, "sqlite"));
        must_refuse_unknown_engine(&device, "sqlite");
    }
}

/// Checks that each call on a database refuses the engine, and changes no file.
fn must_refuse_unknown_engine(device: &Arc<dyn Device>, unknown: &str) {
    let before = files_of(device);
    let must_refuse = |call: &str, outcome: Result<(), Error>| {
        let expected = Error::UnknownEngine { name: unknown.to_owned() };
        assert_eq!(outcome, Err(expected), "{call}");
        let after = files_of(device);
        assert!(after.keys().eq(before.keys()), "{call}: {:?}", after.keys());
        for (name, bytes) in &after {
            assert_eq!(bytes.len(), before[name].len(), "{call}: the size of {name}");
            assert!(*bytes == before[name], "{call} has changed {name}");
        }
    };
    let on = || Arc::clone(device);
    must_refuse("open", Db::open_on(on(), "unknown", options()).map(drop));
    must_refuse("open_read_only", Db::open_read_only_on(on(), "unknown", options()).map(drop));
    must_refuse("check", check_on(on(), "unknown").map(drop));
    let new = device::memory();
    let salvaged = salvage_on((on(), "unknown"), (Arc::clone(&new), "new"), options());
    must_refuse("salvage", salvaged.map(drop));
    assert!(files_of(&new).is_empty(), "nothing is salvaged");
}

/// A database whose engines have background work to do, with a last keyspace of `engine`, and its
/// directory.
fn with_work(engine: EngineKind) -> (Arc<dyn Device>, String) {
    let device = device::memory();
    let db = Db::open_on(Arc::clone(&device), "worked", options()).unwrap();
    let named = EngineKind::ALL.iter().map(|&engine| (format!("a-{engine}"), engine));
    for (name, engine) in named.chain([("space".to_owned(), engine)]) {
        let space = db.keyspace(&name, KeyspaceOptions { engine, ..Default::default() }).unwrap();
        for round in 0..3_u8 {
            for number in 0..KEYS {
                space.put(&number.to_be_bytes(), &[round; 200]).unwrap();
            }
            space.flush().unwrap();
        }
        for number in 0..KEYS * 3 / 4 {
            space.delete(&number.to_be_bytes()).unwrap();
        }
        space.flush().unwrap();
    }
    db.close().unwrap();
    let dir = format!("keyspaces/space/{}", device.list("keyspaces/space").unwrap()[0].name);
    (device, dir)
}

/// Has a second pass, and other threads run, before each file that the calling thread opens.
fn slow_down(device: &Arc<FaultDevice>, clock: &Arc<ManualClock>) {
    let (again, clock) = (Arc::clone(device), Arc::clone(clock));
    device.interpose(OperationKind::Open, move || {
        clock.advance(Duration::from_secs(1));
        (0..20).for_each(|_| std::thread::yield_now());
        slow_down(&again, &clock);
    });
}

/// Opens the database so slowly that each periodic task is due many times before the end.
fn open_slowly(faults: &Arc<FaultDevice>) -> Result<Db, Error> {
    let (environment, clock) = Environment::simulated(2);
    slow_down(faults, &clock);
    Db::open_on(Arc::clone(faults) as Arc<dyn Device>, "slow", Options { environment, ..options() })
}

#[test]
fn background_tasks_change_nothing_before_a_slow_opening_refuses_a_newer_file() {
    let (device, dir) = with_work(EngineKind::FlexDb);
    let space = FlexSpace::open(device.subdevice(&dir).unwrap(), Default::default()).unwrap();
    let mut header = space.read(0, HEADER_BYTES as u64).unwrap();
    let newer = raise(&mut header, Raised::Version);
    space.pwrite(0, &header).unwrap();
    space.close().unwrap();
    drop(space);
    let files = files_of(&device);
    let expected = NewerVersion { file: format!("{dir}/data"), newer };
    let refused = open_slowly(&FaultDevice::new(Arc::clone(&device)));
    must_refuse("a slow open", refused, &expected);
    let after = files_of(&device);
    let changed: Vec<_> =
        files.keys().filter(|name| after.get(*name) != files.get(*name)).collect();
    assert!(after == files, "{changed:?}");
}

#[test]
fn background_tasks_change_nothing_before_a_slow_opening_fails() {
    // Openings hold room in a ballast.
    let is_engines = |name: &str| name.starts_with("keyspaces/") && !name.ends_with("/ballast");
    for &engine in EngineKind::ALL {
        let (device, dir) = with_work(engine);
        let files_of = |device| {
            let mut files = files_of(device);
            files.retain(|name, _| is_engines(name));
            files
        };
        let files = files_of(&device);
        let faults = FaultDevice::new(Arc::clone(&device));
        // The names of the files are read to find newer ones; each engine lists them, or asks for
        // one, to open.
        let fault = |kind, nth| Fault {
            kind: Some(kind),
            nth,
            failure: Failure::Io,
            lasting: Lasting::ForGood,
        };
        faults.fail_in(&dir, fault(OperationKind::List, 2));
        faults.fail_in(&dir, fault(OperationKind::Exists, 1));
        let refused = open_slowly(&faults);
        assert!(refused.is_err(), "{engine} opened without its directory");
        let after = files_of(&device);
        let changed: Vec<_> =
            files.keys().filter(|name| after.get(*name) != files.get(*name)).collect();
        assert!(after == files, "{engine}: {changed:?}");
    }
}

/// Backups: each kind of file in them, and their own manifests.
#[test]
fn newer_files_in_a_backup_are_refused() {
    let target = device::memory();
    for &engine in EngineKind::ALL {
        let db = Db::open_on(fill(engine), "whole", options()).unwrap();
        let place = target.subdevice(&engine.to_string()).unwrap();
        let backups = Backups::open_on(place, "backups").unwrap();
        db.backup(&backups, &Progress::default()).unwrap();
        db.close().unwrap();
        let whole = files_of(&target.subdevice(&engine.to_string()).unwrap());
        for (file, files, newer) in cases(&whole) {
            let device = device_with(&files);
            let backups = Backups::open_on(Arc::clone(&device), "backups").unwrap();
            let place = device::memory();
            let restored = backups.restore_on(None, &place, "restored", &Progress::default());
            let is_refused =
                matches!(&restored, Err(Error::NewerVersion(found)) if found.newer == newer);
            assert!(is_refused, "{file}: {restored:?}");
            assert!(files_of(&place).is_empty(), "nothing is restored of {file}");
            if file.ends_with("BACKUP") {
                let verified = backups.verify(None, &Progress::default());
                assert_eq!(verified.map(drop), restored.map(drop), "{file}");
            }
            assert!(files_of(&device) == files, "something was changed of {file}");
        }
    }
}

/// Files that no release made, in each directory of a database. They cannot be opened, or not be
/// read.
#[test]
fn foreign_files_that_cannot_be_read_refuse_no_opening() {
    let dir = tempfile::tempdir().unwrap();
    let fill = |db: &Db, round: u8| {
        for &engine in EngineKind::ALL {
            let keyspace = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
            let space = db.keyspace(&engine.to_string(), keyspace).unwrap();
            for number in 0..KEYS / 8 {
                space.put(&number.to_be_bytes(), &[round; 60]).unwrap();
            }
            space.flush().unwrap();
        }
    };
    let db = Db::open(dir.path(), options()).unwrap();
    fill(&db, 1);
    db.close().unwrap();
    let mut places = ["", "journal", "keyspaces"].map(|name| dir.path().join(name)).to_vec();
    for &engine in EngineKind::ALL {
        let place = dir.path().join("keyspaces").join(engine.to_string());
        let instances: Vec<_> = std::fs::read_dir(place).unwrap().collect();
        places.push(instances[0].as_ref().unwrap().path());
    }
    let mut sockets = Vec::new();
    for place in places {
        std::os::unix::fs::symlink("nowhere", place.join("dangling.journal")).unwrap();
        std::os::unix::fs::symlink("z-loop", place.join("z-loop")).unwrap();
        let (pipe, kind) = (place.join("p-pipe"), rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, pipe, kind, 0o600.into(), 0).unwrap();
        sockets.push(std::os::unix::net::UnixListener::bind(place.join("m-socket")).unwrap());
    }
    for round in 1..3 {
        let db = Db::open(dir.path(), options()).unwrap();
        for &engine in EngineKind::ALL {
            let space = db.keyspace(&engine.to_string(), KeyspaceOptions::default()).unwrap();
            for number in 0..KEYS / 8 {
                let value = space.get(&number.to_be_bytes()).unwrap();
                assert_eq!(value.as_deref(), Some(&[round; 60][..]), "{engine}");
            }
        }
        fill(&db, round + 1);
        db.close().unwrap();
    }
    let report = check(dir.path()).unwrap();
    assert!(report.is_whole(), "{:?}", report.damage);
}
