//! Updates write whole values, and the database counts their bytes, next to the bytes of the
//! operands.

use thermocline::{Batch, UpdateStats};

use super::*;

/// Merges of one key, and bytes that each adds to its value.
const MERGES: u64 = 20;
const ADDED: u64 = 10;
/// Bytes of a key, and of an operand with it.
const KEY_BYTES: u64 = 3;
const OPERAND_BYTES: u64 = KEY_BYTES + ADDED + 1;

fn updates(db: &Db) -> UpdateStats {
    db.stats().keyspaces[0].updates
}

#[test]
fn bytes_that_updates_write_are_counted_next_to_those_of_the_operands() {
    for (engine, journaled) in kinds() {
        let db = open(&device::memory(), operators());
        let space = db.keyspace("s", merged_by("edit", engine, journaled)).unwrap();
        let journal_before = db.stats().journal.payload_bytes;
        for _ in 0..MERGES {
            space.merge(b"key", b"+0123456789").unwrap();
        }
        let whole = MERGES * KEY_BYTES + ADDED * MERGES * (MERGES + 1) / 2;
        let counted = updates(&db);
        assert_eq!((counted.merges, counted.operand_bytes), (MERGES, MERGES * OPERAND_BYTES));
        assert_eq!((counted.written, counted.written_bytes), (MERGES, whole), "{engine:?}");
        let journal = db.stats().journal.payload_bytes - journal_before;
        assert_eq!(journal >= whole, journaled, "{journal} bytes of {whole}");
        // An update that is no merge has no operand.
        space.rmw(b"key", &mut |_: Option<&[u8]>| Change::Put(vec![7; 100])).unwrap();
        let whole = whole + KEY_BYTES + 100;
        assert_eq!(updates(&db).written_bytes, whole);
        assert_eq!(updates(&db).merges, MERGES);
        // A batch, or a transaction, writes the joint result of its merges of a key once.
        let mut batch = Batch::new();
        batch.merge(&space, b"key", b"+0123456789").merge(&space, b"key", b"+0123456789");
        db.write(&batch).unwrap();
        let whole = whole + KEY_BYTES + 120;
        assert_eq!(updates(&db).written_bytes, whole);
        let twice = db.transaction(|tx| {
            tx.merge(&space, b"key", b"+0123456789")?;
            tx.merge(&space, b"key", b"+0123456789")
        });
        twice.unwrap();
        let whole = whole + KEY_BYTES + 140;
        assert_eq!(updates(&db).written_bytes, whole, "{engine:?}");
        assert_eq!(updates(&db).operand_bytes, (MERGES + 4) * OPERAND_BYTES);
        // Refused, and without an effect: nothing is written.
        assert!(space.merge(b"key", b"!").is_err());
        space.merge(b"key", b"=").unwrap();
        assert_eq!(updates(&db).written_bytes, whole);
    }
}
