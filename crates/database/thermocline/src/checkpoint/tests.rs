//! A copy during a close.

use device::{FaultDevice, OperationKind};
use environment::Environment;
use rand::Rng;

use super::*;
use crate::drivers::EngineKind;
use crate::options::{KeyspaceOptions, Options};

const VALUE_BYTES: u64 = 1000;
const KEYS: u64 = 16_000;

/// Returns a database with this amount of data in one engine, and a journal that has little of it.
fn filled(engine: EngineKind) -> Db {
    let options =
        Options { memory_bytes: 128 << 20, durability: Durability::Buffered, ..Options::default() };
    let db = Db::open_on(device::memory(), "copied", options).unwrap();
    let space = db.keyspace("space", KeyspaceOptions { engine, ..Default::default() }).unwrap();
    // So that nothing is gained by compression.
    let mut noise = Environment::seeded(7).random("values");
    let mut value = [0; VALUE_BYTES as usize];
    for key in 0..KEYS {
        noise.fill_bytes(&mut value);
        space.put(&key.to_be_bytes(), &value).unwrap();
    }
    db.flush().unwrap();
    db
}

#[test]
fn a_close_waits_for_no_copy() {
    for &engine in EngineKind::ALL {
        let db = filled(engine);
        let target = FaultDevice::new(device::memory());
        // In the midst of the copy, from another thread. The write continues when the close waits
        // for it.
        let closing = db.clone();
        let environment = db.inner.options.environment.clone();
        let (tell, told) = std::sync::mpsc::channel();
        target.interpose(OperationKind::Write, move || {
            let inner = Arc::clone(&closing.inner);
            let close = move || tell.send(closing.close()).unwrap();
            drop(environment.spawn("closer", close).unwrap());
            while inner.lifecycle.check_staying_open().is_ok() {
                std::thread::yield_now();
            }
        });
        let copied = db.checkpoint_on(Arc::clone(&target) as _, "copy");
        assert_eq!(copied, Err(Error::Closed), "{engine}");
        assert_eq!(told.recv(), Ok(Ok(())), "{engine}");
        let written = target.accounting().counts().write_bytes;
        assert!(written < KEYS * VALUE_BYTES / 2, "{engine}: {written} bytes");
        let opened = Db::open_on(target, "copy", Options::default());
        assert!(opened.is_err() || opened.unwrap().keyspaces().is_empty(), "{engine}: a database");
    }
}

/// The copy has waited for the close, which leaves no keyspaces behind.
#[test]
fn a_copy_that_begins_behind_a_close_is_none() {
    let db = filled(EngineKind::Memory);
    db.close().unwrap();
    let target = device::memory();
    assert_eq!(db.inner.copy_into(&target).map(drop), Err(Error::Closed));
    assert_eq!(target.list("").unwrap(), []);
}
