//! A handle of a dropped or cleared keyspace holds no memory, no descriptors and no files.
//!
//! One test, since descriptors are counted for the whole process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use thermocline::{Db, EngineKind, Error, KeyRange, Keyspace, KeyspaceOptions, Options};

/// Keyspaces that are made and dropped in turn: more than have room at the same time.
const ROUNDS: usize = 24;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Instances of keyspaces that have files.
fn instances(place: &Path) -> usize {
    let names = std::fs::read_dir(place.join("keyspaces")).unwrap();
    names.map(|name| std::fs::read_dir(name.unwrap().path()).unwrap().count()).sum()
}

fn make(db: &Db, engine: EngineKind, name: &str) -> Keyspace {
    let space = db.keyspace(name, KeyspaceOptions { engine, ..Default::default() }).unwrap();
    space.put(b"key", b"value").unwrap();
    space
}

fn must_be_gone(handle: &Keyspace) {
    assert!(matches!(handle.get(b"key"), Err(Error::NoKeyspace { .. })));
    assert!(matches!(handle.put(b"key", b""), Err(Error::NoKeyspace { .. })));
    assert!(matches!(handle.stats(), Err(Error::NoKeyspace { .. })));
}

fn handles_hold_nothing(engine: EngineKind) {
    let dir = tempfile::tempdir().unwrap();
    let db =
        Db::open(dir.path(), Options { memory_bytes: 256 << 20, ..Options::default() }).unwrap();
    // The first keyspace also opens the files that the process keeps.
    make(&db, engine, "first");
    db.drop_keyspace("first").unwrap();
    let before = (db.memory_bytes().0, descriptors());
    let mut handles = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("tenant-{round}");
        handles.push(make(&db, engine, &name));
        db.drop_keyspace(&name).unwrap();
        assert_eq!((db.memory_bytes().0, descriptors()), before, "{engine} {round}");
    }
    handles.iter().for_each(must_be_gone);
    assert_eq!(instances(dir.path()), 0, "{engine}");

    // A handle sees the keyspace's pairs after it was cleared, and holds nothing from before.
    let cleared = make(&db, engine, "cleared");
    let other = cleared.clone();
    cleared.clear().unwrap();
    let once = (db.memory_bytes().0, descriptors());
    for _ in 0..3 {
        other.put(b"key", b"value").unwrap();
        cleared.clear().unwrap();
        assert_eq!(descriptors(), once.1, "{engine}");
    }
    assert_eq!(other.get(b"key").unwrap(), None);
    db.drop_keyspace("cleared").unwrap();
    assert_eq!((db.memory_bytes().0, descriptors()), before, "{engine}");

    // A scan keeps its pairs, and only until it ends.
    if engine.is_ordered() {
        let space = make(&db, engine, "scanned");
        let mut scan = space.scan(KeyRange::all()).unwrap();
        db.drop_keyspace("scanned").unwrap();
        must_be_gone(&space);
        assert_eq!(scan.next().unwrap().unwrap(), (b"key".to_vec(), b"value".to_vec()));
        drop(scan);
        assert_eq!((db.memory_bytes().0, descriptors()), before, "{engine}");
        assert_eq!(instances(dir.path()), 0, "{engine}");
    }
    drop(handles);
    db.close().unwrap();
}

#[test]
fn handles_of_dropped_keyspaces_hold_nothing() {
    EngineKind::ALL.iter().copied().for_each(handles_hold_nothing);
}
