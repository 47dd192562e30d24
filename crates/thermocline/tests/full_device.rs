//! A device that is full: what was acknowledged can be read, and the database opens once there is room.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use thermocline::{Db, EngineKind, Error, KeyspaceOptions, Options};

/// Of which a store has less in memory than the journal has.
const MEMORY_BYTES: u64 = 16 << 20;
const VALUE_BYTES: usize = 1000;
/// So many keys are written while there is room, and as many are tried after that.
const KEYS: u32 = 20_000;

fn options() -> Options {
    Options { memory_bytes: MEMORY_BYTES, ..Options::default() }
}

fn value(key: u32) -> Vec<u8> {
    vec![key as u8; VALUE_BYTES]
}

/// Writes until the device is full, and answers how many keys were acknowledged.
fn fill(device: &Arc<FaultDevice>, engine: EngineKind) -> u32 {
    let db = Db::open_on(Arc::clone(device) as Arc<dyn Device>, "full", options()).unwrap();
    let space = db.keyspace("space", KeyspaceOptions { engine, ..Default::default() }).unwrap();
    (0..KEYS).for_each(|key| space.put(&key.to_be_bytes(), &value(key)).map(drop).unwrap());
    for kind in [OperationKind::Write, OperationKind::Resize] {
        let failure = Failure::NoSpace;
        device.fail(Fault { kind: Some(kind), nth: 1, failure, lasting: Lasting::ForGood });
    }
    let refused = (KEYS..2 * KEYS).find(|key| space.put(&key.to_be_bytes(), &value(*key)).is_err());
    // It cannot close as it should.
    let _: Result<(), Error> = db.close();
    refused.expect("the device is full")
}

#[test]
fn a_full_device_is_read_and_opens_once_there_is_room() {
    for engine in [EngineKind::F2, EngineKind::Lsm] {
        let device = FaultDevice::new(device::memory());
        let acknowledged = fill(&device, engine);
        let holds_all = |db: &Db| {
            let space = db.existing_keyspace("space").unwrap();
            for key in (0..acknowledged).rev().step_by(97) {
                assert_eq!(space.get(&key.to_be_bytes()).unwrap(), Some(value(key)), "{engine}");
            }
        };
        let on = || Arc::clone(&device) as Arc<dyn Device>;
        let refused = Db::open_on(on(), "full", options()).unwrap_err();
        assert!(refused.is_no_space(), "{engine}: {refused}");
        let db = Db::open_read_only_on(on(), "full", options()).unwrap();
        holds_all(&db);
        db.close().unwrap();
        device.heal();
        let db = Db::open_on(on(), "full", options()).unwrap();
        holds_all(&db);
        db.close().unwrap();
    }
}
