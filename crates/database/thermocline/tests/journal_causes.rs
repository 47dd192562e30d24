//! An engine that fails because of the journal keeps the failure of the storage, with its class.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::error::Error as _;
use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use thermocline::{Db, Durability, EngineKind, Error, KeyspaceOptions, Options};

/// The failure of a flush whose `nth` sync fails, if it has that number of syncs.
fn failure_of_flush(engine: EngineKind, nth: u64) -> Option<Error> {
    let faulty = FaultDevice::new(device::memory());
    let options = Options {
        memory_bytes: 64 << 20,
        durability: Durability::Buffered,
        sync_interval: None,
        ..Options::default()
    };
    let db = Db::open_on(Arc::clone(&faulty) as Arc<dyn Device>, "db", options).unwrap();
    let keyspace = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
    let space = db.keyspace("space", keyspace).unwrap();
    space.put(b"key", b"value").unwrap();
    let kind = Some(OperationKind::Sync);
    let nth = faulty.count(kind) + nth;
    faulty.fail(Fault { kind, nth, failure: Failure::Io, lasting: Lasting::ForGood });
    let failure = space.flush().err();
    let _ = db.close();
    failure
}

#[test]
fn a_flush_that_the_journal_stops_keeps_the_cause() {
    for &engine in EngineKind::ALL {
        let failures: Vec<Error> = (1..).map_while(|nth| failure_of_flush(engine, nth)).collect();
        let is_of_journal =
            |error: &&Error| matches!(error, Error::Engine(engine::Error::Journal { .. }));
        let failure = failures.iter().find(is_of_journal);
        let failure = failure.unwrap_or_else(|| panic!("{engine}: {failures:?}"));
        let Error::Engine(cause) = failure else { unreachable!() };
        let device::Error::Io { name, .. } = (match cause.root_cause() {
            engine::Error::Device(error) => error,
            other => panic!("{engine}: {other:?}"),
        }) else {
            panic!("{engine}: {failure:?}")
        };
        assert!(name.starts_with("journal/"), "{engine}: {name}");
        let source = failure.source().map(ToString::to_string).unwrap_or_default();
        assert!(source.contains(name), "{engine}: {source:?} is the source of {failure}");
        assert!(!failure.is_no_space() && failure.corruption().is_none(), "{engine}: {failure:?}");
    }
}
