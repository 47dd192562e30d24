//! Writers that wait in an engine, and writers that continue meanwhile.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use device::{FaultDevice, OperationKind};
use engine::{Change, KeyRange};
use sync::locks::Mutex;

use super::*;
use crate::database::Db;
use crate::keyspace::Keyspace;
use crate::merge::MergeOperators;
use crate::options::{EngineKind, KeyspaceOptions, Options};
use crate::stand_in::{StandIn, stand_in};

/// The time after which a wait counts as endless.
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

/// Runs `work` in another thread, so that a failure of the test does not wait for it.
fn beside<T: Send + 'static>(db: &Db, work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, told) = channel();
    let environment = db.inner.options.environment.clone();
    drop(environment.spawn("beside", move || drop(tell.send(work()))).unwrap());
    told
}

/// Returns an engine that reports each write that it is to admit, and admits it once the test lets
/// it.
fn stalled() -> (StandIn, Receiver<()>, Sender<()>) {
    let ((tell, asked), (go, going)) = (channel(), channel());
    let going = Mutex::new(going);
    let within_admit = Box::new(move || {
        let _if_nobody_listens = tell.send(());
        let _once_all_may_go = going.lock().recv();
    });
    (StandIn { within_admit, ..StandIn::default() }, asked, go)
}

/// A way to write a key.
type Way = fn(&Db, &Keyspace) -> Result<()>;

#[test]
fn a_writer_who_waits_for_its_engine_holds_up_no_other_keyspace() {
    let ways: [(&str, Way); 5] = [
        ("put", |_, space| space.put(b"k", b"v").map(drop)),
        ("delete", |_, space| space.delete(b"k").map(drop)),
        ("batch", |db, space| db.write(Batch::new().put(space, b"k", b"v")).map(drop)),
        ("rmw", |_, space| space.rmw(b"k", |_| Change::Put(b"v".to_vec())).map(drop)),
        ("atomically", |db, space| {
            db.atomically(&[(space, b"k")], |section| section.put(0, b"v".to_vec()))
        }),
    ];
    for (name, way) in ways {
        let db = Db::open_on(device::memory(), "stalled", options()).unwrap();
        let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
        let (engine, asked, go) = stalled();
        let space = stand_in(&db, "stalled", true, engine);
        let writer = db.clone();
        let written = beside(&db, move || way(&writer, &space));
        asked.recv_timeout(LONG).unwrap();
        // Locks all keys.
        let deleted = beside(&db, move || {
            other.delete_range(&KeyRange::all())?;
            other.put(b"k", b"v")
        });
        let deleted = deleted.recv_timeout(LONG);
        // Before the test may fail: a database is closed with all keys locked.
        drop(go);
        assert!(deleted.is_ok_and(|done| done.is_ok()), "{name}: all keyspaces stand still");
        assert_eq!(written.recv_timeout(LONG), Ok(Ok(())), "{name}");
    }
}

/// Writers were admitted, fill the memtables and wait for a flush with their numbers. Others use up
/// all numbers there are meanwhile, and the flush asks the journal how far it is.
#[test]
fn who_finds_no_number_keeps_no_flush_from_the_journal() {
    const WRITERS: u64 = 8;
    /// More than one, as a key may share a stripe with one that a waiting writer has locked.
    const OTHER_WRITERS: u64 = 4;
    const OTHER_WRITES: u64 = 5000;
    for engine in [EngineKind::Lsm, EngineKind::FlexDb] {
        let name = engine.to_string();
        let device = FaultDevice::new(device::memory());
        let db = Db::open_on(Arc::clone(&device) as _, "numbers", options()).unwrap();
        let small = KeyspaceOptions { engine, memory_bytes: Some(1 << 20), ..Default::default() };
        let small = db.keyspace("small", small).unwrap();
        let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
        // All of them together write twice its share.
        let share = small.slot.current().unwrap().share.as_ref().unwrap().budget.limit();
        let value = vec![7; (2 * share / WRITERS) as usize];
        let (engine, asked, go) = stalled();
        let last = stand_in(&db, "last", false, engine);
        let written: Vec<_> = (0..WRITERS)
            .map(|key| {
                let mut batch = Batch::new();
                batch.put(&small, &key.to_be_bytes(), &value);
                batch.put(&last, &key.to_be_bytes(), b"");
                let writer = db.clone();
                beside(&db, move || writer.write(&batch).map(drop))
            })
            .collect();
        // All of them, by the engine that they fill as well.
        (0..WRITERS).for_each(|_| asked.recv_timeout(LONG).unwrap());
        let ((held, holding), (release, released)) = (channel(), channel::<()>());
        device.interpose_anywhere(OperationKind::Sync, move || {
            let _if_nobody_listens = held.send(());
            let _once_it_may_go = released.recv();
        });
        drop(go);
        holding.recv_timeout(LONG).unwrap();
        let filled = (0..OTHER_WRITERS).map(|key| {
            let other = other.clone();
            let put = move || other.put(&key.to_be_bytes(), b"").map(drop);
            beside(&db, move || (0..OTHER_WRITES).try_for_each(|_| put()))
        });
        let filled: Vec<_> = filled.collect();
        let sequence = &db.inner.sequence;
        let open = || sequence.last().get() - sequence.visible().get();
        let until = db.inner.options.environment.now() + LONG;
        while open() < 4096 && db.inner.options.environment.now() < until {
            std::thread::yield_now();
        }
        assert!(open() >= 4096, "{name}: no writer waits with its number");
        drop(release);
        // A write that has not ended would keep a close from ending.
        let stuck = std::mem::ManuallyDrop::new(db);
        for ended in filled.iter().chain(&written) {
            assert_eq!(ended.recv_timeout(LONG), Ok(Ok(())), "{name}");
        }
        drop(std::mem::ManuallyDrop::into_inner(stuck));
    }
}

/// Once with nothing locked, and once with the write known: whether there is room without waiting.
#[test]
fn an_update_waits_for_room_once_also_where_it_waits_for_the_device() {
    for journaled in [true, false] {
        for knows_keys in [true, false] {
            let db = Db::open_on(device::memory(), "asked", options()).unwrap();
            let count = Arc::new(Mutex::new([0, 0]));
            let (waited, asked) = (Arc::clone(&count), Arc::clone(&count));
            let within_admit = Box::new(move || waited.lock()[0] += 1);
            let has_room = Box::new(move || {
                asked.lock()[1] += 1;
                true
            });
            let engine = StandIn { within_admit, has_room, knows_keys, ..StandIn::default() };
            let space = stand_in(&db, "asked", journaled, engine);
            space.rmw(b"k", |_| Change::Put(b"v".to_vec())).unwrap();
            assert_eq!(*count.lock(), [1, 1], "journaled: {journaled}, in memory: {knows_keys}");
        }
    }
}

/// How values grow that are merged or updated.
fn grown(value: Option<&[u8]>) -> Vec<u8> {
    [value.unwrap_or_default(), &b"v"[..]].concat()
}

fn merging() -> Options {
    let operators = MergeOperators::new()
        .with("grow".parse().unwrap(), |_, value, _| Ok(Change::Put(grown(value))));
    Options { merge_operators: operators, ..options() }
}

/// Ways to write what is made of the present value of `k`.
const UPDATES: [(&str, Way); 4] = [
    ("rmw", |_, space| space.rmw(b"k", |value| Change::Put(grown(value))).map(drop)),
    ("merge", |_, space| space.merge(b"k", b"").map(drop)),
    ("batch", |db, space| db.write(Batch::new().merge(space, b"k", b"")).map(drop)),
    ("transaction", |db, space| db.transaction(|tx| tx.merge(space, b"k", b"")).map(drop)),
];

/// While the update waits, others write the key, and all keys are locked and unlocked. Then it
/// starts over.
#[test]
fn an_update_that_waits_for_room_holds_no_key_and_no_number() {
    for journaled in [true, false] {
        for (name, way) in UPDATES {
            let db = Db::open_on(device::memory(), "full", merging()).unwrap();
            let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
            let (is_full, (tell, waits), (go, going)) =
                (AtomicBool::new(true), channel(), channel::<()>());
            let (asks, going) = (Arc::new(AtomicBool::new(false)), Mutex::new(going));
            let asking = Arc::clone(&asks);
            let has_room = Box::new(move || {
                let is_full = is_full.swap(false, Relaxed);
                asking.store(is_full, Relaxed);
                !is_full
            });
            let asked = Arc::clone(&asks);
            let within_admit = Box::new(move || {
                if asked.swap(false, Relaxed) {
                    let _if_nobody_listens = tell.send(());
                    let _once_it_may_go = going.lock().recv();
                }
            });
            let engine = StandIn { within_admit, has_room, ..StandIn::default() };
            let space = stand_in(&db, "full", journaled, engine);
            space.slot.set_merge("grow".parse().unwrap());
            let (writer, updated) = (db.clone(), space.clone());
            let written = beside(&db, move || way(&writer, &updated));
            waits.recv_timeout(LONG).unwrap();
            let visible = db.inner.sequence.visible();
            let others = beside(&db, move || {
                space.put(b"k", b"w")?;
                other.delete_range(&KeyRange::all())
            });
            let others = others.recv_timeout(LONG);
            let has_come = db.inner.sequence.visible() > visible;
            // Before the test may fail: a database is closed with all keys locked.
            drop(go);
            let what = format!("{name}, journaled: {journaled}");
            assert!(others.is_ok_and(|done| done.is_ok()), "{what}: the key stays locked");
            assert!(has_come, "{what}: a number is held");
            assert_eq!(written.recv_timeout(LONG), Ok(Ok(())), "{what}");
        }
    }
}

/// An engine that never has room without waiting when it is asked with keys locked.
#[test]
fn an_update_that_never_finds_room_at_once_is_let_in_once_it_has_waited_often() {
    for journaled in [true, false] {
        for (name, way) in UPDATES {
            let db = Db::open_on(device::memory(), "full", merging()).unwrap();
            let count = Arc::new(Mutex::new(0));
            let counted = Arc::clone(&count);
            let within_admit = Box::new(move || *counted.lock() += 1);
            let has_room = Box::new(|| false);
            let engine = StandIn { within_admit, has_room, ..StandIn::default() };
            let space = stand_in(&db, "full", journaled, engine);
            space.slot.set_merge("grow".parse().unwrap());
            way(&db, &space).unwrap();
            // Before the rounds, a transaction asks for the steps that it knows, and each way asks
            // for the key.
            let before = if name == "transaction" { 2 } else { 1 };
            assert_eq!(*count.lock(), before + ROUNDS_MAX, "{name}, journaled: {journaled}");
        }
    }
}
