//! Counters to which many threads add at the same time, by each way of merging: the sums are exact.

use std::thread;

use thermocline::Batch;

use super::{kinds, merged_by, number, open, operators};

const THREADS: u64 = 4;
const ROUNDS: u64 = 60;
const COUNTERS: u64 = 3;

#[test]
pub(crate) fn counters_of_many_threads_are_exact() {
    for (engine, journaled) in kinds() {
        let device = device::memory();
        let db = open(&device, operators());
        let space = db.keyspace("s", merged_by("add", engine, journaled)).unwrap();
        let other = db.keyspace("other", merged_by("add", engine, journaled)).unwrap();
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

/// Merges next to transactions that read the counters and write their values plus one.
#[test]
fn transactions_that_read_lose_no_merge() {
    for (engine, journaled) in kinds() {
        let device = device::memory();
        let db = open(&device, operators());
        let space = db.keyspace("s", merged_by("add", engine, journaled)).unwrap();
        let one = 1_u64.to_le_bytes();
        let committed: u64 = thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let mut committed = 0;
                for _ in 0..ROUNDS {
                    let Ok(transaction) = db.begin() else { continue };
                    let Ok(old) = transaction.get(&space, b"k") else { continue };
                    let old = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
                    transaction.put(&space, b"k", &(old + 1).to_le_bytes()).unwrap();
                    transaction.merge(&space, b"k", &one).unwrap();
                    let seen = transaction.get(&space, b"k").unwrap().unwrap();
                    assert_eq!(seen, (old + 2).to_le_bytes());
                    committed += u64::from(transaction.commit().is_ok());
                }
                committed
            });
            for _ in 0..ROUNDS {
                space.merge(b"k", &one).unwrap();
                let transaction = db.begin().unwrap();
                transaction.merge(&space, b"k", &one).unwrap();
                transaction.commit().unwrap();
            }
            reading.join().unwrap()
        });
        let expected = 2 * ROUNDS + 2 * committed;
        assert_eq!(number(&space, b"k"), expected, "{engine}, journaled: {journaled}");
        db.close().unwrap();
    }
}
