//! The first change after an opening, which may want descriptors for files that the opening left
//! alone: a missing descriptor is an error that passes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use device::{Device, Failure, Fault, FaultDevice, Lasting};
use thermocline::{Db, EngineKind, KeyspaceOptions, Options};

use crate::belonging::copy_of;

fn open(device: Arc<dyn Device>) -> Db {
    let options = Options { memory_bytes: 64 << 20, sync_interval: None, ..Options::default() };
    Db::open_on(device, "db", options).unwrap()
}

#[test]
fn a_missing_descriptor_at_the_first_flush_after_an_opening_passes() {
    for &engine in EngineKind::ALL {
        let device = device::memory();
        let db = open(Arc::clone(&device));
        let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
        db.keyspace("a", options).unwrap().put(b"key", b"old").unwrap();
        db.close().unwrap();
        let mut refused = 0;
        for nth in 1.. {
            let device = copy_of(&*device);
            let faulty = FaultDevice::new(Arc::clone(&device));
            let db = open(faulty.clone());
            let keyspace = db.existing_keyspace("a").unwrap();
            keyspace.put(b"key", b"new").unwrap();
            let (failure, lasting) = (Failure::OutOfFiles, Lasting::Once);
            faulty.fail(Fault { kind: None, nth: faulty.count(None) + nth, failure, lasting });
            let flushed = keyspace.flush();
            faulty.heal();
            let case = format!("{engine}, operation {nth}: {flushed:?}");
            refused += u64::from(flushed.is_err());
            assert!(db.failure().is_none(), "{case}");
            keyspace.put(b"other", b"new").unwrap_or_else(|error| panic!("{case}: {error}"));
            keyspace.flush().unwrap_or_else(|error| panic!("{case}: {error}"));
            db.close().unwrap();
            let db = open(device);
            let keyspace = db.existing_keyspace("a").unwrap();
            for key in [&b"key"[..], b"other"] {
                assert_eq!(keyspace.get(key).unwrap().as_deref(), Some(&b"new"[..]), "{case}");
            }
            if nth > 60 {
                break;
            }
        }
        println!("{engine}: {refused} refused");
        assert!(refused > 0, "{engine}");
    }
}
