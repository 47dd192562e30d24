//! Batches as futures: whole over keyspaces of all engines, blocking no other work, with an outcome
//! for each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use device::{Device, FaultDevice, OperationKind};
use futures::executor::block_on;
use thermocline::{
    Batch, Change, Db, Durability, EngineKind, Error, KeyRange, Keyspace, KeyspaceOptions,
    MergeName, MergeOperators, Options,
};

use super::{Held, add_one, key, number, open_on, options, poll, read, value};

/// A keyspace of each engine, some of them journaled.
fn open_all(device: &Arc<dyn Device>, journaled: bool) -> (Db, Vec<Keyspace>) {
    let merge: MergeName = "add".parse().unwrap();
    let operators = MergeOperators::new().with(merge, |_, value, operand| match operand {
        b"panic" => panic!("as it was planted"),
        b"no" => Err("not this one".to_owned()),
        _ => Ok(add_one(value)),
    });
    let options = Options { merge_operators: operators, ..options() };
    let db = Db::open_on(Arc::clone(device), "memory", options).unwrap();
    let make = |engine: &EngineKind| {
        let (merge, memory_bytes) = (Some(merge), Some(16 << 20));
        let options = KeyspaceOptions {
            engine: *engine,
            journaled,
            merge,
            memory_bytes,
            ..Default::default()
        };
        db.keyspace(&engine.to_string(), options).unwrap()
    };
    let spaces = EngineKind::ALL.iter().map(make).collect();
    (db, spaces)
}

/// `count` keys from `from` on in each keyspace.
fn puts(spaces: &[Keyspace], from: u64, count: u64) -> Batch {
    let mut batch = Batch::new();
    for at in from..from + count {
        for space in spaces {
            batch.put(space, &key(at), &value(at));
        }
    }
    batch
}

fn must_have(spaces: &[Keyspace], from: u64, count: u64) {
    for space in spaces {
        for at in from..from + count {
            assert_eq!(read(space, at), at, "{} {at}", space.name());
        }
    }
}

#[test]
fn short_ones_are_done_by_the_poll_and_others_by_the_thread() {
    for journaled in [false, true] {
        let (db, spaces) = open_all(&device::memory(), journaled);
        let before = db.last();
        let mut short = db.write_async(puts(&spaces, 1, 8));
        assert_eq!(db.last(), before, "it does nothing before it is polled");
        let std::task::Poll::Ready(done) = poll(&mut short) else { panic!("it waits") };
        assert!(done.unwrap() > before);
        must_have(&spaces, 1, 8);
        block_on(db.write_async(puts(&spaces, 100, 150))).unwrap();
        must_have(&spaces, 100, 150);
        let mut lone = Batch::new();
        lone.put(&spaces[1], &key(1), &vec![7; 9_000]).delete(&spaces[0], &key(1));
        block_on(db.write_async(lone)).unwrap();
        assert_eq!(spaces[1].get(&key(1)).unwrap(), Some(vec![7; 9_000]));
        assert_eq!(spaces[0].get(&key(1)).unwrap(), None);
    }
}

#[test]
fn an_empty_one_writes_nothing() {
    let (db, spaces) = open_all(&device::memory(), true);
    spaces[0].put(b"k", b"v").unwrap();
    let before = db.last();
    for durability in [Durability::Buffered, Durability::Synced] {
        assert_eq!(block_on(db.durability(durability).write_async(Batch::new())), Ok(before));
    }
    assert_eq!(db.last(), before);
}

/// Merges see the values that the steps before have left; a range is deleted with the rest.
#[test]
fn merges_and_ranges_are_parts_of_one() {
    for journaled in [false, true] {
        let (db, spaces) = open_all(&device::memory(), journaled);
        for round in 0..50 {
            let mut batch = Batch::new();
            for space in &spaces {
                batch.merge(space, b"count", b"").merge(space, b"count", b"");
            }
            batch.delete_range(&spaces[0], &thermocline::KeyRange::prefix(b"key-"));
            batch.put(&spaces[0], &key(round), &value(round));
            block_on(db.write_async(batch)).unwrap();
        }
        for space in &spaces {
            let count = space.get(b"count").unwrap();
            assert_eq!(number(count.as_deref()), 100, "{}", space.name());
        }
        let keys = spaces[0].scan(KeyRange::prefix(b"key-")).unwrap().count();
        assert_eq!((keys, read(&spaces[0], 49)), (1, 49));
    }
}

#[test]
fn what_is_refused_writes_nothing_of_it() {
    for durability in [Durability::Buffered, Durability::Synced] {
        let (db, spaces) = open_all(&device::memory(), true);
        let db = db.durability(durability);
        let (other, elsewhere) = open_on(&device::memory(), options(), EngineKind::Memory, true);
        let with = |change: &dyn Fn(&mut Batch)| {
            let mut batch = puts(&spaces, 1, 2);
            change(&mut batch);
            let blocking = db.write(&batch);
            let awaited = block_on(db.write_async(batch));
            assert_eq!(awaited, blocking, "{durability:?}");
            assert!(
                spaces.iter().all(|space| space.get(&key(1)) == Ok(None)),
                "a part of it is there"
            );
            awaited.unwrap_err()
        };
        let foreign = with(&|batch| {
            batch.put(&elsewhere, b"k", b"v");
        });
        assert!(matches!(foreign, Error::NoKeyspace { .. }), "{foreign}");
        let long = with(&|batch| {
            batch.put(&spaces[0], &[7; 70_000], b"v");
        });
        assert!(matches!(long, Error::Engine(engine::Error::KeyTooLong { .. })), "{long}");
        let merge = with(&|batch| {
            batch.merge(&spaces[1], b"k", b"no");
        });
        assert!(matches!(merge, Error::MergeRefused { .. }), "{merge}");
        let unordered = with(&|batch| {
            batch.delete_range(&spaces[1], &thermocline::KeyRange::prefix(b"k"));
        });
        assert!(matches!(unordered, Error::Engine(engine::Error::Unordered { .. })), "{unordered}");
        drop(other);
        assert_eq!(db.failure(), None);
        db.close().unwrap();
        assert_eq!(block_on(db.write_async(puts(&spaces, 1, 1))), Err(Error::Closed));
    }
}

#[test]
fn a_merge_that_panics_panics_where_its_batch_is_polled() {
    let (db, spaces) = open_all(&device::memory(), true);
    let mut batch = puts(&spaces, 1, 1);
    batch.merge(&spaces[2], b"k", b"panic");
    let bad = db.write_async(batch);
    let panic = catch_unwind(AssertUnwindSafe(|| block_on(bad))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"as it was planted"));
    assert!(spaces.iter().all(|space| space.get(&key(1)) == Ok(None)), "a part of it is there");
    block_on(db.write_async(puts(&spaces, 1, 150))).unwrap();
    must_have(&spaces, 1, 150);
}

/// One that waits for a sync is not done by half to others, and shares it.
#[test]
fn many_share_a_sync_and_no_poll_waits_for_it() {
    let device = FaultDevice::new(device::memory());
    let on = Arc::clone(&device) as Arc<dyn Device>;
    let (db, spaces) = open_all(&on, true);
    let synced = db.durability(Durability::Synced);
    let syncs = device.count(Some(OperationKind::Sync));
    let held = Held::new(&device, OperationKind::Sync);
    let mut first = synced.write_async(puts(&spaces, 1, 1));
    assert!(poll(&mut first).is_pending());
    held.wait();
    let mut more: Vec<_> = (1..50).map(|at| synced.write_async(puts(&spaces, 1 + at, 1))).collect();
    assert!(more.iter_mut().all(|batch| poll(batch).is_pending()));
    let dropped = synced.write_async(puts(&spaces, 500, 1));
    drop(dropped);
    assert!(!held.has_gone(), "a poll has waited for the sync");
    drop(held);
    block_on(first).unwrap();
    for batch in more {
        block_on(batch).unwrap();
    }
    must_have(&spaces, 1, 50);
    assert_eq!(spaces[0].get(&key(500)).unwrap(), None, "it was never polled");
    let syncs = device.count(Some(OperationKind::Sync)) - syncs;
    assert!(syncs <= 6, "{syncs} syncs");
}

/// Only one of its keyspaces is journaled: it is durable, whichever comes first.
#[test]
fn a_batch_waits_for_the_journal_if_any_of_it_is_journaled() {
    let device = FaultDevice::new(device::memory());
    let on = Arc::clone(&device) as Arc<dyn Device>;
    let db = Db::open_on(on, "memory", options()).unwrap();
    let make = |name, journaled| {
        db.keyspace(name, KeyspaceOptions { journaled, ..Default::default() }).unwrap()
    };
    let (unjournaled, journaled) = (make("a", false), make("b", true));
    let synced = db.durability(Durability::Synced);
    let mut batch = Batch::new();
    batch.put(&unjournaled, b"k", b"v").put(&journaled, b"k", b"v");
    let syncs = || device.count(Some(OperationKind::Sync));
    let before = syncs();
    block_on(synced.write_async(batch)).unwrap();
    assert!(syncs() > before, "it has not waited for the journal");
    let mut batch = Batch::new();
    batch.put(&unjournaled, b"k", b"w");
    let done = poll(&mut synced.write_async(batch));
    assert!(matches!(done, std::task::Poll::Ready(Ok(_))), "nothing of it is journaled");
    let changed = unjournaled.rmw(b"k", |old| {
        assert_eq!(old, Some(&b"w"[..]));
        Change::Keep
    });
    assert_eq!(changed, Ok(None));
}
