//! Counters to which many threads add at the same time, by each way of merging: the sums are exact.

use std::thread;

use crate::tests::ENGINES;
use crate::{
    Batch, Change, Db, Durability, EngineKind, Keyspace, KeyspaceOptions, MergeOperators, Options,
};

const THREADS: u64 = 4;
const ROUNDS: u64 = 60;
const COUNTERS: u64 = 3;

/// Returns a database with the operator `add` of numbers of eight bytes.
fn open() -> Db {
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).map_err(|_| "no number");
    let add = move |_: &[u8], value: Option<&[u8]>, operand: &[u8]| {
        let sum = value.map_or(Ok(0), number)? + number(operand)?;
        Ok::<_, String>(Change::Put(sum.to_le_bytes().to_vec()))
    };
    let options = Options {
        merge_operators: MergeOperators::new().with("add".parse().unwrap(), add),
        memory_bytes: 96 << 20,
        sync_interval: None,
        background_threads: 1,
        durability: Durability::Buffered,
        ..Options::default()
    };
    Db::open_on(device::memory(), "merges", options).unwrap()
}

fn number(space: &Keyspace, key: &[u8]) -> u64 {
    let value = space.get(key).unwrap();
    value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

#[test]
fn counters_of_many_threads_are_exact() {
    let kinds = ENGINES.iter().flat_map(|engine| [(*engine, true), (*engine, false)]);
    for (engine, journaled) in kinds {
        let db = open();
        let options = KeyspaceOptions {
            engine,
            journaled,
            merge: Some("add".parse().unwrap()),
            memory_bytes: (engine != EngineKind::Memory).then_some(4 << 20),
            ..KeyspaceOptions::default()
        };
        let space = db.keyspace("s", options).unwrap();
        let other = db.keyspace("other", options).unwrap();
        let one = 1_u64.to_le_bytes();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, space, other) = (&db, &space, &other);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let key = ((thread + round) % COUNTERS).to_be_bytes();
                        space.merge(&key, &one).unwrap();
                        let mut batch = Batch::new();
                        // Of one key twice, and of both keyspaces.
                        batch.merge(space, &key, &one).merge(space, &key, &one);
                        db.write(batch.merge(other, &key, &one)).unwrap();
                        // Nothing is read, so there is no conflict.
                        let transaction = db.begin().unwrap();
                        transaction.merge(space, &key, &one).unwrap();
                        transaction.merge(other, &key, &one).unwrap();
                        transaction.commit().unwrap();
                        if round % 20 == 7 {
                            space.flush().unwrap();
                        }
                    }
                });
            }
        });
        let sum = |of| (0..COUNTERS).map(|key: u64| number(of, &key.to_be_bytes())).sum::<u64>();
        assert_eq!(sum(&space), 4 * THREADS * ROUNDS, "{engine}, journaled: {journaled}");
        assert_eq!(sum(&other), 2 * THREADS * ROUNDS, "{engine}, journaled: {journaled}");
        db.close().unwrap();
    }
}
