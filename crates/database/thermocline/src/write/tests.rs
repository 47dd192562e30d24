//! Writers that wait in an engine, and writers that continue meanwhile.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use device::{FaultDevice, OperationKind};
use engine::{Change, KeyRange, MemoryUse};
use sync::locks::Mutex;

use super::*;
use crate::database::Db;
use crate::drivers::EngineKind;
use crate::keyspace::Keyspace;
use crate::merge::MergeOperators;
use crate::options::{KeyspaceOptions, Options};
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
    let within_reserve = Box::new(move || {
        let _if_nobody_listens = tell.send(());
        let _once_all_may_go = going.lock().recv();
    });
    (StandIn { within_reserve, ..StandIn::default() }, asked, go)
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

/// An update whose value has the usual length reserves room with nothing locked, once for each
/// attempt, and asks for no more.
#[test]
fn an_update_reserves_room_before_it_locks_its_key() {
    for journaled in [true, false] {
        for knows_keys in [true, false] {
            let db = Db::open_on(device::memory(), "asked", options()).unwrap();
            let count = Arc::new(Mutex::new([0, 0]));
            let (waited, asked) = (Arc::clone(&count), Arc::clone(&count));
            let within_reserve = Box::new(move || waited.lock()[0] += 1);
            let has_room = Box::new(move || {
                asked.lock()[1] += 1;
                true
            });
            let engine = StandIn { within_reserve, has_room, knows_keys, ..StandIn::default() };
            let space = stand_in(&db, "asked", journaled, engine);
            space.rmw(b"k", |_| Change::Put(b"v".to_vec())).unwrap();
            let attempts = if knows_keys { 1 } else { 2 };
            let what = format!("journaled: {journaled}, in memory: {knows_keys}");
            assert_eq!(*count.lock(), [attempts, 0], "{what}");
        }
    }
}

/// Returns the result of an update or a merge: a longer value than the usual one.
fn grown(value: Option<&[u8]>) -> Vec<u8> {
    [value.unwrap_or_default(), &[b'v'; 2 * engine::VALUE_BYTES_GUESSED as usize]].concat()
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
            let ((tell, waits), (go, going)) = (channel(), channel::<()>());
            let (reserved, going) = (AtomicU32::new(0), Mutex::new(going));
            let has_room = Box::new(|| false);
            // First for a value of the usual length, then for the one that was made.
            let within_reserve = Box::new(move || {
                if reserved.fetch_add(1, Relaxed) == 1 {
                    let _if_nobody_listens = tell.send(());
                    let _once_it_may_go = going.lock().recv();
                }
            });
            let engine = StandIn { within_reserve, has_room, ..StandIn::default() };
            let space = stand_in(&db, "full", journaled, engine);
            space.entry.set_merge("grow".parse().unwrap());
            let (writer, updated) = (db.clone(), space.clone());
            let written = beside(&db, move || way(&writer, &updated));
            waits.recv_timeout(LONG).unwrap();
            let visible = db.inner.order.sequence.visible();
            let others = beside(&db, move || {
                space.put(b"k", b"w")?;
                other.delete_range(&KeyRange::all())
            });
            let others = others.recv_timeout(LONG);
            let has_come = db.inner.order.sequence.visible() > visible;
            // Before the test may fail: a database is closed with all keys locked.
            drop(go);
            let what = format!("{name}, journaled: {journaled}");
            assert!(others.is_ok_and(|done| done.is_ok()), "{what}: the key stays locked");
            assert!(has_come, "{what}: a number is held");
            assert_eq!(written.recv_timeout(LONG), Ok(Ok(())), "{what}");
        }
    }
}

/// An engine that never has room without waiting when it is asked with keys locked. The room for
/// which the update waits is kept for its next attempt.
#[test]
fn an_update_keeps_the_room_for_which_it_has_waited() {
    for journaled in [true, false] {
        for (name, way) in UPDATES {
            let db = Db::open_on(device::memory(), "full", merging()).unwrap();
            let count = Arc::new(Mutex::new(0));
            let counted = Arc::clone(&count);
            let within_reserve = Box::new(move || *counted.lock() += 1);
            let has_room = Box::new(|| false);
            let engine = StandIn { within_reserve, has_room, ..StandIn::default() };
            let space = stand_in(&db, "full", journaled, engine);
            space.entry.set_merge("grow".parse().unwrap());
            way(&db, &space).unwrap();
            // For a value of the usual length, and for the one that was made.
            assert_eq!(*count.lock(), 2, "{name}, journaled: {journaled}");
        }
    }
}

/// A database on `device`, and a keyspace whose engine counts the room of each write.
fn counting(device: &Arc<FaultDevice>, engine: EngineKind, journaled: bool) -> (Db, Keyspace) {
    let options = Options { memory_bytes: Options::MEMORY_BYTES_MIN, ..merging() };
    let db = Db::open_on(Arc::clone(device) as _, "cleared", options).unwrap();
    let filled = db.keyspace("filled", KeyspaceOptions::default()).unwrap();
    let has_share = matches!(engine.driver().memory, MemoryUse::Share { .. });
    let memory_bytes = has_share.then_some(2 << 20);
    let merge = Some("grow".parse().unwrap());
    let options = KeyspaceOptions { engine, journaled, memory_bytes, merge, ..Default::default() };
    let space = db.keyspace("s", options).unwrap();
    // An engine that has all pairs in memory counts short writes only if little of it is free.
    for key in 0_u64.. {
        let (used, limit) = db.memory_bytes();
        if limit - used < 2 << 20 {
            break;
        }
        filled.put(&key.to_be_bytes(), &[7; 64 << 10]).unwrap();
    }
    (db, space)
}

/// Calls `action` once the calling thread has locked all keys, as it does to clear a keyspace.
fn once_all_is_locked(device: &Arc<FaultDevice>, db: &Db, action: Box<dyn FnOnce() + Send>) {
    let (again, locker) = (Arc::clone(device), db.clone());
    device.interpose(OperationKind::Rename, move || {
        match locker.inner.locks.try_one(0, b"k", Duration::ZERO) {
            Some(_free) => once_all_is_locked(&again, &locker, action),
            None => action(),
        }
    });
}

/// The write has room in the engine that is replaced while it waits for the key. That room is
/// released, and the write starts over with the engine that replaces it.
#[test]
fn a_write_whose_keyspace_is_cleared_while_it_has_room_starts_over() {
    let value = grown(None);
    let put: Way = |_, space| space.put(b"k", &grown(None)).map(drop);
    let batch: Way = |db, space| db.write(Batch::new().put(space, b"k", &grown(None))).map(drop);
    let section: Way =
        |db, space| db.atomically(&[(space, b"k")], |section| section.put(0, grown(None)));
    let writes = [("put", put), ("batch of puts", batch), ("atomically", section)];
    let ways: Vec<(&str, Way)> = writes.into_iter().chain(UPDATES).collect();
    for &engine in EngineKind::ALL {
        for journaled in [true, false] {
            for (name, way) in &ways {
                let what = format!("{engine}, {name}, journaled: {journaled}");
                let device = FaultDevice::new(device::memory());
                let (db, space) = counting(&device, engine, journaled);
                space.put(b"k", b"old").unwrap();
                let old = space.entry.instance().unwrap();
                assert_eq!(old.engine.stats().reserved, 0, "{what}");
                let (begun, writer) = channel();
                let action = {
                    let (db, space, old, way) = (db.clone(), space.clone(), Arc::clone(&old), *way);
                    move || {
                        let environment = db.inner.options.environment.clone();
                        let written = beside(&db.clone(), move || way(&db, &space));
                        let latest = environment.now() + LONG;
                        while old.engine.stats().reserved == 0 && environment.now() < latest {
                            std::thread::yield_now();
                        }
                        let has_room = old.engine.stats().reserved > 0;
                        begun.send((written, has_room)).unwrap();
                    }
                };
                once_all_is_locked(&device, &db, Box::new(action));
                space.clear().unwrap();
                let (written, has_room) = writer.try_recv().unwrap();
                assert!(has_room, "{what}: nothing was reserved before the clear");
                assert_eq!(written.recv_timeout(LONG), Ok(Ok(())), "{what}");
                let new = space.entry.instance().unwrap();
                assert!(!Arc::ptr_eq(&old, &new), "{what}");
                assert!(space.get(b"k").unwrap().as_ref() == Some(&value), "{what}: not written");
                let reserved = [&old, &new].map(|instance| instance.engine.stats().reserved);
                assert_eq!(reserved, [0, 0], "{what}: room is not released");
                space.put(b"k", b"again").unwrap();
            }
        }
    }
}
