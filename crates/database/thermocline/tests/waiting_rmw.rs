//! Read-modify-writes that wait for the device: no other operation waits for that, and its failure
//! is theirs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use crate::few_pages;
use crate::numbered::{add_one, key, number, value};
use crate::with_queues::WithQueues;
use device::{Device, Failure, Fault, FaultDevice, Lasting, OperationKind};
use thermocline::{
    Batch, Db, Durability, EngineKind, Environment, Error, Keyspace, KeyspaceOptions, Options,
};

const KEYS: u64 = 3_000;
/// More writes than may be numbered during a write that is not finished.
const OTHERS: u64 = 5_000;
/// Only how long a test that fails takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A keyspace with most keys on disk alone; only the test's reads read them.
fn filled(device: &Arc<FaultDevice>, journaled: bool) -> (Db, Keyspace) {
    let options = Options {
        memory_bytes: 64 << 20,
        sync_interval: None,
        durability: Durability::Buffered,
        engines: few_pages::f2().into(),
        ..Options::default()
    };
    let db = Db::open_on(Arc::clone(device) as Arc<dyn Device>, "memory", options).unwrap();
    let options = KeyspaceOptions { engine: EngineKind::F2, journaled, ..Default::default() };
    let space = db.keyspace("s", options).unwrap();
    for at in 0..KEYS {
        space.put(&key(at), &value(at)).unwrap();
    }
    db.flush().unwrap();
    (db, space)
}

/// While the read of its old value is parked, another thread writes more often than numbers
/// may be open. It also flushes, takes a snapshot, and locks the key itself.
#[test]
fn who_waits_for_the_device_holds_nobody_up() {
    for journaled in [false, true] {
        let device = FaultDevice::new(device::memory());
        let (db, space) = filled(&device, journaled);
        let written = Arc::new(AtomicU64::new(0));
        let beside = (db.clone(), space.clone(), Arc::clone(&written));
        let (is_done, done) = mpsc::channel();
        device.interpose(OperationKind::Read, move || {
            let (db, space, written) = beside;
            let environment = Environment::real();
            // Not joined, since without the law it waits for this thread.
            let spawned = environment.spawn("beside", move || {
                for at in 0..OTHERS {
                    space.put(&key(KEYS + at % 50), &value(at)).unwrap();
                    written.fetch_add(1, SeqCst);
                }
                drop(db.snapshot().unwrap());
                space.flush().unwrap();
                let mut batch = Batch::new();
                batch.put(&space, &key(0), &value(7000));
                db.write(&batch).unwrap();
                written.fetch_add(1, SeqCst);
                let _ = is_done.send(());
            });
            drop(spawned.unwrap());
            let _ = done.recv_timeout(PATIENCE);
        });
        let mut written_before = 0;
        let seqno = space.rmw(&key(0), |old| {
            written_before = written.load(SeqCst);
            add_one(old)
        });
        assert!(seqno.unwrap().is_some());
        assert_eq!(written_before, OTHERS + 1, "journaled: {journaled}: all was written beside it");
        assert_eq!(number(space.get(&key(0)).unwrap().as_deref()), 7001);
        assert_eq!(db.failure(), None);
    }
}

#[test]
fn a_read_that_fails_is_an_error_of_the_call_alone() {
    for journaled in [false, true] {
        let device = FaultDevice::new(device::memory());
        let (db, space) = filled(&device, journaled);
        let (kind, failure) = (Some(OperationKind::Read), Failure::Io);
        let nth = device.count(kind) + 1;
        device.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
        let failed = space.rmw(&key(0), add_one);
        assert!(matches!(failed, Err(Error::Engine(engine::Error::Device(_)))), "{failed:?}");
        assert_eq!((device.failed(), db.failure()), (1, None));
        assert_eq!(number(space.get(&key(0)).unwrap().as_deref()), 0);
        assert!(space.rmw(&key(0), add_one).unwrap().is_some(), "writes go on");
        assert_eq!(number(space.get(&key(0)).unwrap().as_deref()), 1);
    }
}

/// Old values of many keys, by more threads than tables are kept for.
#[test]
fn many_who_wait_all_count() {
    const THREADS: u64 = 12;
    for journaled in [false, true] {
        let device = FaultDevice::new(device::memory());
        let (db, space) = filled(&device, journaled);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let space = &space;
                scope.spawn(move || {
                    for at in 0..100 {
                        let at = (at * 7 + thread) % 100;
                        assert!(space.rmw(&key(at), add_one).unwrap().is_some());
                    }
                });
            }
        });
        for at in 0..100 {
            assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), at + THREADS, "{at}");
        }
        assert_eq!(db.failure(), None);
    }
}

#[test]
fn without_a_queue_the_old_value_is_read_all_the_same() {
    for journaled in [false, true] {
        let has_none = Arc::new(AtomicBool::new(false));
        let are_used_up = Arc::clone(&has_none);
        let queueless =
            WithQueues::on(device::memory(), move |device, depth| match are_used_up.load(SeqCst) {
                true => Err(device::Error::NoSpace { name: "queues".into() }),
                false => device.queue(depth),
            });
        let device = FaultDevice::new(queueless);
        let (db, space) = filled(&device, journaled);
        has_none.store(true, SeqCst);
        for at in 0..20 {
            assert!(space.rmw(&key(at), add_one).unwrap().is_some());
            assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), at + 1);
        }
        let (kind, failure) = (Some(OperationKind::Read), Failure::Io);
        let nth = device.count(kind) + 1;
        device.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
        let failed = space.rmw(&key(20), add_one);
        assert!(matches!(failed, Err(Error::Engine(engine::Error::Device(_)))), "{failed:?}");
        assert_eq!((device.failed(), db.failure()), (1, None));
        has_none.store(false, SeqCst);
        assert!(space.rmw(&key(20), add_one).unwrap().is_some(), "writes go on");
    }
}
