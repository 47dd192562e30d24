//! Merges by a thread next to transactions of another one that read the same counters.

use std::thread;

use super::{kinds, merged_by, number, open, operators};

const ROUNDS: u64 = 60;

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
