//! Writes that must not wait, while something makes each other write wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use device::{FaultDevice, OperationKind};
use engine::Error as EngineError;
use journal::Durability;

use super::*;
use crate::Error;
use crate::drivers::EngineKind;
use crate::options::{KeyspaceOptions, Options};
use crate::stand_in::OneRead;
use crate::stand_in::{StandIn, stand_in};

/// A call that takes longer than this never ends.
const LONG: Duration = Duration::from_secs(20);

fn options() -> Options {
    Options {
        memory_bytes: 64 << 20,
        sync_interval: None,
        balance_memory: false,
        durability: Durability::Buffered,
        ..Options::default()
    }
}

/// Has another thread do it, so that a failure does not block the test.
fn on_thread<T: Send + 'static>(db: &Db, work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, told) = channel();
    let environment = db.inner.options.environment.clone();
    drop(environment.spawn("on thread", move || drop(tell.send(work()))).unwrap());
    told
}

/// Whether a write was done.
type Way = fn(&Db, &Keyspace) -> Result<bool>;

fn is_done(tried: Tried) -> bool {
    assert_ne!(tried, Tried::NeedsRead);
    tried != Tried::MustWait
}

fn update(value: Option<&[u8]>) -> Change {
    Change::Put([value.unwrap_or_default(), &b"v"[..]].concat())
}

fn polled<F: Future<Output = Result<T>> + Unpin, T>(mut future: F) -> Result<bool> {
    match std::pin::Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(written) => written.map(|_| true),
        Poll::Pending => Ok(false),
    }
}

/// The calls that must not wait.
const CALLS: [(&str, Way); 4] = [
    ("put", |_, space| Ok(space.try_put(b"k", b"v")?.is_some())),
    ("update", |_, space| Ok(is_done(space.try_rmw(b"k", &mut update)?))),
    ("update of a looked up value", |_, space| {
        let Keyspace { inner, entry, form, .. } = space;
        let (instance, mut value) = (entry.instance()?, Vec::new());
        let had_value = instance.get_stored(b"k", At::Newest, &mut value)?;
        let value = had_value.then_some(&value[..]);
        let lookup = OneRead::default();
        let old = Old { key: b"k", value, instance: Some(&instance), lookup: &lookup };
        inner.try_rmw_with_old(entry, *form, &old, &mut update).map(is_done)
    }),
    ("batch", |db, space| {
        Ok(db.try_write(Batch::new().put(space, b"k", b"v").put(space, b"l", b"w"))?.is_some())
    }),
];

/// The polls that must not.
const POLLS: [(&str, Way); 3] = [
    ("a future that puts", |_, space| polled(space.futures().put(b"k", b"v"))),
    ("a future that updates", |_, space| polled(space.futures().rmw(b"k", update))),
    ("a future of a batch", |db, space| {
        let mut batch = Batch::new();
        batch.put(space, b"k", b"v");
        polled(db.write_async(batch))
    }),
];

/// Numbers that change if, and only if, a write is done.
fn numbers(db: &Db) -> [u64; 2] {
    [db.inner.order.sequence.last().get(), db.inner.journal.stats().records]
}

/// Asserts that each of `ways` is abandoned while `block` makes writes wait, and not afterwards.
fn assert_gives_up<B>(
    what: &str,
    ways: &[(&str, Way)],
    open: impl Fn() -> (Db, Keyspace),
    block: impl Fn(&Db, &Keyspace) -> B,
) {
    for (name, way) in ways {
        let (db, space) = open();
        let blocked = block(&db, &space);
        let before = numbers(&db);
        let (writer, written) = (db.clone(), space.clone());
        let way = *way;
        let done = on_thread(&db, move || way(&writer, &written));
        let done = done.recv_timeout(LONG);
        let after = numbers(&db);
        // Before the test may fail: a database is closed with all keys locked.
        drop(blocked);
        assert_eq!(done, Ok(Ok(false)), "{name} waits: {what}");
        assert_eq!(before, after, "{name} has changed something: {what}");
        // The thread of a future that was polled before may have the key for a moment.
        let is_done = (0..10_000).any(|_| {
            std::thread::yield_now();
            way(&db, &space) == Ok(true)
        });
        assert!(is_done, "{name} waits after {what}");
    }
}

fn open(engine: EngineKind, journaled: bool) -> (Db, Keyspace) {
    let db = Db::open_on(device::memory(), "trying", options()).unwrap();
    let options = KeyspaceOptions { engine, journaled, ..Default::default() };
    let space = db.keyspace("s", options).unwrap();
    (db, space)
}

#[test]
fn no_call_waits_for_the_lock_of_its_key() {
    for (engine, journaled) in
        [(EngineKind::Memory, true), (EngineKind::F2, true), (EngineKind::F2, false)]
    {
        for (name, way) in CALLS {
            let (db, space) = open(engine, journaled);
            let held = db.inner.locks.all();
            let before = numbers(&db);
            let (writer, written) = (db.clone(), space.clone());
            let done = on_thread(&db, move || way(&writer, &written)).recv_timeout(LONG);
            let after = numbers(&db);
            drop(held);
            assert_eq!(done, Ok(Ok(false)), "{name}, {engine}, journaled: {journaled}");
            assert_eq!(before, after, "{name}, {engine}, journaled: {journaled}");
            assert_eq!(way(&db, &space), Ok(true), "{name}, {engine}, journaled: {journaled}");
        }
    }
}

/// Maintenance of the journal under way, for a journal that is too long.
struct LongJournal(Db);

impl Drop for LongJournal {
    fn drop(&mut self) {
        self.0.inner.upkeep.end_for_test();
    }
}

#[test]
fn no_call_and_no_poll_waits_for_a_shorter_journal() {
    let ways: Vec<(&str, Way)> = CALLS.into_iter().chain(POLLS).collect();
    let block = |db: &Db, space: &Keyspace| {
        space.put(b"before", b"v").unwrap();
        db.inner.upkeep.begin_for_test();
        LongJournal(db.clone())
    };
    for &engine in EngineKind::ALL {
        assert_gives_up("a long journal", &ways, || open(engine, true), block);
        // Without a journal there is nothing to wait for.
        let (db, space) = open(engine, false);
        db.inner.upkeep.begin_for_test();
        for (name, way) in CALLS {
            assert_eq!(way(&db, &space), Ok(true), "{name}, {engine}");
        }
        db.inner.upkeep.end_for_test();
    }
}

#[test]
fn no_call_waits_for_an_engine_without_room_or_that_slows_writers_down() {
    for journaled in [true, false] {
        for (name, way) in CALLS {
            let db = Db::open_on(device::memory(), "trying", options()).unwrap();
            let within_reserve = Box::new(|| panic!("this might wait"));
            let within_apply = Box::new(|| panic!("no room was granted"));
            let has_room = Box::new(|| false);
            let engine = StandIn { has_room, within_reserve, within_apply, ..StandIn::default() };
            let space = stand_in(&db, "full", journaled, engine);
            let records = numbers(&db)[1];
            assert_eq!(way(&db, &space), Ok(false), "{name}, journaled: {journaled}");
            assert_eq!(numbers(&db)[1], records, "{name}, journaled: {journaled}");
        }
    }
}

#[test]
fn no_call_waits_for_a_write_of_the_journal() {
    let (db, space) = open(EngineKind::F2, true);
    let long = vec![7; 16 << 10];
    let is_refused = || {
        let refused = space.try_put(b"long", &long).unwrap().is_none();
        // Meanwhile the background of the engine holds room, if that was what the write lacked.
        db.inner.options.environment.sleep(Duration::from_millis(if refused { 10 } else { 0 }));
        refused
    };
    let is_full = || (0..10).all(|_| is_refused());
    assert!((0..1_000_u64).any(|_| is_full()), "the group of records ends");
    for (name, way) in CALLS {
        assert_eq!(way(&db, &space), Ok(false), "{name}");
    }
    space.put(b"other", b"writes the group").unwrap();
    for (name, way) in CALLS {
        assert_eq!(way(&db, &space), Ok(true), "{name}");
    }
}

#[test]
fn no_call_waits_for_a_number() {
    for journaled in [true, false] {
        let (db, space) = open(EngineKind::F2, journaled);
        let tickets: Vec<_> = std::iter::from_fn(|| db.inner.order.sequence.try_begin()).collect();
        assert!(tickets.len() > 1);
        for (name, way) in CALLS {
            assert_eq!(way(&db, &space), Ok(false), "{name}, journaled: {journaled}");
        }
        drop(tickets);
        for (name, way) in CALLS {
            assert_eq!(way(&db, &space), Ok(true), "{name}, journaled: {journaled}");
        }
    }
}

/// A flush is held until all writes that need no room are done. None of them has waited.
#[test]
fn writes_give_up_before_their_engine_has_them_wait_for_a_flush() {
    let writes_max = (64 << 20) / VALUE.len();
    const VALUE: [u8; 4 << 10] = [7; 4 << 10];
    for engine in [EngineKind::Lsm, EngineKind::FlexDb] {
        let device = FaultDevice::new(device::memory());
        let db = Db::open_on(Arc::clone(&device) as _, "trying", options()).unwrap();
        let small = KeyspaceOptions { engine, memory_bytes: Some(2 << 20), ..Default::default() };
        let space = db.keyspace("small", small).unwrap();
        let ((held, holding), (release, released)) = (channel(), channel::<()>());
        device.interpose_anywhere(OperationKind::Sync, move || {
            let _if_nobody_listens = held.send(());
            let _once_it_may_go = released.recv();
        });
        let (writer, written) = (space.clone(), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&written);
        let journal = db.clone();
        let filled = on_thread(&db, move || {
            for at in 0..writes_max as u64 {
                let Some(seqno) = writer.try_put(&at.to_be_bytes(), &VALUE)? else {
                    return Ok::<bool, Error>(true);
                };
                // The journal always has room for another record.
                journal.wait(seqno, Durability::Flushed)?;
                count.fetch_add(1, Relaxed);
            }
            Ok(false)
        });
        let filled = filled.recv_timeout(LONG);
        let detail = space.stats().unwrap().detail;
        let waits = detail.iter().filter(|(name, _)| *name == "stalls");
        let waits: u64 = waits.map(|(_, count)| count).sum();
        // The flush may not have reached its sync yet.
        let is_held = holding.recv_timeout(LONG).is_ok();
        drop(release);
        assert_eq!(filled, Ok(Ok(true)), "{engine}: a write waits, or the memory has no end");
        assert!(is_held, "{engine}: nothing was flushed");
        assert!(written.load(Relaxed) > 10, "{engine}: only {written:?} writes were done");
        assert_eq!(waits, 0, "{engine}");
        // A write that may wait does, and then there is room.
        space.wait_to_write().unwrap();
        space.put(b"last", &VALUE).unwrap();
    }
}

#[test]
fn a_full_memory_refuses_a_write_and_replaces_values_without_a_wait() {
    static VALUE: [u8; 64 << 10] = [7; 64 << 10];
    let (db, space) = open(EngineKind::Memory, true);
    let mut full = None;
    for at in 0..10_000_u64 {
        match space.try_put(&at.to_be_bytes(), &VALUE) {
            // The journal always has room for another record.
            Ok(Some(seqno)) => db.wait(seqno, Durability::Flushed).unwrap(),
            other => {
                full = Some(other);
                break;
            }
        }
    }
    let full = full.expect("the memory ends");
    assert!(matches!(full, Err(Error::Engine(EngineError::OutOfMemory { .. }))), "{full:?}");
    for at in 0..100_u64 {
        let seqno = space.try_put(&at.to_be_bytes(), &VALUE).unwrap();
        db.wait(seqno.expect("no wait"), Durability::Flushed).unwrap();
    }
}

#[test]
fn updates_of_calls_and_polls_are_counted() {
    let (db, space) = open(EngineKind::F2, true);
    let written = || db.stats().keyspaces[0].updates.written;
    for (count, (name, way)) in (1..).zip([CALLS[1], CALLS[2], POLLS[1]]) {
        assert_eq!(way(&db, &space), Ok(true), "{name}");
        assert_eq!(written(), count, "{name}");
    }
}
