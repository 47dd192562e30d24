//! Range deletes in keyspaces of `lsm`: in one batch over several keyspaces, and where they wait
//! for room.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use device::{Device, FaultDevice, OperationKind};
use tempfile::TempDir;
use thermocline::{
    Batch, Db, Direction, EngineKind, Environment, KeyRange, Keyspace, KeyspaceOptions, Options,
};

const MIB: u64 = 1 << 20;

fn ordered(journaled: bool) -> KeyspaceOptions {
    KeyspaceOptions { engine: EngineKind::Lsm, journaled, ..Default::default() }
}

fn open(dir: &TempDir, memory_bytes: u64) -> Db {
    let options = Options { memory_bytes, ..Options::default() };
    Db::open(dir.path(), options).unwrap()
}

fn pairs(space: &Keyspace, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    space.scan_in(KeyRange::all(), direction).unwrap().map(|pair| pair.unwrap()).collect()
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

/// One batch deletes a range of two keyspaces and puts a key into each; the journal has it, or the
/// engines' own files have. A snapshot of before shows all.
#[test]
fn ranges_of_several_keyspaces_are_deleted_at_once() {
    for flushes in [false, true] {
        let dir = TempDir::new().unwrap();
        let db = open(&dir, 16 * MIB);
        let options = [ordered(true), KeyspaceOptions::default()];
        let spaces = |db: &Db| {
            [("lsm", options[0]), ("memory", options[1])]
                .map(|(name, options)| db.keyspace(name, options).unwrap())
        };
        for space in &spaces(&db) {
            (0..1000).for_each(|number| {
                space.put(&key(number), b"old").unwrap();
            });
        }
        let snapshot = db.snapshot().unwrap();
        let mut batch = Batch::new();
        for space in &spaces(&db) {
            batch.delete_range(space, &KeyRange::of(key(100)..=key(899)));
            batch.put(space, &key(500), b"new");
        }
        db.write(&batch).unwrap();
        let expected: Vec<_> = (0..100)
            .chain([500])
            .chain(900..1000)
            .map(|number| (key(number), if number == 500 { b"new" } else { b"old" }.to_vec()))
            .collect();
        for space in &spaces(&db) {
            assert_eq!(pairs(space, Direction::Forward), expected);
            assert_eq!(snapshot.scan(space, KeyRange::all()).unwrap().count(), 1000);
            assert_eq!(space.scan(KeyRange::prefix(b"key-0001")).unwrap().count(), 0);
            assert_eq!(space.scan(KeyRange::prefix(b"key-0009")).unwrap().count(), 100);
        }
        drop(snapshot);
        if flushes {
            db.flush().unwrap();
        }
        db.close().unwrap();
        let db = open(&dir, 16 * MIB);
        for space in &spaces(&db) {
            assert_eq!(pairs(space, Direction::Forward), expected);
            space.delete_range(&KeyRange::all()).unwrap();
            space.delete_range(&KeyRange::of(key(7)..key(7))).unwrap();
            assert_eq!(pairs(space, Direction::Backward), []);
        }
    }
}

/// Only how long a test that fails takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The flush is held up, so that a thread that deletes ranges waits for room.
#[test]
fn range_deletes_that_wait_for_room_hold_nobody_up() {
    let device = FaultDevice::new(device::memory());
    let options = Options { memory_bytes: 16 * MIB, ..Options::default() };
    let db = Db::open_on(Arc::clone(&device) as Arc<dyn Device>, "memory", options).unwrap();
    let space = db.keyspace("stalled", ordered(true)).unwrap();
    let other = db.keyspace("other", KeyspaceOptions::default()).unwrap();
    let (go_on, held_up) = mpsc::channel::<()>();
    device.interpose_anywhere(OperationKind::Open, move || {
        let _ = held_up.recv();
    });
    let stalls = |db: &Db| {
        let stats = db.stats();
        let of = stats.keyspaces.into_iter().find(|one| one.name == "stalled").unwrap();
        of.engine.detail.into_iter().find(|(name, _)| *name == "stalls").unwrap().1
    };
    let in_batches = {
        let (db, space) = (db.clone(), space.clone());
        move || {
            for number in 0_u64.. {
                let mut batch = Batch::new();
                batch.delete_range(&space, &KeyRange::of(key(0)..key(1)));
                batch.put(&space, &key(number), &[1; 8 << 10]);
                db.write(&batch).unwrap();
                if stalls(&db) > 0 {
                    return;
                }
            }
        }
    };
    let environment = Environment::real();
    let goes_on = || {
        let (other, (is_done, done)) = (other.clone(), mpsc::channel());
        let beside = environment.spawn("beside", move || {
            for number in 0..5_000 {
                other.put(&key(number), b"v").unwrap();
            }
            let _ = is_done.send(());
        });
        // Not joined, since it may wait for the flush.
        drop(beside.unwrap());
        assert_eq!(done.recv_timeout(PATIENCE), Ok(()), "it waits for room in another keyspace");
    };
    let batches = environment.spawn("batches", in_batches).unwrap();
    let wait_for = |count: u64| {
        let begun = environment.now();
        while stalls(&db) < count {
            assert!(environment.now() - begun < PATIENCE, "not {count} writes wait for room");
            std::thread::yield_now();
        }
    };
    wait_for(1);
    goes_on();
    let single = {
        let space = space.clone();
        // More than the batch that waits wanted.
        let end = vec![b'z'; 32 << 10];
        move || assert!(space.delete_range(&KeyRange::of(key(0)..end)).is_ok())
    };
    let single = environment.spawn("single", single).unwrap();
    wait_for(2);
    goes_on();
    drop(go_on);
    batches.join().unwrap();
    single.join().unwrap();
}
