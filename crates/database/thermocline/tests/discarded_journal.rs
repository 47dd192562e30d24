//! Databases whose journal is lost, and that are opened without it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::Device;
use thermocline::{Db, EngineKind, Keyspace, KeyspaceOptions, Options};

fn open(device: &Arc<dyn Device>, discard_journal: bool) -> thermocline::Result<Db> {
    let options = Options { discard_journal, memory_bytes: 64 << 20, ..Options::default() };
    Db::open_on(Arc::clone(device), "database", options)
}

fn found(space: &Keyspace, keys: &[&[u8]]) -> Vec<bool> {
    keys.iter().map(|key| space.get(key).unwrap().is_some()).collect()
}

/// The files of the journal.
fn journal(device: &Arc<dyn Device>) -> Vec<String> {
    let files = device.list("journal").unwrap().into_iter();
    files.map(|file| format!("journal/{}", file.name)).collect()
}

/// Without a journal the data of the engines' files are there. Writes of that opening survive the
/// next ones, also if there are none.
#[test]
fn the_data_of_engines_are_there() {
    for &engine in EngineKind::ALL {
        let device = device::memory();
        let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
        let db = open(&device, false).unwrap();
        let [first, second] = ["first", "second"].map(|name| db.keyspace(name, options).unwrap());
        second.put(b"flushed", b"1").unwrap();
        second.flush().unwrap();
        for number in 0..100_u8 {
            first.put(&[number], &[number; 100]).unwrap();
        }
        first.put(b"flushed", b"1").unwrap();
        first.flush().unwrap();
        first.put(b"journaled", b"2").unwrap();
        second.put(b"journaled", b"2").unwrap();
        db.close().unwrap();
        drop((first, second, db));
        for name in journal(&device) {
            device.remove(&name).unwrap();
        }
        assert!(open(&device, false).is_err(), "{engine}");

        let db = open(&device, true).unwrap();
        for name in ["first", "second"] {
            let space = db.existing_keyspace(name).unwrap();
            let there = found(&space, &[b"flushed", b"journaled"]);
            let has_flushed_at_close = engine != EngineKind::Lsm && there[1];
            assert!(there[0] && (!there[1] || has_flushed_at_close), "{engine}: {there:?}");
        }
        db.close().unwrap();
        drop(db);
        let db = open(&device, false).unwrap();
        for name in ["first", "second"] {
            let space = db.existing_keyspace(name).unwrap();
            assert_eq!(found(&space, &[b"flushed"]), [true], "{engine}");
            space.put(b"later", b"3").unwrap();
        }
        db.close().unwrap();
        drop(db);
        let db = open(&device, false).unwrap();
        for name in ["first", "second"] {
            let space = db.existing_keyspace(name).unwrap();
            assert_eq!(found(&space, &[b"flushed", b"later"]), [true, true], "{engine}");
        }
        db.close().unwrap();
    }
}

/// A damaged journal is discarded as a lost one is. A crash amid that changes nothing: it is
/// discarded again.
#[test]
fn a_damaged_journal_is_discarded() {
    for keeps_one in [false, true] {
        let device = device::memory();
        let options = KeyspaceOptions { engine: EngineKind::Lsm, ..KeyspaceOptions::default() };
        let db = open(&device, false).unwrap();
        let space = db.keyspace("space", options).unwrap();
        space.put(b"flushed", b"1").unwrap();
        space.flush().unwrap();
        space.put(b"journaled", b"2").unwrap();
        db.close().unwrap();
        drop((space, db));
        let files = journal(&device);
        if keeps_one {
            device.remove(&files[0]).unwrap();
        } else {
            for name in &files {
                device.open(name, device::Mode::Write).unwrap().write_at(20, &[0xab; 9]).unwrap();
            }
        }
        assert!(open(&device, false).is_err(), "{keeps_one}");
        let db = open(&device, true).unwrap();
        let space = db.existing_keyspace("space").unwrap();
        assert_eq!(found(&space, &[b"flushed", b"journaled"]), [true, false]);
        db.close().unwrap();
        drop((space, db));
        let space = open(&device, false).unwrap().existing_keyspace("space").unwrap();
        assert_eq!(found(&space, &[b"flushed", b"journaled"]), [true, false]);
    }
}
