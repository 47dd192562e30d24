//! A panic of an operator, a callback or a waker fails its own operation. Its room, its place in
//! the session and its lock are released, over every engine.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures::executor::block_on;
use thermocline::{
    Batch, Change, Completed, Db, EngineKind, Environment, Keyspace, KeyspaceOptions,
    LookupForUpdate, MergeOperators, Operator, Session, SessionGet, SessionRmw, Tried,
};

use crate::cold_keys::{self, KEYS};
use crate::numbered::{add_one, key, number, value};

/// Lookups that a session has in flight.
const DEPTH: usize = 16;
/// Only how long a test that fails takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The text of each panic that a test wants.
const TEXT: &str = "as the test wants it";

fn panics(_: Option<&[u8]>) -> Change {
    std::panic::panic_any(TEXT)
}

/// Panics while it changes a value in place.
struct PanicsInPlace;

impl Operator for PanicsInPlace {
    fn update_in_place(&mut self, _: &mut [u8]) -> bool {
        std::panic::panic_any(TEXT)
    }

    fn update(&mut self, old: Option<&[u8]>) -> Change {
        panics(old)
    }
}

fn filled(engine: EngineKind, journaled: bool) -> (Db, Keyspace) {
    let name = "panics".parse().unwrap();
    let operators = MergeOperators::new().with(name, |_, old, _| Ok(panics(old)));
    let keyspace = KeyspaceOptions { engine, journaled, merge: Some(name), ..Default::default() };
    let (db, space) = cold_keys::filled(&device::memory(), &operators, keyspace);
    if engine == EngineKind::Memory {
        use_memory(&db);
    }
    (db, space)
}

/// Takes most of the memory: otherwise an engine that has all pairs there does not count the room
/// of short writes.
fn use_memory(db: &Db) {
    let options = KeyspaceOptions { journaled: false, ..Default::default() };
    let filler = db.keyspace("filler", options).unwrap();
    for at in 0.. {
        let (used, limit) = db.memory_bytes();
        if limit - used < 2 << 20 {
            return;
        }
        filler.put(&key(at), &[7; 64 << 10]).unwrap();
    }
}

/// Checks that nothing is reserved, and that each key can be written: no lock is held.
fn must_be_free(db: &Db, space: &Keyspace, keys: &[Vec<u8>], what: &str) {
    assert_eq!(space.stats().unwrap().reserved, 0, "{what}: room is not released");
    let (done, waits) = channel();
    let (writer, keys) = (space.clone(), keys.to_vec());
    let spawned = Environment::real().spawn("writes", move || {
        let written = keys.iter().all(|key| writer.put(key, &value(7)).is_ok());
        let _if_the_test_still_waits = done.send(written);
    });
    drop(spawned.unwrap());
    let written = waits.recv_timeout(PATIENCE);
    if written.is_err() {
        // A database is closed with all keys locked.
        std::mem::forget(db.clone());
    }
    assert_eq!(written, Ok(true), "{what}: a key stays locked");
    assert_eq!(space.stats().unwrap().reserved, 0, "{what}");
    assert_eq!(db.failure(), None, "{what}");
}

/// A call whose operator panics.
type Call = fn(&Db, &Keyspace, &[u8]);

const CALLS: [(&str, Call); 10] = [
    ("rmw", |_, space, key| drop(space.rmw(key, panics))),
    ("rmw in place", |_, space, key| drop(space.rmw_with(key, &mut PanicsInPlace))),
    ("try_rmw", |_, space, key| try_update(space, key)),
    ("rmw of a session", |_, space, key| {
        let mut session = space.session(1).unwrap();
        drop(session.begin_rmw(0, key, Box::new(panics)));
        let _ = session.complete(true, &mut |_, outcome| panic!("{outcome:?}"));
    }),
    ("rmw as a future", |_, space, key| drop(block_on(space.futures().rmw(key, panics)))),
    ("merge", |_, space, key| drop(space.merge(key, b"operand"))),
    ("merge of a batch", |db, space, key| {
        drop(db.write(Batch::new().put(space, b"other", b"new").merge(space, key, b"operand")));
    }),
    ("merge of a batch as a future", |db, space, key| {
        let mut batch = Batch::new();
        batch.put(space, b"other", b"new").merge(space, key, b"operand");
        drop(block_on(db.write_async(batch)));
    }),
    ("merge of a transaction", |db, space, key| {
        drop(db.transaction(|tx| {
            tx.put(space, b"other", b"new")?;
            tx.merge(space, key, b"operand")
        }));
    }),
    ("section", |db, space, key| {
        drop(db.atomically(&[(space, key), (space, b"other")], |section| {
            section.put(1, b"new".to_vec())?;
            let old = section.get(0)?;
            panics(old.as_deref());
            Ok(())
        }));
    }),
];

/// Updates the key without a wait. If its value is on the device, a session looks it up.
fn try_update(space: &Keyspace, key: &[u8]) {
    let mut operator: fn(Option<&[u8]>) -> Change = panics;
    let mut session = space.session(1).unwrap();
    loop {
        if space.try_rmw(key, &mut operator).unwrap() == Tried::NeedsRead
            && session.lookup_for_update(0, key).unwrap() == LookupForUpdate::Pending
        {
            let completed = session.complete(true, &mut |_, outcome| match outcome.unwrap() {
                Completed::Old(old) => drop(old.update(&mut operator).unwrap()),
                other => panic!("{other:?} of a lookup"),
            });
            assert_eq!(completed, Ok(1));
        }
        // The background may still make room.
        std::thread::yield_now();
    }
}

#[test]
fn a_panic_of_an_operator_releases_its_room_and_its_lock() {
    for &engine in EngineKind::ALL {
        for journaled in [true, false] {
            let (db, space) = filled(engine, journaled);
            let warm = key(KEYS);
            for (at, (name, call)) in (1..).zip(CALLS) {
                // Of a key on the device, of one in memory, and of one that has no value.
                space.put(&warm, &value(at)).unwrap();
                let olds = [(key(at * 100), at * 100), (warm.clone(), at), (b"none".to_vec(), 0)];
                for (key, old) in olds {
                    let what = format!("{engine}, {name}, journaled: {journaled}, of {old}");
                    let called = catch_unwind(AssertUnwindSafe(|| call(&db, &space, &key)));
                    let text = called.unwrap_err().downcast_ref::<&str>().copied();
                    assert_eq!(text, Some(TEXT), "{what}: the operator has not panicked");
                    assert_eq!(number(space.get(&key).unwrap().as_deref()), old, "{what}");
                    assert_eq!(space.get(b"other").unwrap(), None, "{what}: a part is written");
                    let keys = [key.clone(), b"other".to_vec()];
                    must_be_free(&db, &space, &keys, &what);
                    space.delete(b"other").unwrap();
                    space.delete(b"none").unwrap();
                }
            }
        }
    }
}

/// Begins gets and updates in turn, of keys from `from` on, until the session has no place left.
/// Returns the tags of the pending operations: the numbers of their keys.
fn fill(session: &mut Session, from: u64) -> Vec<u64> {
    let (mut pending, mut into) = (Vec::new(), Vec::new());
    for at in (from..KEYS).step_by(7) {
        let is_pending = match pending.len() % 2 {
            0 => match session.begin_get(at, &key(at), &mut into).unwrap() {
                SessionGet::Full => return pending,
                begun => begun == SessionGet::Pending,
            },
            _ => match session.begin_rmw(at, &key(at), Box::new(add_one)).unwrap() {
                SessionRmw::Full(_) => return pending,
                begun => matches!(begun, SessionRmw::Pending),
            },
        };
        if is_pending {
            pending.push(at);
        }
        if pending.len() == DEPTH {
            return pending;
        }
    }
    panic!("too few are on the device")
}

#[test]
fn a_panic_of_a_callback_releases_its_room_its_place_and_its_lock() {
    for (engine, journaled) in cold_keys::engines() {
        let what = format!("{engine}, journaled: {journaled}");
        let (db, space) = filled(engine, journaled);
        let mut session = space.session(DEPTH).unwrap();
        let begun = fill(&mut session, 0);
        let (mut reported, mut panics) = (Vec::new(), 0);
        // A place that is lost stays pending for ever.
        for _ in 0..1_000_000 {
            if reported.len() >= DEPTH {
                break;
            }
            let completed = catch_unwind(AssertUnwindSafe(|| {
                session.complete(false, &mut |tag, outcome| {
                    reported.push(tag);
                    // Some callbacks for gets, and some for updates.
                    if tag % 5 <= 1 {
                        assert!(outcome.is_ok());
                        std::panic::panic_any(TEXT);
                    }
                })
            }));
            panics += usize::from(completed.is_err());
        }
        assert_eq!(session.pending(), 0, "{what}: a place is lost");
        reported.sort_unstable();
        assert_eq!(reported, begun, "{what}: each is reported once");
        assert_eq!(panics, begun.iter().filter(|tag| **tag % 5 <= 1).count(), "{what}");
        let keys: Vec<_> = begun.iter().map(|at| key(*at)).collect();
        must_be_free(&db, &space, &keys, &what);
        // All places are free again.
        let from = begun[DEPTH - 1] + 7;
        let again = fill(&mut session, from);
        let mut count = 0;
        while session.pending() > 0 {
            count += session.complete(true, &mut |_, done| assert!(done.is_ok())).unwrap();
        }
        assert_eq!((again.len(), count), (DEPTH, DEPTH), "{what}");
    }
}

/// Panics when it is woken, and counts how often it was.
#[derive(Default)]
struct Panics(AtomicUsize);

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
        std::panic::panic_any(TEXT)
    }
}

/// A future of a key on the device, with the number that it finds, or that it makes.
type Pending<'a> = Pin<Box<dyn Future<Output = u64> + 'a>>;

/// A get of a key, or an update that adds one, if it is pending once it was polled with `waker`.
fn pending<'a>(
    space: &'a Keyspace,
    at: u64,
    updates: bool,
    waker: &Waker,
) -> Option<(u64, Pending<'a>)> {
    let read = move || async move {
        let found = space.futures().get(&key(at)).await.unwrap();
        number(found.as_deref())
    };
    let mut future: Pending<'a> = match updates {
        false => Box::pin(read()),
        true => Box::pin(async move {
            space.futures().rmw(&key(at), add_one).await.unwrap();
            read().await - 1
        }),
    };
    let polled = future.as_mut().poll(&mut Context::from_waker(waker));
    polled.is_pending().then_some((at, future))
}

#[test]
fn a_panic_of_a_waker_releases_its_room_and_its_lock_and_ends_no_other_future() {
    for (engine, journaled) in cold_keys::engines() {
        for updates in [false, true] {
            let what = format!("{engine}, journaled: {journaled}, updates: {updates}");
            let (db, space) = filled(engine, journaled);
            let panics = Arc::new(Panics::default());
            let panicking = Waker::from(Arc::clone(&panics));
            // Both kinds of futures are in flight together.
            let (mut futures, mut bad) = (Vec::new(), 0);
            for at in (0..KEYS).step_by(7) {
                let is_bad = futures.len() % 3 == 0;
                let waker = if is_bad { &panicking } else { Waker::noop() };
                if let Some(future) = pending(&space, at, updates, waker) {
                    futures.push(future);
                    bad += usize::from(is_bad);
                }
            }
            assert!(futures.len() > DEPTH, "{what}: {} are on the device", futures.len());
            let environment = Environment::real();
            let latest = environment.now() + PATIENCE;
            while panics.0.load(SeqCst) < bad && environment.now() < latest {
                std::thread::yield_now();
            }
            assert_eq!(panics.0.load(SeqCst), bad, "{what}: each waker is woken once");
            let keys: Vec<_> = futures.iter().map(|(at, _)| key(*at)).collect();
            for (at, future) in futures {
                assert_eq!(block_on(future), at, "{what}");
            }
            must_be_free(&db, &space, &keys, &what);
            db.close().unwrap();
        }
    }
}
