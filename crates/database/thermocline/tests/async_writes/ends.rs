//! The ends of futures whose keyspace is cleared or dropped, whose database is closed, or that are
//! dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use device::{Device, FaultDevice, OperationKind};
use futures::executor::block_on;
use thermocline::{
    AsyncUpdate, Change, Db, Durability, EngineKind, Environment, Error, Keyspace, KeyspaceOptions,
    Operator,
};

use super::{
    Held, KEYS, PATIENCE, add_one, filled, key, number, open_on, options, pending, poll, read,
    value,
};

/// A keyspace on a device that a test may hold up.
fn filled_on_faults(journaled: bool) -> (Arc<FaultDevice>, Db, Keyspace) {
    let device = FaultDevice::new(device::memory());
    let (db, space) = filled(&(Arc::clone(&device) as Arc<dyn Device>), journaled);
    (device, db, space)
}

/// The same with `count` updates under way, the first of whose reads is held up.
fn under_way(journaled: bool, count: usize) -> UnderWay {
    let (device, db, space) = filled_on_faults(journaled);
    let held = Held::new(&device, OperationKind::Read);
    let futures = pending(&space, 0, count);
    held.wait();
    UnderWay { device, db, space, held, futures }
}

struct UnderWay {
    device: Arc<FaultDevice>,
    db: Db,
    space: Keyspace,
    held: Held,
    futures: Vec<(u64, AsyncUpdate)>,
}

#[test]
fn what_is_under_way_while_its_keyspace_is_cleared_takes_place_before_or_after() {
    for journaled in [false, true] {
        let UnderWay { space, held, futures, .. } = under_way(journaled, 50);
        let mut put = space.durability(Durability::Synced).futures().put(b"p", b"v");
        let is_done = poll(&mut put).is_ready();
        space.clear().unwrap();
        drop(held);
        for (at, future) in futures {
            assert!(block_on(future).unwrap().is_some());
            assert_eq!(read(&space, at), 1, "it was empty by then");
        }
        if !is_done {
            block_on(put).unwrap();
            assert_eq!(space.get(b"p").unwrap().as_deref(), Some(&b"v"[..]));
        }
        assert!(block_on(space.futures().rmw(&key(7), add_one)).unwrap().is_some(), "it goes on");
        assert_eq!(read(&space, 7), 2);
    }
}

#[test]
fn what_is_under_way_while_its_keyspace_is_dropped_is_told_so() {
    for journaled in [false, true] {
        let UnderWay { db, space, held, futures, .. } = under_way(journaled, 300);
        db.drop_keyspace("s").unwrap();
        let gone = Error::NoKeyspace { name: "s".to_owned() };
        assert_eq!(poll(&mut space.futures().put(b"k", b"v")), Poll::Ready(Err(gone.clone())));
        drop(held);
        for (_, future) in futures {
            assert_eq!(block_on(future), Err(gone.clone()));
        }
        let other = db.keyspace("s", KeyspaceOptions::default()).unwrap();
        block_on(other.futures().put(b"k", b"v")).unwrap();
        db.close().unwrap();
    }
}

/// More are handed in than run at the same time.
#[test]
fn what_is_under_way_while_the_database_is_closed_is_done_or_told_so() {
    for journaled in [false, true] {
        let UnderWay { device, db, space, held, futures } = under_way(journaled, 500);
        let closing = {
            let db = db.clone();
            let environment = Environment::real();
            environment.spawn("closing", move || db.close()).unwrap()
        };
        while block_on(space.futures().get(b"k")) != Err(Error::Closed) {
            std::thread::yield_now();
        }
        // It waits for the thread, which waits for its read.
        let environment = Environment::real();
        let start = environment.now();
        while environment.now() - start < Duration::from_millis(50) {
            std::thread::yield_now();
            assert!(!closing.is_finished());
        }
        drop(held);
        let outcomes: Vec<_> =
            futures.into_iter().map(|(at, future)| (at, block_on(future))).collect();
        closing.join().unwrap().unwrap();
        assert_eq!(poll(&mut space.futures().put(b"k", b"v")), Poll::Ready(Err(Error::Closed)));
        assert_eq!(poll(&mut space.futures().rmw(b"k", add_one)), Poll::Ready(Err(Error::Closed)));
        drop((space, db));
        let (_db, space) =
            open_on(&(device as Arc<dyn Device>), options(), EngineKind::F2, journaled);
        let mut closed = 0;
        for (at, outcome) in outcomes {
            match outcome {
                Ok(seqno) => assert!(seqno.is_some() && read(&space, at) == at + 1),
                Err(error) => {
                    assert_eq!((error, read(&space, at)), (Error::Closed, at));
                    closed += 1;
                }
            }
        }
        assert!(closed > 0, "none was under way");
    }
}

/// Writes of every kind that wait for a durability, with the database closed behind them.
#[test]
fn every_future_is_answered_when_the_database_is_closed() {
    for &engine in EngineKind::ALL {
        for journaled in [false, true] {
            let (db, space) = open_on(&device::memory(), options(), engine, journaled);
            let synced = space.durability(Durability::Synced);
            let mut futures = Vec::new();
            for at in 0..3000 {
                let mut put = synced.futures().put(&key(at), &value(at));
                match poll(&mut put) {
                    Poll::Ready(done) => assert!(done.is_ok()),
                    Poll::Pending => futures.push(put),
                }
            }
            db.close().unwrap();
            for future in futures {
                let outcome = block_on(future);
                assert!(matches!(outcome, Ok(_) | Err(Error::Closed)), "{engine}: {outcome:?}");
            }
        }
    }
}

/// An operator that is counted as long as it exists.
fn counted(alive: &Arc<()>) -> impl Operator + Send + 'static {
    let held = Arc::clone(alive);
    move |old: Option<&[u8]>| {
        let _held = &held;
        add_one(old)
    }
}

#[test]
fn who_was_never_polled_has_done_nothing() {
    for &engine in EngineKind::ALL {
        let (_db, space) = open_on(&device::memory(), options(), engine, false);
        let alive = Arc::new(());
        drop(space.futures().put(b"p", b"v"));
        drop(space.futures().rmw_with(b"u", counted(&alive)));
        assert_eq!(Arc::strong_count(&alive), 1);
        assert_eq!((space.get(b"p").unwrap(), space.get(b"u").unwrap()), (None, None));
    }
}

/// Futures whose reads have not completed, futures that have not begun, and futures that are done
/// and were not polled again.
#[test]
fn who_is_dropped_is_done_as_a_whole_or_not_and_in_nobodys_way() {
    for journaled in [false, true] {
        let (device, db, space) = filled_on_faults(journaled);
        let alive = Arc::new(());
        let held = Held::new(&device, OperationKind::Read);
        let mut futures: Vec<(u64, AsyncUpdate)> =
            (0..400).map(|at| (at, space.futures().rmw_with(&key(at), counted(&alive)))).collect();
        assert!(futures.iter_mut().all(|(_, future)| poll(future).is_pending()));
        // Nothing is read yet, so that none of these takes place.
        let kept = futures.split_off(300);
        drop(futures);
        assert!(!held.has_gone());
        drop(held);
        for (at, future) in kept {
            assert!(block_on(future).unwrap().is_some());
            assert_eq!(read(&space, at), at + 1);
        }
        for at in 0..300 {
            assert_eq!(read(&space, at), at, "it was dropped before its value was read");
        }
        // It is not known whether these are done; they are not done by half or twice.
        for round in 0..20 {
            let futures = pending(&space, 400 + round * 40, 40);
            drop(futures);
        }
        let last = pending(&space, 1300, 1).pop().unwrap().1;
        assert!(block_on(last).unwrap().is_some());
        db.close().unwrap();
        assert_eq!(Arc::strong_count(&alive), 1, "the operators are gone");
    }
}

/// A thread that sleeps would keep the files of a cleared keyspace.
#[test]
fn a_keyspace_that_is_cleared_gives_its_files_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let kind = KeyspaceOptions { engine: EngineKind::F2, ..Default::default() };
    let space = db.keyspace("s", kind).unwrap();
    for at in 0..KEYS {
        space.put(&key(at), &value(at)).unwrap();
    }
    db.flush().unwrap();
    for (_, future) in pending(&space, 0, 10) {
        block_on(future).unwrap();
    }
    let instances = || std::fs::read_dir(dir.path().join("keyspaces/s")).unwrap().count();
    assert_eq!(instances(), 1);
    space.clear().unwrap();
    let environment = Environment::real();
    let start = environment.now();
    while instances() > 1 {
        assert!(environment.now() - start < PATIENCE, "the old files stay");
        std::thread::yield_now();
    }
}

/// As with an executor, the waker holds the task, here the last handle: the thread that writes
/// drops it.
#[test]
fn a_waker_may_close_the_database() {
    struct Task(Mutex<Option<AsyncUpdate>>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let future = self.0.lock().unwrap().take();
            drop(future);
        }
    }
    for journaled in [false, true] {
        let (device, db, space) = filled_on_faults(journaled);
        let held = Held::new(&device, OperationKind::Read);
        let device = device as Arc<dyn Device>;
        let task = Arc::new(Task(Mutex::default()));
        let waker = Waker::from(Arc::clone(&task));
        let mut place = task.0.lock().unwrap();
        let future = place.insert(space.futures().rmw(&key(0), add_one));
        assert!(Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending());
        drop((db, space, place, held));
        let environment = Environment::real();
        let start = environment.now();
        let (_db, space) = loop {
            match Db::open_on(Arc::clone(&device), "memory", options()) {
                Ok(db) => {
                    let space = db.existing_keyspace("s").unwrap();
                    break (db, space);
                }
                Err(error) => assert!(matches!(error, Error::InUse { .. }), "{error}"),
            }
            assert!(environment.now() - start < PATIENCE, "it is not closed");
            std::thread::yield_now();
        };
        assert_eq!(read(&space, 0), 1);
    }
}

/// An operator that panics on the thread: its future panics, and no other one is affected.
#[test]
fn an_operator_that_panics_panics_where_its_future_is_polled() {
    for journaled in [false, true] {
        let UnderWay { space, held, futures: before, .. } = under_way(journaled, 10);
        let mut bad = space.futures().rmw(&key(10), |_| panic!("as it was planted"));
        assert!(poll(&mut bad).is_pending());
        let after = pending(&space, 11, 10);
        drop(held);
        let caught = catch_unwind(AssertUnwindSafe(|| block_on(bad)));
        let panic = caught.unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"as it was planted"));
        for (at, future) in before.into_iter().chain(after) {
            assert!(block_on(future).unwrap().is_some());
            assert_eq!(read(&space, at), at + 1);
        }
        assert_eq!(read(&space, 10), 10);
        assert!(space.put(&key(10), &value(1)).is_ok(), "no lock is left behind");
    }
}

#[test]
fn a_waker_that_panics_is_in_nobodys_way() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("as it was planted");
        }
    }
    for journaled in [false, true] {
        let (device, db, space) = filled_on_faults(journaled);
        let held = Held::new(&device, OperationKind::Read);
        let waker = Waker::from(Arc::new(Panics));
        let mut first = space.futures().rmw(&key(0), add_one);
        assert!(Pin::new(&mut first).poll(&mut Context::from_waker(&waker)).is_pending());
        let others = pending(&space, 1, 400);
        drop(held);
        for (at, future) in others {
            assert!(block_on(future).unwrap().is_some());
            assert_eq!(read(&space, at), at + 1);
        }
        assert!(block_on(first).unwrap().is_some(), "it has its answer, too");
        db.close().unwrap();
    }
}

/// Counts the futures whose first poll could not end them.
#[derive(Default)]
struct Polls {
    pending: usize,
}

impl Polls {
    fn end<F: Future + Unpin>(&mut self, mut future: F) -> F::Output {
        match poll(&mut future) {
            Poll::Ready(output) => output,
            Poll::Pending => {
                self.pending += 1;
                block_on(future)
            }
        }
    }
}

/// A future's first poll writes a value that memory has room for, and keeps one on
/// [`Change::Keep`]. Some futures of `f2` wait: when the held room is used up, the store asks the
/// device for more.
#[test]
fn what_memory_knows_is_done_by_the_poll() {
    for &engine in EngineKind::ALL {
        for journaled in [false, true] {
            let (_db, space) = open_on(&device::memory(), options(), engine, journaled);
            let mut polls = Polls::default();
            for at in 0..50 {
                polls.end(space.futures().put(&key(at), &value(at))).unwrap();
                assert!(polls.end(space.futures().rmw(&key(at), add_one)).unwrap().is_some());
                let kept = polls.end(space.futures().rmw(&key(at), |_| Change::Keep));
                assert_eq!(kept, Ok(None), "{engine}");
                assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), at + 1);
                polls.end(space.futures().delete(&key(at))).unwrap();
                assert_eq!(space.get(&key(at)).unwrap(), None);
            }
            let pending_max = if engine == EngineKind::F2 { 20 } else { 0 };
            assert!(polls.pending <= pending_max, "{engine}: {} of 200", polls.pending);
        }
    }
}
