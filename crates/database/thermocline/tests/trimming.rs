//! Trimming the journal after an opening that found no mark of an orderly close: a keyspace whose
//! files cannot be made durable keeps the journal, and stops no other keyspace.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use thermocline::{Db, Durability, EngineKind, KeyRange, Keyspace, KeyspaceOptions, Options};

use crate::belonging::copy_of;

const CLOSED: &str = "CLOSED";
/// Pairs of each keyspace, of a KiB: fewer bytes than those of journal from which on it is
/// maintained, and several segments.
const PAIRS: u32 = 3000;
const JOURNAL_BYTES: u64 = 8 << 20;

fn options() -> Options {
    Options { memory_bytes: 128 << 20, journal_bytes: JOURNAL_BYTES, ..Options::default() }
}

fn of(engine: EngineKind) -> KeyspaceOptions {
    KeyspaceOptions { engine, ..KeyspaceOptions::default() }
}

fn open(device: Arc<dyn Device>, options: Options) -> Db {
    Db::open_on(device, "db", options).unwrap().durability(Durability::Flushed)
}

fn put_all(keyspace: &Keyspace, value: &[u8]) {
    for key in 0..PAIRS {
        keyspace.put(&key.to_be_bytes(), value).unwrap();
    }
}

fn has_all(db: &Db, keyspace: &str, value: &[u8]) -> bool {
    let keyspace = db.existing_keyspace(keyspace).unwrap();
    (0..PAIRS).all(|key| keyspace.get(&key.to_be_bytes()).unwrap().as_deref() == Some(value))
}

/// A killed database whose keyspaces `sick` and `well` have flushed all writes, and whose journal
/// was not trimmed. Returns the directory of `sick` too.
fn killed(sick: EngineKind, well: EngineKind) -> (Arc<dyn Device>, String) {
    let device = device::memory();
    let db = open(Arc::clone(&device), options());
    let make = |name, engine| db.keyspace(name, of(engine)).unwrap();
    let all = [make("sick", sick), make("well", well)];
    all.iter().for_each(|keyspace| put_all(keyspace, &[1; 1000]));
    all.iter().for_each(|keyspace| keyspace.flush().unwrap());
    assert!(db.stats().journal.bytes > JOURNAL_BYTES / 2);
    let found = device.list("keyspaces/sick").unwrap();
    let id = found.iter().find(|entry| entry.is_dir).unwrap();
    (copy_of(&*device), format!("keyspaces/sick/{}", id.name))
}

#[test]
fn a_keyspace_that_cannot_be_made_durable_keeps_the_journal_and_stops_no_other() {
    // Engines whose opening makes nothing durable by itself.
    for sick in [EngineKind::Memory, EngineKind::Lsm] {
        for &well in EngineKind::ALL {
            let case = format!("{sick}, {well}");
            let (device, dir) = killed(sick, well);
            let faulty = FaultDevice::new(Arc::clone(&device));
            for kind in [OperationKind::Sync, OperationKind::SyncDir] {
                let (failure, lasting) = (Failure::Io, Lasting::ForGood);
                faulty.fail_in(&dir, Fault { kind: Some(kind), nth: 1, failure, lasting });
            }
            let db = open(faulty.clone(), options());
            let other = db.existing_keyspace("well").unwrap();
            // A compaction trims the journal, or would.
            other.compact_range(&KeyRange::all()).unwrap();
            assert!(faulty.failed() > 0, "{case}: nothing made the files durable");
            let journal = db.stats().journal;
            assert!(journal.bytes > JOURNAL_BYTES / 2, "{case}: trimmed: {journal:?}");
            other.put(b"key", b"new").unwrap();
            assert!(has_all(&db, "sick", &[1; 1000]) && has_all(&db, "well", &[1; 1000]), "{case}");
            // The close may report the failure. It leaves no mark.
            let _ = db.close();
            assert!(!device.exists(CLOSED).unwrap(), "{case}");

            // Of this device it is known that it has failed.
            let device = copy_of(&*device);
            let db = open(Arc::clone(&device), options());
            let other = db.existing_keyspace("well").unwrap();
            other.compact_range(&KeyRange::all()).unwrap();
            let journal = db.stats().journal;
            assert!(journal.bytes < JOURNAL_BYTES / 2, "{case}: not trimmed: {journal:?}");
            assert_eq!(other.get(b"key").unwrap().as_deref(), Some(&b"new"[..]), "{case}");
            assert!(has_all(&db, "sick", &[1; 1000]) && has_all(&db, "well", &[1; 1000]), "{case}");
            db.close().unwrap();
            assert!(device.exists(CLOSED).unwrap(), "{case}");
        }
    }
}

#[test]
fn the_only_background_thread_trims_after_an_opening_without_a_mark() {
    for &engine in EngineKind::ALL {
        let (device, _) = killed(engine, engine);
        let db = open(device, Options { background_threads: 1, ..options() });
        let keyspace = db.existing_keyspace("sick").unwrap();
        for round in 0..4 {
            put_all(&keyspace, &[round; 1000]);
            db.flush().unwrap();
        }
        let journal = db.stats().journal;
        assert!(journal.bytes < JOURNAL_BYTES / 2, "{engine}: not trimmed: {journal:?}");
        db.close().unwrap();
    }
}

#[test]
fn a_close_leaves_no_mark_over_a_damaged_keyspace() {
    for &engine in EngineKind::ALL {
        let (device, dir) = killed(engine, EngineKind::Memory);
        for entry in device.list(&dir).unwrap() {
            if !entry.is_dir {
                device.remove(&format!("{dir}/{}", entry.name)).unwrap();
            }
        }
        let db = open(Arc::clone(&device), options());
        let refusal = db.existing_keyspace("sick").unwrap_err();
        assert!(refusal.corruption().is_some(), "{engine}: {refusal}");
        put_all(&db.existing_keyspace("well").unwrap(), &[2; 1000]);
        db.close().unwrap();
        assert!(!device.exists(CLOSED).unwrap(), "{engine}");
    }
}
