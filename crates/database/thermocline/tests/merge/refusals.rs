//! Merges that an operator refuses, and results that are refused: nothing of the write is made.

use thermocline::{
    Batch, Change, Error, Keyspace, KeyspaceOptions, MergeOperators, VALUE_BYTES_MAX,
};

use super::{kinds, merged_by, name, open, operators};

fn refusal(space: &Keyspace, key: &[u8]) -> Error {
    Error::MergeRefused {
        keyspace: space.name().to_owned(),
        key: key.to_vec(),
        operator: name("edit"),
        why: "no operand of mine".to_owned(),
    }
}

#[test]
fn a_refused_merge_writes_nothing_of_its_write() {
    for (engine, journaled) in kinds() {
        for expiring in [false, true] {
            let db = open(&device::memory(), operators());
            let options = KeyspaceOptions { expiring, ..merged_by("edit", engine, journaled) };
            let space = db.keyspace("s", options).unwrap();
            space.put(b"k", b"v").unwrap();
            let (last, figures) = (db.last(), format!("{engine}, {journaled}, {expiring}"));
            assert_eq!(space.merge(b"k", b"!"), Err(refusal(&space, b"k")), "{figures}");
            let mut batch = Batch::new();
            batch.put(&space, b"a", b"1").merge(&space, b"k", b"+w").merge(&space, b"b", b"!");
            assert_eq!(db.write(&batch), Err(refusal(&space, b"b")), "{figures}");
            let transaction = db.begin().unwrap();
            transaction.put(&space, b"a", b"1").unwrap();
            transaction.merge(&space, b"k", b"+w").unwrap();
            transaction.merge(&space, b"b", b"!").unwrap();
            assert_eq!(transaction.get(&space, b"b"), Err(refusal(&space, b"b")), "{figures}");
            assert_eq!(transaction.commit(), Err(refusal(&space, b"b")), "{figures}");
            // For a value that the transaction itself has put the error comes immediately, and
            // nothing has changed.
            let transaction = db.begin().unwrap();
            transaction.put(&space, b"c", b"1").unwrap();
            let refused = transaction.merge(&space, b"c", b"!");
            assert_eq!(refused, Err(refusal(&space, b"c")), "{figures}");
            assert_eq!(transaction.get(&space, b"c").unwrap().as_deref(), Some(&b"1"[..]));
            drop(transaction);
            let values = space.multi_get(&[b"k", b"a", b"b", b"c"]).unwrap();
            assert_eq!(values, [Some(b"v".to_vec()), None, None, None], "{figures}");
            if journaled {
                assert_eq!(db.last(), last, "{figures}: no number was taken");
            }
            assert_eq!(db.failure(), None, "{figures}");
            space.merge(b"k", b"+w").unwrap();
            assert_eq!(space.get(b"k").unwrap().as_deref(), Some(&b"vw"[..]), "{figures}");
        }
    }
}

#[test]
fn what_is_too_long_or_no_key_is_refused_as_by_a_put() {
    for (engine, journaled) in kinds() {
        let grow = MergeOperators::new()
            .with(name("edit"), |_, _, _| Ok(Change::Put(vec![0; VALUE_BYTES_MAX + 1])));
        let db = open(&device::memory(), grow);
        let space = db.keyspace("s", merged_by("edit", engine, journaled)).unwrap();
        let is_refused = |done: Result<(), Error>| {
            let error = done.unwrap_err();
            assert!(matches!(&error, Error::Engine(_)), "{engine}, {journaled}: {error}");
        };
        is_refused(space.merge(b"k", b"").map(drop));
        is_refused(
            db.write(Batch::new().put(&space, b"a", b"").merge(&space, b"k", b"")).map(drop),
        );
        is_refused(db.transaction(|tx| tx.merge(&space, b"k", b"")));
        let long = vec![0; thermocline::KEY_BYTES_MAX + 1];
        is_refused(space.merge(&long, b"").map(drop));
        is_refused(db.write(Batch::new().merge(&space, &long, b"")).map(drop));
        is_refused(db.transaction(|tx| tx.merge(&space, &long, b"")));
        assert_eq!(space.get(b"k").unwrap(), None);
        assert_eq!(space.get(b"a").unwrap(), None);
        assert_eq!(db.failure(), None);
    }
}
