//! Counts of the work that writers do for transactions.

mod conflicts;
#[path = "../../tests/every_kind.rs"]
mod every_kind;
mod serializability;

use tempfile::TempDir;

use crate::{Batch, Change, Db, EngineKind, Error, KeyspaceOptions, Options};

/// Every way of writing, to every engine, journaled and not.
fn write_all(db: &Db) {
    for &engine in EngineKind::ALL {
        for journaled in [true, false] {
            let options = KeyspaceOptions {
                engine,
                journaled,
                memory_bytes: Some(8 << 20),
                ..Default::default()
            };
            let space = db.keyspace(&format!("{engine}-{journaled}"), options).unwrap();
            space.put(b"put", b"v").unwrap();
            space.delete(b"put").unwrap();
            space.rmw(b"rmw", |_| Change::Put(b"v".to_vec())).unwrap();
            db.write(Batch::new().put(&space, b"batch", b"v").delete(&space, b"rmw")).unwrap();
            db.atomically(&[(&space, b"section")], |section| section.put(0, b"v".to_vec()))
                .unwrap();
        }
    }
}

#[test]
fn nothing_is_noted_unless_a_transaction_is_open() {
    let dir = TempDir::new().unwrap();
    let db =
        Db::open(dir.path(), Options { memory_bytes: 128 << 20, ..Options::default() }).unwrap();
    let recent = &db.inner.order.recent;
    write_all(&db);
    let snapshot = db.snapshot().unwrap();
    write_all(&db);
    assert_eq!(recent.noted(), 0, "nobody asked");
    drop(snapshot);
    let space = db.keyspaces().remove(0);
    for _ in 0..10 {
        db.transaction(|tx| tx.put(&space, b"k", &tx.get(&space, b"k")?.unwrap_or_default()))
            .unwrap();
    }
    assert_eq!(recent.noted(), 0, "one that is alone needs no notes of its own writes");
    let open = db.begin().unwrap();
    write_all(&db);
    // Six of each keyspace: a batch has two keys.
    let notes = 6 * db.keyspaces().len() as u64;
    assert_eq!(recent.noted(), notes);
    assert!(recent.bytes() > 0);
    let other = db.begin().unwrap();
    drop(open);
    assert!(recent.bytes() > 0, "the other one may need them");
    other.rollback();
    assert_eq!(recent.bytes(), 0);
    write_all(&db);
    assert_eq!(recent.noted(), notes);
}

/// The reads and pending writes of a transaction count, replaced ones no more, and all of it is
/// released in the end.
#[test]
fn what_a_transaction_holds_counts_as_memory_and_is_bounded() {
    const VALUE: usize = 100 << 10;
    let dir = TempDir::new().unwrap();
    let limit = 16 << 20;
    let db = Db::open(dir.path(), Options { memory_bytes: limit, ..Options::default() }).unwrap();
    let space = db.keyspace("s", KeyspaceOptions::default()).unwrap();
    space.put(b"there", b"v").unwrap();
    let used = || db.inner.factory.memory.bytes().0;
    let before = used();
    let transaction = db.begin().unwrap();
    let held = || used() - before;
    for _ in 0..50 {
        transaction.put(&space, b"one", &[7; VALUE]).unwrap();
    }
    assert!((VALUE as u64..4 * VALUE as u64).contains(&held()), "{}", held());
    let mut puts = 1_u64;
    let refused = loop {
        match transaction.put(&space, &puts.to_be_bytes(), &[7; VALUE]) {
            Ok(()) => puts += 1,
            Err(refused) => break refused,
        }
        assert!(held() >= puts * VALUE as u64 && held() < (puts + 3) * VALUE as u64);
        assert!(used() <= limit, "{}", used());
    };
    assert!(matches!(refused, Error::TransactionTooLarge { limit: told, .. } if told == limit));
    assert!(puts > 100, "{puts}");
    // It has not changed, and neither have others; and a delete succeeds although no memory is
    // left.
    assert_eq!(transaction.get(&space, &1_u64.to_be_bytes()).unwrap(), Some(vec![7; VALUE]));
    assert_eq!(transaction.get(&space, &puts.to_be_bytes()).unwrap(), None);
    db.transaction(|tx| tx.delete(&space, b"there")).unwrap();
    let with_it = used();
    drop(transaction);
    assert!(with_it - used() >= puts * VALUE as u64, "{with_it}, and {} without", used());
    // Keys that are read count too.
    let transaction = db.begin().unwrap();
    let begun = used();
    (0..2000_u32).for_each(|key| _ = transaction.get(&space, &key.to_be_bytes()).unwrap());
    assert!(used() - begun >= 2000 * 4, "{}", used() - begun);
    let with_it = used();
    drop(transaction);
    assert!(with_it - used() >= 2000 * 4, "{with_it}, and {} without", used());
}
