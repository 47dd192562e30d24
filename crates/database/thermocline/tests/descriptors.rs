//! File descriptors: how many a database holds, and how it behaves without any.
//!
//! Limits and counts are a process's, so each test runs in a process of its own: it starts this
//! program again, for itself alone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;
use thermocline::{Backups, Db, Durability, EngineKind, Error, Keyspace, KeyspaceOptions, Options};

/// Says that a process is the one that a test started.
const CHILD: &str = "THERMOCLINE_TEST_OF_DESCRIPTORS";

/// Runs `work` in a process that may have `limit` descriptors, which the test `name` starts.
fn in_child(name: &str, limit: u64, work: fn()) {
    if std::env::var_os(CHILD).is_some() {
        let limit = Rlimit { current: Some(limit), ..getrlimit(Resource::Nofile) };
        setrlimit(Resource::Nofile, limit).unwrap();
        return work();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args([name, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// A directory in which syncs cost little, if there is such a place.
fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn options() -> Options {
    Options { memory_bytes: 16 << 30, durability: Durability::Buffered, ..Options::default() }
}

fn of(engine: EngineKind) -> KeyspaceOptions {
    KeyspaceOptions { engine, ..KeyspaceOptions::default() }
}

/// Takes all descriptors that are left.
#[expect(clippy::disallowed_methods, reason = "it wants descriptors of the system")]
fn take_all() -> Vec<std::fs::File> {
    std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect()
}

#[test]
fn keyspaces_hold_few_descriptors() {
    in_child("keyspaces_hold_few_descriptors", 1024, || {
        const KEYSPACES: usize = 8;
        // Descriptors of each keyspace, with its one table of `lsm`, which can be spared.
        let held = [
            (EngineKind::Memory, 0),
            (EngineKind::Lsm, 1),
            (EngineKind::F2, 3),
            (EngineKind::FlexDb, 6),
            (EngineKind::HashKv, 1),
        ];
        for (engine, held) in held {
            let dir = directory();
            let db = Db::open(dir.path(), options()).unwrap();
            let before = open_files();
            for number in 0..KEYSPACES {
                let space = db.keyspace(&format!("space-{number}"), of(engine)).unwrap();
                space.put(b"key", b"value").unwrap();
                space.flush().unwrap();
            }
            // One for the journal, and one for a queue that is kept.
            let most = before + KEYSPACES * held + 2;
            assert!(open_files() <= most, "{engine}: {before}, then {}", open_files());
        }
    });
}

/// Each opening that writes a little leaves a segment of the journal. An opening holds the files of
/// none of them.
#[test]
fn a_journal_of_many_segments_opens_with_few_descriptors() {
    in_child("a_journal_of_many_segments_opens_with_few_descriptors", 32, || {
        for engine in [EngineKind::Memory, EngineKind::Lsm] {
            let (dir, before) = (directory(), open_files());
            let mut segments = 0;
            for number in 0..40_u32 {
                let db = Db::open(dir.path(), options()).unwrap();
                let space = db.keyspace("space", of(engine)).unwrap();
                space.put(&number.to_le_bytes(), b"value").unwrap();
                assert!(open_files() < before + 16, "{engine}: {}", open_files());
                segments = db.stats().journal.segments.max(segments);
                db.close().unwrap();
            }
            assert!(segments > 20, "{engine}: {segments}");
        }
    });
}

/// A thousand keyspaces of `lsm` are made and opened again with the usual limit.
#[test]
fn a_thousand_keyspaces_of_lsm_open_within_the_usual_limit() {
    in_child("a_thousand_keyspaces_of_lsm_open_within_the_usual_limit", 1024, || {
        const KEYSPACES: u32 = 1000;
        let (dir, before) = (directory(), open_files());
        let db = Db::open(dir.path(), options()).unwrap();
        for number in 0..KEYSPACES {
            let space = db.keyspace(&format!("space-{number}"), of(EngineKind::Lsm)).unwrap();
            space.put(b"key", &number.to_le_bytes()).unwrap();
            space.flush().unwrap();
        }
        db.close().unwrap();
        drop(db);
        let db = Db::open(dir.path(), options()).unwrap();
        // A quarter of the limit may be kept open for tables.
        assert!(open_files() < before + 256 + 32, "{before}, then {}", open_files());
        for number in 0..KEYSPACES {
            let space = db.existing_keyspace(&format!("space-{number}")).unwrap();
            assert_eq!(space.get(b"key").unwrap().as_deref(), Some(&number.to_le_bytes()[..]));
        }
        assert!(open_files() < before + 256 + 32, "{before}, then {}", open_files());
        db.drop_keyspace("space-7").unwrap();
        db.close().unwrap();
    });
}

/// Each keyspace that was made can be written, backed up, dropped and opened again.
#[test]
fn what_is_accepted_works_with_few_descriptors() {
    in_child("what_is_accepted_works_with_few_descriptors", 64, || {
        for &engine in EngineKind::ALL {
            few_descriptors(engine);
        }
    });
}

fn few_descriptors(engine: EngineKind) {
    let dir = directory();
    let open = || Db::open(dir.path().join("db"), options()).unwrap();
    let mut made = 0;
    let refusal = loop {
        if made == 40 {
            break None;
        }
        // As from the shell: each in an opening of its own.
        let db = open();
        let space = match db.keyspace(&format!("space-{made}"), of(engine)) {
            Ok(space) => space,
            Err(refusal) => break Some(refusal),
        };
        space.put(b"key", &[made as u8; 100]).unwrap();
        space.flush().unwrap();
        db.close().unwrap();
        made += 1;
    };
    match refusal {
        None => {}
        Some(Error::TooManyDescriptors { keyspaces, needed, limit, .. }) => {
            assert_eq!((keyspaces, limit), (made, 64), "{engine}");
            assert!(needed > limit && made >= 5, "{engine}: {needed}");
        }
        Some(other) => panic!("{engine}: {other}"),
    }
    let holds_none = engine.driver().descriptors == 0;
    assert_eq!(made == 40, holds_none, "{engine}: {made}");
    let db = open();
    for number in 0..made {
        let space = db.existing_keyspace(&format!("space-{number}")).unwrap();
        assert_eq!(space.get(b"key").unwrap().as_deref(), Some(&[number as u8; 100][..]));
        space.put(b"key", b"new").unwrap();
        space.flush().unwrap();
    }
    let backups = Backups::open(dir.path().join("backups")).unwrap();
    db.backup(&backups, &Default::default()).unwrap();
    db.checkpoint(dir.path().join("copy")).unwrap();
    for number in 0..made {
        db.drop_keyspace(&format!("space-{number}")).unwrap();
    }
    db.close().unwrap();
}

/// While no descriptor is left, calls may be refused, but nothing stops for good.
#[test]
fn a_process_without_descriptors_goes_on_when_there_are_some() {
    in_child("a_process_without_descriptors_goes_on_when_there_are_some", 256, || {
        for &engine in EngineKind::ALL {
            without_descriptors(engine);
        }
    });
}

fn value(number: u32) -> Vec<u8> {
    [&number.to_le_bytes()[..], &[7; 1000]].concat()
}

fn without_descriptors(engine: EngineKind) {
    const KEYS: u32 = 8000;
    let dir = directory();
    let options = Options { memory_bytes: 24 << 20, ..options() };
    let db = Db::open(dir.path(), options.clone()).unwrap();
    let space = db.keyspace("space", of(engine)).unwrap();
    let mut written = 0;
    let mut write = |space: &Keyspace, upto: u32| {
        let first = written;
        for number in first..upto {
            match space.put(&number.to_be_bytes(), &value(number)) {
                Ok(_) => written = number + 1,
                Err(error) => return Some(error),
            }
        }
        None
    };
    assert_eq!(write(&space, KEYS / 2), None);
    space.flush().unwrap();
    // Open, so that reading needs nothing that is opened on demand.
    assert_eq!(space.get(&0_u32.to_be_bytes()).unwrap(), Some(value(0)));
    for round in 0..3 {
        let taken = take_all();
        let refused = write(&space, KEYS);
        let flushed = space.flush();
        let read = space.get(&1_u32.to_be_bytes());
        for error in refused.into_iter().chain(flushed.err()).chain(read.err()) {
            let text = error.to_string();
            assert!(
                text.contains("Too many open files") || text.contains("room"),
                "{engine}: {text}"
            );
            assert!(!matches!(error, Error::ReadOnly { .. }), "{engine}: {text}");
        }
        assert_eq!(db.failure(), None, "{engine}, round {round}");
        drop(taken);
    }
    for number in 0..20 {
        assert_eq!(space.get(&number_key(number)).unwrap(), Some(value(number)), "{engine}");
    }
    let error = write(&space, KEYS);
    assert!(error.as_ref().is_none_or(|error| error.to_string().contains("memory")), "{error:?}");
    space.flush().unwrap();
    db.close().unwrap();
    drop((space, db));
    let db = Db::open(dir.path(), options).unwrap();
    let space = db.existing_keyspace("space").unwrap();
    for number in (0..written).step_by(37) {
        assert_eq!(space.get(&number_key(number)).unwrap(), Some(value(number)), "{engine}");
    }
}

fn number_key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}
