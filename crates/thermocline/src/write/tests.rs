//! Writers who wait in an engine, and who goes on beside them.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use device::{FaultDevice, OperationKind};
use engine::{Change, KeyRange};
use parking_lot::Mutex;

use super::*;
use crate::keyspace::Keyspace;
use crate::options::{EngineKind, KeyspaceOptions, Options};
use crate::stand_in::{StandIn, stand_in};

/// What takes longer than this never ends.
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

/// Has another thread do it; a failure of the test waits for nobody.
fn beside<T: Send + 'static>(db: &Db, work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (tell, told) = channel();
    let environment = db.inner.options.environment.clone();
    drop(environment.spawn("beside", move || drop(tell.send(work()))).unwrap());
    told
}

/// An engine that tells of each write that it is to admit, and does so once it is let.
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
        // Twice of what it has, all of them together.
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
        // Whatever has not ended would keep a close from its end.
        let stuck = std::mem::ManuallyDrop::new(db);
        for ended in filled.iter().chain(&written) {
            assert_eq!(ended.recv_timeout(LONG), Ok(Ok(())), "{name}");
        }
        drop(std::mem::ManuallyDrop::into_inner(stuck));
    }
}

/// Once with nothing locked and once with what is written, or once in all where the engine does it.
#[test]
fn an_update_asks_for_room_once_also_where_it_waits_for_the_device() {
    for (journaled, asked) in [(true, 2), (false, 1)] {
        for knows_keys in [true, false] {
            let db = Db::open_on(device::memory(), "asked", options()).unwrap();
            let count = Arc::new(Mutex::new(0));
            let counted = Arc::clone(&count);
            let within_admit = Box::new(move || *counted.lock() += 1);
            let engine = StandIn { within_admit, knows_keys, ..StandIn::default() };
            let space = stand_in(&db, "asked", journaled, engine);
            space.rmw(b"k", |_| Change::Put(b"v".to_vec())).unwrap();
            assert_eq!(*count.lock(), asked, "journaled: {journaled}, in memory: {knows_keys}");
        }
    }
}
