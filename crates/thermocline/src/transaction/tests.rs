//! What writers do for transactions, counted.

use tempfile::TempDir;

use crate::{Batch, Change, Db, EngineKind, KeyspaceOptions, Options};

/// Every way of writing, to every engine, journaled and not.
fn write_all(db: &Db) {
    for engine in [EngineKind::Memory, EngineKind::Lsm, EngineKind::F2] {
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
        Db::open(dir.path(), Options { memory_bytes: 64 << 20, ..Options::default() }).unwrap();
    let recent = &db.inner.recent;
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
    // Six of each of the six keyspaces: a batch has two keys.
    assert_eq!(recent.noted(), 36);
    assert!(recent.bytes() > 0);
    let other = db.begin().unwrap();
    drop(open);
    assert!(recent.bytes() > 0, "the other one may need them");
    other.rollback();
    assert_eq!(recent.bytes(), 0);
    write_all(&db);
    assert_eq!(recent.noted(), 36);
}
