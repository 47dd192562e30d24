//! An ingestion during transactions that have read the keys that it replaces.

use crate::{Db, EngineKind, Environment, KeyRange, KeyspaceOptions, Options, Transaction};

fn key(number: u64) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

#[test]
fn a_transaction_that_has_read_what_is_replaced_is_in_conflict() {
    let (environment, _clock) = Environment::simulated(1);
    let options =
        Options { environment, memory_bytes: 64 << 20, sync_interval: None, ..Options::default() };
    let db = Db::open_on(device::memory(), "memory", options).unwrap();
    let keyspace = |engine: EngineKind| {
        let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
        db.keyspace(engine.name(), options).unwrap()
    };
    let (space, other) = (keyspace(EngineKind::Lsm), keyspace(EngineKind::Memory));
    let is_conflict = |read: &dyn Fn(&Transaction)| {
        let tx = db.begin().unwrap();
        read(&tx);
        space.ingest((10..20).map(|number| (key(number), b"new"))).unwrap();
        tx.put(&other, b"k", b"v").unwrap();
        tx.commit().is_err_and(|error| error.is_conflict())
    };
    assert!(is_conflict(&|tx| drop(tx.get(&space, &key(15)).unwrap())));
    assert!(is_conflict(&|tx| drop(tx.get(&space, &key(19)).unwrap())));
    assert!(is_conflict(&|tx| assert!(tx.scan(&space, KeyRange::all()).unwrap().count() > 0)));
    assert!(!is_conflict(&|tx| drop(tx.get(&space, &key(20)).unwrap())));
    assert!(!is_conflict(&|tx| drop(tx.get(&space, &key(9)).unwrap())));
}
