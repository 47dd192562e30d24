//! Operations on a store's files during and after its close: another opening may have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc;

use device::{FaultDevice, Mode, OperationKind};
use engine::{Engine, Error};
use environment::Environment;

use super::durability::Journal;
use super::stores::Bench;
use crate::Store;

/// A flush that retries the work that the journal refused has no other task that `close` waits for.
#[test]
fn a_close_waits_for_a_flush_on_another_thread() {
    let faulty = FaultDevice::new(device::memory());
    let journal = Arc::new(Journal::default());
    let bench = Bench::with(faulty.clone(), journal.clone(), 1 << 20).expect("opens");
    bench.put(b"a", b"1");
    journal.fails.store(true, SeqCst);
    assert!(matches!(bench.store.flush(), Err(Error::Journal { .. })));
    bench.crank.run_all();
    journal.fails.store(false, SeqCst);
    let shared = Arc::clone(&bench.store.shared);
    let (tell, told) = mpsc::channel();
    faulty.interpose(OperationKind::Write, move || {
        let closed = Arc::new(AtomicBool::new(false));
        let (store, is_closed) = (Store { shared: Arc::clone(&shared) }, Arc::clone(&closed));
        let close = Environment::real().spawn("close", move || {
            store.close().expect("closes");
            is_closed.store(true, SeqCst);
        });
        while shared.health.check_open().is_ok() {
            std::thread::yield_now();
        }
        for _ in 0..10_000 {
            std::thread::yield_now();
        }
        tell.send((closed.load(SeqCst), close.expect("a thread"))).expect("somebody asks");
    });
    assert_eq!(bench.store.flush(), Err(Error::Closed));
    let (was_closed, close) = told.recv().expect("the flush wrote something");
    close.join().expect("it does not panic");
    assert!(!was_closed, "the flush was still writing");
}

#[test]
fn a_table_that_somebody_else_made_is_not_removed() {
    let foreign = |bench: &Bench| {
        let name = format!("table-{}", bench.store.shared.tables.next_number());
        bench.device.open(&name, Mode::CreateNew).expect("the number is free");
        name
    };
    let bench = Bench::new();
    bench.put(b"a", b"1");
    let name = foreign(&bench);
    assert!(matches!(bench.store.flush(), Err(Error::Device(_))));
    assert!(bench.device.exists(&name).expect("memory looks"), "after a flush");

    let bench = Bench::new();
    for value in [b"1", b"2"] {
        bench.put(b"a", value);
        bench.store.flush().expect("memory takes it");
    }
    let name = foreign(&bench);
    bench.crank.run_all();
    assert_eq!(bench.detail("compactions"), 0, "its table could not be made");
    assert!(bench.store.shared.health.check_writable().is_err());
    assert!(bench.device.exists(&name).expect("memory looks"), "after a compaction");
}

/// The number alone does not distinguish it from a table of another opening.
#[test]
fn a_table_that_is_read_beyond_the_close_is_not_removed() {
    let bench = Bench::new();
    bench.put(b"a", b"1");
    bench.store.flush().expect("memory takes it");
    let reader = bench.store.shared.state.load_full();
    bench.put(b"a", b"2");
    bench.run_background();
    assert_eq!(bench.detail("compactions"), 1);
    bench.store.close().expect("closes");
    drop(reader);
    assert!(bench.device.exists("table-1").expect("memory looks"));
    let bench = Bench::on(bench.0.device).expect("opens again");
    assert!(!bench.device.exists("table-1").expect("memory looks"), "now nobody reads it");
    assert_eq!(bench.get(b"a").as_deref(), Some(&b"2"[..]));
}
