//! Keyspaces of the ordered engines over data larger than memory: scans, snapshots, batches with
//! other engines, reopening with and without a flush, clearing, copies, checks.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use tempfile::TempDir;
use thermocline::{
    Batch, Change, Db, Direction, EngineKind, KeyRange, Keyspace, KeyspaceOptions, Options, TryNext,
};

const MIB: u64 = 1 << 20;

/// Each engine, and its counter of work that it has done once memory has overflown.
const ENGINES: [(EngineKind, &str); 3] = [
    (EngineKind::Lsm, "compactions"),
    (EngineKind::FlexDb, "commits"),
    (EngineKind::HashKv, "buffer_flushes"),
];

fn of(engine: EngineKind, journaled: bool) -> KeyspaceOptions {
    KeyspaceOptions { engine, journaled, ..Default::default() }
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

/// Ten times the data that memory holds, written over and deleted, scanned both ways, opened again
/// twice.
#[test]
fn data_larger_than_memory_are_scanned_and_recovered() {
    for (engine, work) in ENGINES {
        let dir = TempDir::new().unwrap();
        let mut expected = BTreeMap::new();
        let db = open(&dir, 16 * MIB);
        let space = db.keyspace("large", of(engine, true)).unwrap();
        for step in 0..120_000_u64 {
            let number = step * 7919 % 60_007;
            if step % 11 == 0 {
                space.delete(&key(number)).unwrap();
                expected.remove(&key(number));
            } else {
                let value = vec![(step % 251) as u8; 400];
                space.put(&key(number), &value).unwrap();
                expected.insert(key(number), value);
            }
        }
        let stats = space.stats().unwrap();
        assert!(stats.memory_bytes < 16 * MIB, "{} bytes of memory", stats.memory_bytes);
        assert!(stats.detail.iter().any(|(name, count)| *name == work && *count > 0));
        db.close().unwrap();
        for _ in 0..2 {
            let db = open(&dir, 16 * MIB);
            let space = db.keyspace("large", of(engine, true)).unwrap();
            let forward: Vec<_> = expected.clone().into_iter().collect();
            assert!(pairs(&space, Direction::Forward) == forward, "forward");
            let backward: Vec<_> = expected.clone().into_iter().rev().collect();
            assert!(pairs(&space, Direction::Backward) == backward, "backward");
            db.flush().unwrap();
            db.close().unwrap();
        }
        let report = thermocline::check(dir.path()).unwrap();
        assert_eq!(report.damage, []);
    }
}

#[test]
fn batches_and_snapshots_span_engines() {
    for (engine, _) in ENGINES {
        let dir = TempDir::new().unwrap();
        let db = open(&dir, 64 * MIB);
        let larger = db.keyspace("larger", of(engine, true)).unwrap();
        let memory = db.keyspace("memory", KeyspaceOptions::default()).unwrap();
        let both = |value: &[u8]| {
            let mut batch = Batch::new();
            batch.put(&larger, b"k", value);
            batch.put(&memory, b"k", value);
            db.write(&batch).unwrap();
        };
        both(b"one");
        let snapshot = db.snapshot().unwrap();
        both(b"two");
        db.flush().unwrap();
        for space in [&larger, &memory] {
            assert_eq!(snapshot.get(space, b"k").unwrap().as_deref(), Some(&b"one"[..]));
            assert_eq!(space.get(b"k").unwrap().as_deref(), Some(&b"two"[..]));
        }
        larger.rmw(b"k", |old| Change::Put([old.unwrap(), b"!"].concat())).unwrap();
        assert_eq!(larger.get(b"k").unwrap().as_deref(), Some(&b"two!"[..]));
        larger.clear().unwrap();
        assert_eq!(pairs(&larger, Direction::Forward), []);
        assert_eq!(snapshot.get(&memory, b"k").unwrap().as_deref(), Some(&b"one"[..]));
    }
}

#[test]
fn without_a_journal_what_was_flushed_stays() {
    for (engine, _) in ENGINES {
        let dir = TempDir::new().unwrap();
        let db = open(&dir, 64 * MIB);
        let space = db.keyspace("own", of(engine, false)).unwrap();
        space.put(b"a", b"1").unwrap();
        space.flush().unwrap();
        db.close().unwrap();
        drop((space, db));
        let db = open(&dir, 64 * MIB);
        let space = db.keyspace("own", of(engine, false)).unwrap();
        assert_eq!(space.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        let last = db.last();
        assert!(space.put(b"a", b"2").unwrap() > last);
        assert_eq!(pairs(&space, Direction::Forward), [(b"a".to_vec(), b"2".to_vec())]);
    }
}

#[test]
fn a_copy_opens_by_itself() {
    for (engine, _) in ENGINES {
        let (dir, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let db = open(&dir, 64 * MIB);
        let space = db.keyspace("space", of(engine, true)).unwrap();
        for number in 0..1000 {
            space.put(&key(number), b"flushed").unwrap();
        }
        db.flush().unwrap();
        space.delete(&key(3)).unwrap();
        let into = copy.path().join("copy");
        db.checkpoint(&into).unwrap();
        let expected = pairs(&space, Direction::Forward);
        space.put(&key(3), b"later").unwrap();
        let options = Options { memory_bytes: 64 * MIB, ..Options::default() };
        let db = Db::open(&into, options).unwrap();
        let space = db.keyspace("space", of(engine, true)).unwrap();
        assert_eq!(pairs(&space, Direction::Forward), expected);
    }
}

/// A scan that asks for each pair without a wait, and waits only if the device has to be read, has
/// the pairs of a scan that always waits. Few pairs are not known to memory.
#[test]
fn a_scan_that_does_not_wait_has_the_same_pairs() {
    const PAIRS: u64 = 60_000;
    for &engine in EngineKind::ALL.iter().filter(|engine| engine.is_ordered()) {
        let dir = TempDir::new().unwrap();
        let db = open(&dir, if engine == EngineKind::Memory { 64 } else { 16 } * MIB);
        let space = db.keyspace("large", of(engine, false)).unwrap();
        for number in 0..PAIRS {
            space.put(&key(number), &vec![number as u8; 400]).unwrap();
        }
        space.flush().unwrap();
        for direction in [Direction::Forward, Direction::Backward] {
            let mut scan = space.scan_in(KeyRange::all(), direction).unwrap();
            let (mut found, mut waits) = (Vec::new(), 0);
            loop {
                let (key, value) = match scan.try_next().unwrap() {
                    TryNext::Pair(key, value) => (key, value),
                    TryNext::End => break,
                    TryNext::WouldBlock => {
                        waits += 1;
                        let Some(pair) = scan.next_ref().unwrap() else { break };
                        pair
                    }
                };
                found.push((key.to_vec(), value.to_vec()));
            }
            assert_eq!(scan.try_next(), Ok(TryNext::End));
            assert!(found == pairs(&space, direction), "{engine} {direction:?}");
            let least = u64::from(engine != EngineKind::Memory);
            assert!((least..PAIRS / 4).contains(&waits), "{engine} {direction:?}: {waits} waits");
        }
    }
}
