//! Transactions that delete ranges and read many keys in one call.
//!
//! The tests check their reads, their conflicts, and the pairs that are left when they have
//! committed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use rand::RngExt;
use tempfile::TempDir;
use thermocline::{
    Db, Direction, EngineKind, Environment, Error, KeyRange, Keyspace, KeyspaceOptions, Options,
    Transaction,
};

const MIB: u64 = 1 << 20;

/// Returns the engines whose capability to delete ranges is `delete_ranges`.
fn engines(delete_ranges: bool) -> Vec<EngineKind> {
    let deletes = |kind: &EngineKind| kind.driver().capabilities.deletes_ranges;
    EngineKind::ALL.iter().copied().filter(|kind| deletes(kind) == delete_ranges).collect()
}

fn open(dir: &TempDir) -> Db {
    Db::open(dir.path(), Options { memory_bytes: 64 * MIB, ..Options::default() }).unwrap()
}

/// Runs `test` on a keyspace of each engine with the pairs "a" to "f", of itself each.
fn on_each(engines: &[EngineKind], test: impl Fn(&Db, &Keyspace)) {
    for engine in engines {
        for journaled in [true, false] {
            let dir = TempDir::new().unwrap();
            let db = open(&dir);
            let options = KeyspaceOptions { engine: *engine, journaled, ..Default::default() };
            let space = db.keyspace(&format!("{engine}-{journaled}"), options).unwrap();
            for key in b'a'..=b'f' {
                space.put(&[key], &[key]).unwrap();
            }
            test(&db, &space);
        }
    }
}

fn range(from: &[u8], to: &[u8]) -> KeyRange {
    KeyRange::of(from.to_vec()..to.to_vec())
}

/// The keys that a transaction scans, as text.
fn scanned(tx: &Transaction, space: &Keyspace, direction: Direction) -> String {
    let pairs = tx.scan_in(space, KeyRange::all(), direction).unwrap();
    pairs.map(|pair| pair.unwrap().0[0] as char).collect()
}

fn keys(space: &Keyspace) -> String {
    space.scan(KeyRange::all()).unwrap().map(|pair| pair.unwrap().0[0] as char).collect()
}

#[track_caller]
fn is_conflict<T: std::fmt::Debug>(outcome: Result<T, Error>, space: &Keyspace, key: &[u8]) {
    let wanted = Error::Conflict { keyspace: space.name().to_owned(), key: key.to_vec() };
    assert_eq!(outcome.unwrap_err(), wanted, "in {}", space.name());
}

#[test]
fn a_range_that_it_deletes_is_gone_for_itself_at_once_and_for_others_when_it_commits() {
    on_each(&engines(true), |db, space| {
        let tx = db.begin().unwrap();
        tx.put(space, b"b2", b"own").unwrap();
        tx.put(space, b"e2", b"own").unwrap();
        tx.delete_range(space, &range(b"b", b"e")).unwrap();
        tx.put(space, b"c", b"after").unwrap();
        let read: [&[u8]; 7] = [b"a", b"b", b"b2", b"c", b"d", b"e", b"e2"];
        let values = tx.multi_get(space, &read).unwrap();
        let wanted: [Option<&[u8]>; 7] =
            [Some(b"a"), None, None, Some(b"after"), None, Some(b"e"), Some(b"own")];
        assert_eq!(values.iter().map(Option::as_deref).collect::<Vec<_>>(), wanted);
        for (key, value) in read.iter().zip(wanted) {
            assert_eq!(tx.get(space, key).unwrap().as_deref(), value);
        }
        assert_eq!(scanned(&tx, space, Direction::Forward), "aceef");
        assert_eq!(scanned(&tx, space, Direction::Backward), "feeca");
        assert_eq!(keys(space), "abcdef");
        tx.commit().unwrap().unwrap();
        assert_eq!(keys(space), "aceef");
        assert_eq!(space.get(b"c").unwrap().as_deref(), Some(&b"after"[..]));
    });
}

/// It reads nothing, so others' writes in the range meanwhile are no conflict, and are deleted too.
#[test]
fn a_range_that_is_deleted_was_not_read() {
    on_each(&engines(true), |db, space| {
        let tx = db.begin().unwrap();
        tx.delete_range(space, &range(b"b", b"e")).unwrap();
        // Its own absence is no read of others' writes.
        assert_eq!(tx.get(space, b"c").unwrap(), None);
        space.put(b"c", b"theirs").unwrap();
        space.put(b"d2", b"theirs").unwrap();
        tx.commit().unwrap().unwrap();
        assert_eq!(keys(space), "aef");
    });
}

#[test]
fn who_has_read_of_a_range_that_another_one_deletes_meets_a_conflict() {
    on_each(&engines(true), |db, space| {
        for reads in 0..4 {
            space.put(b"c", b"c").unwrap();
            let reader = db.begin().unwrap();
            match reads {
                0 => _ = reader.get(space, b"c").unwrap(),
                1 => _ = reader.multi_get(space, &[b"a", b"c"]).unwrap(),
                2 => _ = reader.get(space, b"cc").unwrap(),
                _ => _ = scanned(&reader, space, Direction::Forward),
            }
            reader.put(space, b"result", b"v").unwrap();
            let other = db.begin().unwrap();
            other.delete_range(space, &range(b"c", b"d")).unwrap();
            other.commit().unwrap().unwrap();
            let error = reader.commit().unwrap_err();
            assert!(matches!(error, Error::Conflict { .. }), "{reads}: {error}");
            assert_eq!(space.get(b"result").unwrap(), None);
        }
        // Outside of it there is no conflict.
        let reader = db.begin().unwrap();
        reader.multi_get(space, &[b"a", b"d"]).unwrap();
        reader.put(space, b"result", b"v").unwrap();
        db.transaction(|tx| tx.delete_range(space, &range(b"b", b"d"))).unwrap();
        reader.commit().unwrap().unwrap();
    });
}

#[test]
fn an_engine_that_cannot_refuses_at_once_and_nothing_is_written() {
    on_each(&engines(false), |db, space| {
        let tx = db.begin().unwrap();
        let refused = tx.delete_range(space, &KeyRange::all()).unwrap_err();
        assert!(
            matches!(
                refused,
                Error::Engine(
                    engine::Error::Unordered { .. } | engine::Error::NoRangeDeletes { .. }
                )
            ),
            "{refused}"
        );
        assert_eq!(tx.get(space, b"c").unwrap().as_deref(), Some(&b"c"[..]));
        assert_eq!(tx.commit(), Ok(None));
    });
    on_each(&engines(true), |db, space| {
        let tx = db.begin().unwrap();
        tx.delete_range(space, &range(b"d", b"d")).unwrap();
        let long = vec![b'x'; thermocline::KEY_BYTES_MAX + 2];
        let refused = tx.delete_range(space, &KeyRange::of(long..)).unwrap_err();
        assert!(matches!(refused, Error::Engine(engine::Error::KeyTooLong { .. })), "{refused}");
        assert_eq!(tx.commit(), Ok(None), "no key can lie in it");
    });
}

#[test]
fn many_keys_are_read_as_of_the_moment_and_remembered() {
    on_each(EngineKind::ALL, |db, space| {
        let tx = db.begin().unwrap();
        tx.put(space, b"b", b"own").unwrap();
        tx.delete(space, b"c").unwrap();
        let read: [&[u8]; 6] = [b"d", b"b", b"missing", b"c", b"d", b"a"];
        let values = tx.multi_get(space, &read).unwrap();
        let wanted: [Option<&[u8]>; 6] =
            [Some(b"d"), Some(b"own"), None, None, Some(b"d"), Some(b"a")];
        assert_eq!(values.iter().map(Option::as_deref).collect::<Vec<_>>(), wanted);
        assert_eq!(tx.multi_get(space, &[]).unwrap(), Vec::<Option<Vec<u8>>>::new());
        // A key that it has written itself does not count as read.
        space.put(b"b", b"theirs").unwrap();
        space.put(b"e", b"theirs").unwrap();
        tx.commit().unwrap().unwrap();
        for absent in [false, true] {
            let tx = db.begin().unwrap();
            tx.multi_get(space, &[b"a", b"missing"]).unwrap();
            tx.put(space, b"result", b"v").unwrap();
            let key: &[u8] = if absent { b"missing" } else { b"a" };
            space.put(key, b"theirs").unwrap();
            is_conflict(tx.commit(), space, key);
        }
        // An engine without an order knows no old values: so it fails immediately.
        let tx = db.begin().unwrap();
        space.put(b"d", b"later").unwrap();
        let read = tx.multi_get(space, &[b"a", b"d"]);
        if space.is_ordered() {
            assert_eq!(read.unwrap()[1].as_deref(), Some(&b"d"[..]));
        } else {
            is_conflict(read, space, b"d");
            tx.put(space, b"result", b"v").unwrap();
            is_conflict(tx.commit(), space, b"d");
        }
    });
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Random transactions run one by one, with plain writes in between that they do not read. Each
/// shows the content of the model, and leaves it.
#[test]
fn random_transactions_are_as_the_model() {
    let seed = std::env::var("THERMOCLINE_SEED").map_or(1, |text| text.parse().unwrap());
    for engine in engines(true) {
        let mut random = Environment::seeded(seed).random("transaction ranges");
        let dir = TempDir::new().unwrap();
        let mut db = open(&dir);
        let options = KeyspaceOptions { engine, ..Default::default() };
        let mut space = db.keyspace("s", options).unwrap();
        let mut model = Model::new();
        let key = |number: u8| vec![b'k', number % 30];
        for round in 0..400 {
            let what = || format!("seed {seed}, {engine}, round {round}");
            let tx = db.begin().unwrap();
            let mut own = model.clone();
            for _ in 0..random.random_range(1..10) {
                let (one, other) = (key(random.random()), key(random.random()));
                match random.random_range(0..7) {
                    0 | 1 => {
                        tx.put(&space, &one, &other).unwrap();
                        own.insert(one, other);
                    }
                    2 => {
                        tx.delete(&space, &one).unwrap();
                        own.remove(&one);
                    }
                    3 => {
                        let from = one.clone().min(other.clone());
                        let deleted = match random.random_range(0..8) {
                            0 => KeyRange::of(from..),
                            1 => KeyRange::of(..=from),
                            _ => KeyRange::of(from..one.max(other)),
                        };
                        tx.delete_range(&space, &deleted).unwrap();
                        own.retain(|key, _| !deleted.contains(key));
                    }
                    4 => {
                        let values = tx.multi_get(&space, &[&one, &other, &one]).unwrap();
                        let wanted = [&one, &other, &one].map(|key| own.get(key).cloned());
                        assert_eq!(values, wanted, "{}", what());
                    }
                    5 => assert_eq!(tx.get(&space, &one).unwrap(), own.get(&one).cloned()),
                    _ => {
                        let within = KeyRange::of(one.clone().min(other.clone())..one.max(other));
                        let back = random.random_range(0..2) == 0;
                        let direction = [Direction::Forward, Direction::Backward][back as usize];
                        let scan = tx.scan_in(&space, within.clone(), direction).unwrap();
                        let found: Vec<_> = scan.map(|pair| pair.unwrap()).collect();
                        let inside = own.iter().filter(|(key, _)| within.contains(key));
                        let mut wanted: Vec<_> =
                            inside.map(|(key, value)| (key.clone(), value.clone())).collect();
                        if back {
                            wanted.reverse();
                        }
                        assert_eq!(found, wanted, "{}", what());
                    }
                }
            }
            if random.random_range(0..4) > 0 {
                tx.commit().unwrap();
                model = own;
            } else {
                tx.rollback();
            }
            match random.random_range(0..20) {
                0 => db.flush().unwrap(),
                1 => {
                    db.close().unwrap();
                    drop((space, db));
                    db = open(&dir);
                    space = db.existing_keyspace("s").unwrap();
                }
                _ => {}
            }
            let pairs: Model =
                space.scan(KeyRange::all()).unwrap().map(|pair| pair.unwrap()).collect();
            assert_eq!(pairs, model, "{}", what());
        }
    }
}
