//! Work that a close leaves for the next opening.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::Device;
use thermocline::{Db, EngineKind, Error, KeyRange, KeyspaceOptions, Options};

const VALUE_BYTES: usize = 1000;
/// Keys whose journal is far more than a close leaves.
const MANY: u32 = 16_000;
/// Keys whose journal is less.
const FEW: u32 = 500;

fn options() -> Options {
    Options { memory_bytes: 128 << 20, ..Options::default() }
}

fn open(device: &Arc<dyn Device>) -> Db {
    Db::open_on(Arc::clone(device), "closing", options()).unwrap()
}

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; VALUE_BYTES]
}

/// Writes `keys` keys, in turn to keyspaces of these engines.
fn write(db: &Db, engines: &[EngineKind], keys: std::ops::Range<u32>) {
    let spaces: Vec<_> = engines
        .iter()
        .map(|engine| {
            let options = KeyspaceOptions { engine: *engine, ..Default::default() };
            db.keyspace(&engine.to_string(), options).unwrap()
        })
        .collect();
    for key in keys {
        let space = &spaces[key as usize % spaces.len()];
        space.put(&key.to_be_bytes(), &value(key)).unwrap();
    }
}

fn must_have(db: &Db, engines: &[EngineKind], keys: u32) {
    for (at, engine) in engines.iter().enumerate() {
        let space = db.existing_keyspace(&engine.to_string()).unwrap();
        for key in (at as u32..keys).step_by(engines.len() * 13) {
            assert_eq!(space.get(&key.to_be_bytes()).unwrap(), Some(value(key)), "{engine} {key}");
        }
    }
}

/// Each engine, and all of them in one database.
fn mixes() -> impl Iterator<Item = &'static [EngineKind]> {
    EngineKind::ALL.chunks(1).chain([EngineKind::ALL])
}

#[test]
fn a_close_leaves_little_to_be_replayed() {
    for engines in mixes() {
        let device = device::memory();
        let db = open(&device);
        write(&db, engines, 0..MANY);
        assert!(db.stats().journal.bytes > 8 << 20, "{engines:?}: {:?}", db.stats().journal);
        db.close().unwrap();
        let db = open(&device);
        // A keyspace may not know that the last write was another's.
        assert!(db.stats().replayed_records <= 1, "{engines:?}: {:?}", db.stats());
        must_have(&db, engines, MANY);
        // Later writes are journaled, and replayed, as before.
        write(&db, engines, MANY..MANY + FEW);
        db.close().unwrap();
        must_have(&open(&device), engines, MANY + FEW);
    }
}

#[test]
fn a_close_with_little_journal_flushes_nothing() {
    for engines in mixes() {
        let device = device::memory();
        let db = open(&device);
        write(&db, engines, 0..FEW);
        let persisted: Vec<_> = db.stats().keyspaces.iter().map(|one| one.persisted).collect();
        db.close().unwrap();
        let db = open(&device);
        let after: Vec<_> = db.stats().keyspaces.iter().map(|one| one.persisted).collect();
        assert_eq!(after, persisted, "{engines:?}");
        assert_eq!(db.stats().replayed_records, u64::from(FEW), "{engines:?}");
        must_have(&db, engines, FEW);
    }
}

/// An engine that rewrites all its data for a flush does not do so for less journal than that.
#[test]
fn a_close_does_not_rewrite_much_data_for_less_journal() {
    let device = device::memory();
    let engines = &[EngineKind::Memory];
    let db = open(&device);
    let much = 2 * MANY;
    write(&db, engines, 0..much);
    db.flush().unwrap();
    let more = MANY / 2;
    write(&db, engines, much..much + more);
    assert!(db.stats().journal.bytes > 5 << 20, "enough to be flushed elsewhere");
    let written = || device.accounting().counts().write_bytes;
    let before = written();
    db.close().unwrap();
    assert!(written() - before < 1 << 20, "{} bytes", written() - before);
    let db = open(&device);
    assert_eq!(db.stats().replayed_records, u64::from(more));
    must_have(&db, engines, much + more);
}

/// An error ends a scan: it is returned once, also where the database is closed in the middle.
#[test]
fn a_scan_of_a_closed_database_ends() {
    for &engine in EngineKind::ALL.iter().filter(|engine| engine.is_ordered()) {
        let device = device::memory();
        let db = open(&device);
        write(&db, &[engine], 0..FEW);
        let space = db.existing_keyspace(&engine.to_string()).unwrap();
        let snapshot = db.snapshot().unwrap();
        let transaction = db.begin().unwrap();
        let mut scans = [
            space.scan(KeyRange::all()).unwrap(),
            space.scan_reverse(KeyRange::all()).unwrap(),
            snapshot.scan(&space, KeyRange::all()).unwrap(),
        ];
        let mut of_transaction = transaction.scan(&space, KeyRange::all()).unwrap();
        scans.iter_mut().for_each(|scan| drop(scan.next().unwrap().unwrap()));
        of_transaction.next().unwrap().unwrap();
        db.close().unwrap();
        for scan in &mut scans {
            // At most the number of pairs: a scan that does not end would continue without end.
            let errors: Vec<_> =
                scan.by_ref().take(FEW as usize + 2).filter_map(Result::err).collect();
            assert_eq!(errors, [Error::Closed], "{engine}");
            assert!(scan.next().is_none() && scan.next_ref() == Ok(None), "{engine}");
        }
        let errors: Vec<_> =
            of_transaction.by_ref().take(FEW as usize + 2).filter_map(Result::err).collect();
        assert_eq!(errors, [Error::Closed], "{engine}");
        assert!(of_transaction.next().is_none(), "{engine}");
    }
}
