//! Wakers that do any work on the threads that wake them, while other threads wait for these
//! threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;

use device::{Device, FaultDevice, OperationKind};
use thermocline::{Db, EngineKind, Environment, Error, Keyspace, KeyspaceOptions, Result};

use super::{Held, PATIENCE, add_one, filled, key, read};

/// Work that is done by a waker.
type Work = Box<dyn FnOnce() + Send>;

struct Works(Mutex<Option<Work>>);

impl Wake for Works {
    fn wake(self: Arc<Self>) {
        let work = self.0.lock().unwrap().take();
        if let Some(work) = work {
            work();
        }
    }
}

/// A waker that does `work` once, and where its result will be.
fn working<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> (Waker, Receiver<T>) {
    let (tell, told) = channel();
    let work: Work = Box::new(move || drop(tell.send(work())));
    (Waker::from(Arc::new(Works(Mutex::new(Some(work))))), told)
}

/// Runs the work on another thread, so that no failure of the test waits for it.
fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, told) = channel();
    drop(Environment::real().spawn("beside", move || drop(tell.send(work()))).unwrap());
    told
}

fn told<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).expect("it ends")
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let environment = Environment::real();
    let start = environment.now();
    while !is_so() {
        assert!(environment.now() - start < PATIENCE, "{what}");
        thread::yield_now();
    }
}

/// The thread on which a future is woken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Reader,
    Writer,
}

/// A keyspace whose future, of a cold key, is under way: its read is held up.
struct UnderWay {
    device: Arc<FaultDevice>,
    db: Db,
    space: Keyspace,
    held: Held,
}

impl UnderWay {
    fn new(journaled: bool, by: By, waker: impl FnOnce(&Db) -> Waker) -> (Self, Pending) {
        let device = FaultDevice::new(device::memory());
        let (db, space) = filled(&(Arc::clone(&device) as Arc<dyn Device>), journaled);
        let held = Held::new(&device, OperationKind::Read);
        let future = polled(&space, by, 0, &waker(&db));
        held.wait();
        (Self { device, db, space, held }, future)
    }
}

/// A future whose outcome does not matter.
type Pending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future of a cold key that was polled, and wakes `waker`.
fn polled(space: &Keyspace, by: By, at: u64, waker: &Waker) -> Pending {
    let (get, update) = (space.futures().get(&key(at)), space.futures().rmw(&key(at), add_one));
    let mut future: Pending = match by {
        By::Reader => Box::pin(async move { drop(get.await) }),
        By::Writer => Box::pin(async move { drop(update.await) }),
    };
    assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    future
}

fn make(db: &Db) -> Result<Keyspace> {
    db.keyspace("other", KeyspaceOptions::default())
}

/// A close waits for the thread, and its waker waits for nothing.
fn beside_a_close<T: Send + 'static>(
    journaled: bool,
    by: By,
    work: impl FnOnce(&Db) -> T + Send + 'static,
) -> T {
    let mut result = None;
    let (UnderWay { db, space, held, .. }, _future) = UnderWay::new(journaled, by, |db| {
        let db = db.clone();
        let (waker, told) = working(move || work(&db));
        result = Some(told);
        waker
    });
    let closing = beside(move || db.close());
    until("it is never closed", || space.get(b"k") == Err(Error::Closed));
    drop(held);
    let result = told(&result.unwrap());
    assert_eq!(told(&closing), Ok(()), "{by:?}, journaled {journaled}");
    result
}

#[test]
fn a_waker_that_closes_beside_a_close_does_not_wait_for_it() {
    for journaled in [false, true] {
        for by in [By::Reader, By::Writer] {
            let closed = beside_a_close(journaled, by, |db| db.close());
            assert_eq!(closed, Err(Error::Closed), "{by:?}, journaled {journaled}");
        }
    }
}

#[test]
fn a_waker_that_makes_a_keyspace_beside_a_close_is_told_of_it() {
    for journaled in [false, true] {
        for by in [By::Reader, By::Writer] {
            let made = beside_a_close(journaled, by, |db| make(db).map(drop));
            assert_eq!(made, Err(Error::Closed), "{by:?}, journaled {journaled}");
        }
    }
}

/// One of them closes, and waits for the other's thread.
#[test]
fn wakers_on_two_threads_may_both_close() {
    for journaled in [false, true] {
        let mut first = None;
        let close = |told: &mut Option<Receiver<Result<()>>>, db: &Db| {
            let db = db.clone();
            let (waker, receiver) = working(move || db.close());
            *told = Some(receiver);
            waker
        };
        let (UnderWay { device, db, space, held }, _get) =
            UnderWay::new(journaled, By::Reader, |db| close(&mut first, db));
        let mut second = None;
        let also_held = Held::new(&device, OperationKind::Read);
        let _update = polled(&space, By::Writer, 1, &close(&mut second, &db));
        also_held.wait();
        drop((held, also_held));
        let outcomes = [told(&first.unwrap()), told(&second.unwrap())];
        assert!(outcomes.contains(&Ok(())), "{outcomes:?}");
        assert!(
            outcomes.iter().all(|outcome| matches!(outcome, Ok(()) | Err(Error::Closed))),
            "{outcomes:?}"
        );
        assert_eq!(db.close(), Ok(()));
    }
}

/// A thread that is not woken by the database waits for the end of another thread's close, and gets
/// its outcome.
#[test]
fn others_wait_for_a_close_that_is_under_way() {
    let (UnderWay { db, space, held, .. }, _update) =
        UnderWay::new(true, By::Writer, |_| Waker::noop().clone());
    let closing = beside({
        let db = db.clone();
        move || db.close()
    });
    until("it is never closed", || space.get(b"k") == Err(Error::Closed));
    let also = beside(move || db.close());
    // It does not return before the first close has ended, which waits for the read.
    assert!(also.recv_timeout(std::time::Duration::from_millis(50)).is_err());
    assert!(!held.has_gone());
    drop(held);
    assert_eq!((told(&closing), told(&also)), (Ok(()), Ok(())));
}

/// The last holder that drops a cleared keyspace's engine waits for the thread that reads from it.
#[test]
fn a_waker_may_write_and_make_keyspaces_beside_who_clears_one() {
    for journaled in [false, true] {
        let mut result = None;
        let (UnderWay { space, held, .. }, _get) = UnderWay::new(journaled, By::Reader, |db| {
            let db = db.clone();
            let (waker, told) = working(move || {
                let other = make(&db)?;
                // All keys are locked while a keyspace is cleared, so any key will do.
                other.put(b"k", b"v")
            });
            result = Some(told);
            waker
        });
        let clearing = beside({
            let space = space.clone();
            move || space.clear()
        });
        until("it is never cleared", || space.get(&key(5)) == Ok(None));
        drop(held);
        told(&result.unwrap()).unwrap();
        told(&clearing).unwrap();
        assert_eq!(read(&space, 0), 0);
    }
}

/// The same for a keyspace that is dropped by the last holder of a handle.
#[test]
fn a_waker_may_make_keyspaces_beside_who_drops_one() {
    for journaled in [false, true] {
        let mut result = None;
        let (UnderWay { db, space, held, .. }, get) = UnderWay::new(journaled, By::Reader, |db| {
            let db = db.clone();
            let (waker, told) = working(move || make(&db).map(drop));
            result = Some(told);
            waker
        });
        drop((get, space));
        let dropping = beside({
            let db = db.clone();
            move || db.drop_keyspace("s")
        });
        until("it is never dropped", || {
            matches!(db.existing_keyspace("s"), Err(Error::NoKeyspace { .. }))
        });
        drop(held);
        told(&result.unwrap()).unwrap();
        told(&dropping).unwrap();
        let other = db.existing_keyspace("other").unwrap();
        assert_eq!(other.options().engine, EngineKind::Memory);
    }
}
