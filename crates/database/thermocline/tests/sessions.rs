//! Operations of a keyspace that overlap: on a thread's session, and gets as futures.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use device::{Completion, Device, Doorbell, FailedOperation, Queue, Request};
use tempfile::TempDir;
use thermocline::{
    AsyncGet, Completed, Db, EngineKind, Error, Keyspace, KeyspaceOptions, MergeOperators, Options,
    Result, Session, SessionGet, SessionRmw,
};

use crate::cold_keys;
use crate::numbered;
use crate::with_queues::WithQueues;

const KEYS: u32 = 40_000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn value(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(250)
}

/// A database with so little memory that most of its pairs are on disk alone.
fn open(dir: &TempDir, engine: EngineKind) -> (Db, Keyspace) {
    let memory_bytes = if engine == EngineKind::F2 { 12 << 20 } else { 1 << 30 };
    let db = Db::open(dir.path(), Options { memory_bytes, ..Options::default() }).unwrap();
    let space = db
        .keyspace("s", KeyspaceOptions { engine, journaled: false, ..Default::default() })
        .unwrap();
    for number in 0..KEYS {
        space.put(&key(number), &value(number)).unwrap();
    }
    (db, space)
}

struct Unpark(Thread, AtomicU64);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, SeqCst);
        self.0.unpark();
    }
}

/// Polls all of them until they are done, sleeping in between. Returns how many were pending when
/// they were polled first.
fn join(futures: Vec<AsyncGet>, done: &mut dyn FnMut(usize, Result<Option<Vec<u8>>>)) -> usize {
    let unpark = Arc::new(Unpark(thread::current(), AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut left: Vec<(usize, AsyncGet)> = futures.into_iter().enumerate().collect();
    let mut pending = None;
    loop {
        let woken = unpark.1.load(SeqCst);
        left.retain_mut(|(index, future)| {
            match Pin::new(future).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(outcome) => done(*index, outcome),
                Poll::Pending => return true,
            }
            false
        });
        let pended = *pending.get_or_insert(left.len());
        if left.is_empty() {
            return pended;
        }
        while unpark.1.load(SeqCst) == woken {
            thread::park();
        }
    }
}

#[test]
fn futures_find_what_blocking_gets_find() {
    let dir = TempDir::new().unwrap();
    let (db, space) = open(&dir, EngineKind::F2);
    let numbers: Vec<u32> = (0..KEYS + 100).step_by(17).collect();
    let futures = numbers.iter().map(|number| space.futures().get(&key(*number))).collect();
    let mut told = BTreeSet::new();
    let pended = join(futures, &mut |index, outcome| {
        let number = numbers[index];
        let expected = (number < KEYS).then(|| value(number));
        assert_eq!(outcome.unwrap(), expected, "{number}");
        assert!(told.insert(number));
    });
    assert_eq!(told.len(), numbers.len());
    assert!(pended > numbers.len() / 2, "{pended} were pending");
    db.close().unwrap();
    assert_eq!(
        join(vec![space.futures().get(b"k")], &mut |_, got| assert_eq!(got, Err(Error::Closed))),
        0
    );
}

#[test]
fn many_threads_await_at_once() {
    let dir = TempDir::new().unwrap();
    let (_db, space) = open(&dir, EngineKind::F2);
    thread::scope(|scope| {
        for thread in 0..4 {
            let space = &space;
            scope.spawn(move || {
                for round in 0..60 {
                    let numbers: Vec<u32> =
                        (0..20).map(|at| (round * 977 + at * 1511 + thread * 31) % KEYS).collect();
                    let futures = numbers.iter().map(|number| space.futures().get(&key(*number)));
                    join(futures.collect(), &mut |index, outcome| {
                        assert_eq!(outcome.unwrap(), Some(value(numbers[index])));
                    });
                }
            });
        }
    });
}

#[test]
fn futures_that_are_dropped_are_in_nobodys_way() {
    let dir = TempDir::new().unwrap();
    let (db, space) = open(&dir, EngineKind::F2);
    let waker = Waker::noop();
    for round in 0..50 {
        let mut futures: Vec<AsyncGet> =
            (0..100).map(|at| space.futures().get(&key((round * 331 + at * 97) % KEYS))).collect();
        for future in &mut futures {
            let _ = Pin::new(future).poll(&mut Context::from_waker(waker));
        }
        let last = futures.pop().into_iter().collect();
        drop(futures);
        join(last, &mut |_, outcome| assert!(outcome.unwrap().is_some()));
    }
    db.close().unwrap();
}

#[test]
fn a_pending_read_fails_when_the_database_closes() {
    let dir = TempDir::new().unwrap();
    let (db, space) = open(&dir, EngineKind::F2);
    let mut futures: Vec<AsyncGet> =
        (0..2_000).map(|at| space.futures().get(&key(at * 19 % KEYS))).collect();
    for future in &mut futures {
        let _ = Pin::new(future).poll(&mut Context::from_waker(Waker::noop()));
    }
    db.close().unwrap();
    let (mut closed, mut found) = (0, 0);
    join(futures, &mut |_, outcome| match outcome {
        Ok(Some(_)) => found += 1,
        Err(Error::Closed) => closed += 1,
        other => panic!("{other:?}"),
    });
    assert!(closed > 0, "{found} were found");
}

/// As with an executor, the waker holds the task, here the last handle: the thread that serves the
/// futures drops it.
#[test]
fn a_waker_may_close_the_database() {
    struct Task(Mutex<Option<AsyncGet>>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let future = self.0.lock().unwrap().take();
            drop(future);
        }
    }
    let dir = TempDir::new().unwrap();
    let (db, space) = open(&dir, EngineKind::F2);
    let task = Arc::new(Task(Mutex::default()));
    let waker = Waker::from(Arc::clone(&task));
    let mut place = task.0.lock().unwrap();
    let future = place.insert(space.futures().get(&key(0)));
    assert!(Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending());
    drop((db, space));
    drop(place);
    let reopened = loop {
        match Db::open(dir.path(), Options { memory_bytes: 12 << 20, ..Options::default() }) {
            Ok(db) => break db,
            Err(error) => assert!(matches!(error, Error::InUse { .. }), "{error}"),
        }
        thread::yield_now();
    };
    assert!(task.0.lock().unwrap().is_none(), "it was woken");
    let options =
        KeyspaceOptions { engine: EngineKind::F2, journaled: false, ..Default::default() };
    let space = reopened.keyspace("s", options).unwrap();
    assert_eq!(space.get(&key(7)).unwrap(), Some(value(7)));
}

#[test]
fn what_is_in_memory_is_there_at_once() {
    let dir = TempDir::new().unwrap();
    let (_db, space) = open(&dir, EngineKind::Memory);
    let futures = (0..100).map(|number| space.futures().get(&key(number))).collect();
    let pended = join(futures, &mut |index, outcome| {
        assert_eq!(outcome.unwrap(), Some(value(index as u32)));
    });
    assert_eq!(pended, 0);
    let mut session = space.session(2).unwrap();
    let mut into = Vec::new();
    for number in 0..10 {
        assert_eq!(session.begin_get(0, &key(number), &mut into).unwrap(), SessionGet::Found);
        assert_eq!(into, value(number));
    }
    assert_eq!(session.begin_get(0, b"nobody", &mut into).unwrap(), SessionGet::Absent);
    assert_eq!(session.complete(true, &mut |_, _| panic!("nothing is pending")).unwrap(), 0);
}

#[test]
fn a_pending_get_of_a_cleared_keyspace_has_the_value_from_before_or_after() {
    let dir = TempDir::new().unwrap();
    let (_db, space) = open(&dir, EngineKind::F2);
    let mut session = space.session(8).unwrap();
    let mut into = Vec::new();
    let mut number = 0;
    while session.begin_get(u64::from(number), &key(number), &mut into).unwrap() != SessionGet::Full
    {
        number += 1;
    }
    assert_eq!(session.pending(), 8);
    space.clear().unwrap();
    for number in (0..number).step_by(2) {
        space.put(&key(number), b"new").unwrap();
    }
    // A lookup that ends in memory needs no room.
    assert_eq!(session.begin_get(0, &key(0), &mut into).unwrap(), SessionGet::Found);
    assert_eq!(into, b"new");
    assert_eq!(session.begin_get(0, &key(1), &mut into).unwrap(), SessionGet::Absent);
    let mut count = 0;
    while session.pending() > 0 {
        let told = session.complete(true, &mut |tag, found| {
            let Completed::Value(found) = found.unwrap() else { panic!("a get") };
            let now = tag.is_multiple_of(2).then_some(&b"new"[..]);
            assert!(found == now || found == Some(&value(tag as u32)[..]), "{tag}: {found:?}");
        });
        count += told.unwrap();
    }
    assert_eq!(count, 8);
}

/// A session keeps neither the memory nor the files of a keyspace that was cleared.
#[test]
fn a_session_keeps_no_engine() {
    let dir = TempDir::new().unwrap();
    let (_db, space) = open(&dir, EngineKind::F2);
    let mut session = space.session(8).unwrap();
    let mut into = Vec::new();
    let mut is_pending =
        |number: u32| session.begin_get(0, &key(number), &mut into).unwrap() == SessionGet::Pending;
    assert!((0..100_000).any(&mut is_pending), "one is on the device");
    let files = || -> Vec<_> {
        let keyspaces = std::fs::read_dir(dir.path().join("keyspaces")).unwrap();
        let instances = keyspaces.flat_map(|one| std::fs::read_dir(one.unwrap().path()).unwrap());
        instances.map(|one| one.unwrap().path()).collect()
    };
    let before = files();
    space.clear().unwrap();
    let after = files();
    assert_eq!(after.len(), 1, "{after:?}");
    assert_ne!(after, before);
}

/// A queue whose reads end only while a caller waits, and that fails once the test wants it.
struct FailingQueue {
    inner: Box<dyn Queue>,
    fails: Arc<AtomicBool>,
}

fn broken() -> device::Error {
    device::Error::Io { operation: FailedOperation::Queue, name: "ring".to_owned(), code: 5 }
}

impl Queue for FailingQueue {
    fn submit(&mut self, request: Request) -> std::result::Result<(), Request> {
        self.inner.submit(request)
    }

    fn poll(&mut self, _into: &mut Vec<Completion>) -> device::Result<usize> {
        if self.fails.load(SeqCst) { Err(broken()) } else { Ok(0) }
    }

    fn wait(&mut self, count: usize, into: &mut Vec<Completion>) -> device::Result<usize> {
        if self.fails.load(SeqCst) { Err(broken()) } else { self.inner.wait(count, into) }
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn ring(&mut self, bell: &Arc<Doorbell>) -> device::Result<()> {
        self.inner.ring(bell)
    }
}

/// The queues of the thread that makes this. The queues of other threads never fail.
struct Queues {
    /// Flags that make a queue fail, in the order in which the queues were made.
    made: Mutex<Vec<Arc<AtomicBool>>>,
    has_none: AtomicBool,
}

impl Queues {
    fn on_memory() -> (Arc<Self>, Arc<dyn Device>) {
        let queues = Arc::new(Self { made: Mutex::default(), has_none: AtomicBool::new(false) });
        let (own, thread) = (Arc::clone(&queues), thread::current().id());
        let device = WithQueues::on(device::memory(), move |device, depth| {
            let inner = device.queue(depth)?;
            if thread::current().id() != thread {
                return Ok(inner);
            }
            if own.has_none.load(SeqCst) {
                return Err(broken());
            }
            let fails = Arc::new(AtomicBool::new(false));
            own.made.lock().unwrap().push(Arc::clone(&fails));
            Ok(Box::new(FailingQueue { inner, fails }))
        });
        (queues, device)
    }

    fn count(&self) -> usize {
        self.made.lock().unwrap().len()
    }
}

/// Begins gets and updates in turn, of keys from `from` on, until `count` are pending. Returns the
/// numbers of their keys.
fn begin(session: &mut Session, from: u64, count: usize) -> Vec<u64> {
    let (mut begun, mut into) = (Vec::new(), Vec::new());
    for at in from..cold_keys::KEYS {
        if begun.len() == count {
            return begun;
        }
        let key = numbered::key(at);
        let is_pending = match begun.len() % 2 {
            0 => session.begin_get(at, &key, &mut into).unwrap() == SessionGet::Pending,
            _ => {
                let update = session.begin_rmw(at, &key, Box::new(numbered::add_one)).unwrap();
                matches!(update, SessionRmw::Pending)
            }
        };
        if is_pending {
            begun.push(at);
        }
    }
    panic!("too few are on the device")
}

/// Completes all pending operations. Returns the keys of two kinds: of operations that have
/// succeeded, and of operations that have failed with the queue.
fn outcomes(session: &mut Session) -> [Vec<u64>; 2] {
    let mut outcomes = [vec![], vec![]];
    while session.pending() > 0 {
        let count = session.complete(true, &mut |at, outcome| match outcome {
            Ok(Completed::Value(found)) => {
                assert_eq!(found, Some(&numbered::value(at)[..]), "{at}");
                outcomes[0].push(at);
            }
            Ok(Completed::Updated(Some(_))) => outcomes[0].push(at),
            Err(Error::Engine(engine::Error::Device(device::Error::Io {
                operation: FailedOperation::Queue,
                ..
            }))) => outcomes[1].push(at),
            other => panic!("{at}: {other:?}"),
        });
        assert!(count.unwrap() > 0, "it waits for one");
    }
    outcomes.iter_mut().for_each(|tags| tags.sort_unstable());
    outcomes
}

/// Each pending operation of its session gets the failure, and has changed nothing. No other
/// session is concerned.
#[test]
fn a_queue_that_fails_ends_what_is_pending_and_the_next_operation_makes_another() {
    const COUNT: usize = 12;
    let none = MergeOperators::new();
    for (engine, journaled) in cold_keys::engines() {
        let what = format!("{engine}, journaled: {journaled}");
        let (queues, device) = Queues::on_memory();
        let keyspace = KeyspaceOptions { engine, journaled, ..Default::default() };
        let (db, space) = cold_keys::filled(&device, &none, keyspace);
        let read = |at| numbered::number(space.get(&numbered::key(at)).unwrap().as_deref());
        let [mut failing, mut sound] = [(); 2].map(|()| space.session(COUNT).unwrap());
        let made = queues.count();
        let failed = begin(&mut failing, 0, COUNT);
        assert_eq!(queues.count(), made + 1, "{what}: a session has one queue");
        let others = begin(&mut sound, 500, COUNT);
        queues.made.lock().unwrap()[made].store(true, SeqCst);
        assert_eq!(outcomes(&mut failing), [vec![], failed.clone()], "{what}");
        assert_eq!(outcomes(&mut sound), [others, vec![]], "{what}");

        // No queue can be made: a session needs one, and a call that waits does not.
        queues.has_none.store(true, SeqCst);
        let again = begin(&mut failing, 1_000, 2);
        assert_eq!(outcomes(&mut failing), [vec![], again], "{what}: it has no queue");
        for at in &failed {
            assert_eq!(read(*at), *at, "{what}: a failed operation has changed its key");
        }
        let key = numbered::key(1_200);
        assert!(space.rmw(&key, numbered::add_one).unwrap().is_some(), "{what}");
        assert_eq!(read(1_200), 1_201, "{what}");
        let keys: Vec<_> = (1_300..1_310).map(numbered::key).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for (at, value) in (1_300..).zip(space.multi_get(&keys).unwrap()) {
            assert_eq!(numbered::number(value.as_deref()), at, "{what}: of a multi-get");
        }

        queues.has_none.store(false, SeqCst);
        let made = queues.count();
        let begun = begin(&mut failing, 1_400, COUNT);
        assert_eq!(queues.count(), made + 1, "{what}: the next operation makes a queue");
        assert_eq!(outcomes(&mut failing), [begun.clone(), vec![]], "{what}");
        for (nth, at) in (0..).zip(begun) {
            assert_eq!(read(at), at + nth % 2, "{what}: each second one is an update");
        }
        assert_eq!(space.stats().unwrap().reserved, 0, "{what}");
        assert_eq!(db.failure(), None, "{what}");
    }
}
