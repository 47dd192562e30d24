//! Transactions one step at a time, with steps of other writers between theirs: the writes that are
//! a conflict.

use super::every_kind::{is_conflict, on_every_kind, ordered, scanned};
use crate::{
    Batch, Change, Db, Direction, EngineKind, KeyRange, Keyspace, Operator, SessionGet, SessionRmw,
};

/// A key that was not there was read as well.
#[test]
fn what_was_absent_and_comes_is_a_conflict() {
    on_every_kind(EngineKind::ALL, |db, space| {
        let tx = db.begin().unwrap();
        assert_eq!(tx.get(space, b"unique").unwrap(), None);
        tx.put(space, b"unique", b"mine").unwrap();
        space.put(b"unique", b"theirs").unwrap();
        is_conflict(tx.commit(), space, b"unique");
        assert_eq!(space.get(b"unique").unwrap().as_deref(), Some(&b"theirs"[..]));
    });
}

#[test]
fn a_phantom_is_a_conflict() {
    on_every_kind(&ordered(), |db, space| {
        for key in [b"a1", b"a3", b"b1"] {
            space.put(key, b"v").unwrap();
        }
        for (phantom, is_delete) in [(b"a2", false), (b"a1", true), (b"a0", false)] {
            for direction in [Direction::Forward, Direction::Backward] {
                let tx = db.begin().unwrap();
                let scan = tx.scan_in(space, KeyRange::prefix(b"a"), direction).unwrap();
                let count = scan.count();
                tx.put(space, b"count", &[count as u8]).unwrap();
                match is_delete {
                    true => space.delete(phantom).unwrap(),
                    false => space.put(phantom, b"v").unwrap(),
                };
                is_conflict(tx.commit(), space, phantom);
            }
        }
        let tx = db.begin().unwrap();
        let count = scanned(&tx, space, KeyRange::prefix(b"a")).len();
        tx.put(space, b"count", &[count as u8]).unwrap();
        space.put(b"b2", b"beside the range").unwrap();
        tx.commit().unwrap().unwrap();
    });
}

/// A count in eight bytes, in place.
struct Add;

impl Operator for Add {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        value[0] += 1;
        true
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        Change::Put(value.map_or(vec![1], |value| vec![value[0] + 1]))
    }
}

fn by_session(space: &Keyspace, key: &[u8]) {
    let mut session = space.session(1).unwrap();
    match session.begin_rmw(0, key, Box::new(Add)).unwrap() {
        SessionRmw::Done(seqno) => assert!(seqno.is_some()),
        SessionRmw::Pending => {
            while session.pending() > 0 {
                session.complete(true, &mut |_, outcome| assert!(outcome.is_ok())).unwrap();
            }
        }
        SessionRmw::Full(_) => unreachable!("one of one"),
    }
    let mut value = Vec::new();
    assert_ne!(session.begin_get(1, key, &mut value).unwrap(), SessionGet::Full);
}

#[test]
fn every_way_of_writing_is_seen() {
    type Way = fn(&Db, &Keyspace, &[u8]);
    let ways: [(&str, Way); 9] = [
        ("put", |_, space, key| assert!(space.put(key, b"2").is_ok())),
        ("delete", |_, space, key| assert!(space.delete(key).is_ok())),
        ("rmw", |_, space, key| assert!(space.rmw(key, |_| Change::Put(vec![2])).is_ok())),
        ("rmw in place", |_, space, key| assert!(space.rmw_with(key, &mut Add).is_ok())),
        ("session", |_, space, key| by_session(space, key)),
        ("batch", |db, space, key| {
            let mut batch = Batch::new();
            batch.put(space, b"another", b"v").put(space, key, b"2");
            db.write(&batch).unwrap();
        }),
        ("section", |db, space, key| {
            db.atomically(&[(space, key)], |section| section.put(0, b"2".to_vec())).unwrap();
        }),
        ("compare and swap", |_, space, key| {
            assert!(space.compare_and_swap(key, Some(b"1"), Some(b"2")).unwrap().is_done());
        }),
        ("transaction", |db, space, key| db.transaction(|tx| tx.put(space, key, b"2")).unwrap()),
    ];
    on_every_kind(EngineKind::ALL, |db, space| {
        for (index, (name, way)) in ways.into_iter().enumerate() {
            let key = [b'k', index as u8];
            space.put(&key, b"1").unwrap();
            let tx = db.begin().unwrap();
            assert_eq!(tx.get(space, &key).unwrap().as_deref(), Some(&b"1"[..]));
            tx.put(space, b"result", b"by 1").unwrap();
            way(db, space, &key);
            println!("{name}");
            is_conflict(tx.commit(), space, &key);
            assert_eq!(space.get(b"result").unwrap(), None, "{name}");
        }
        // Some key; the whole keyspace has changed.
        let tx = db.begin().unwrap();
        tx.get(space, b"k").unwrap();
        tx.put(space, b"result", b"by 1").unwrap();
        space.clear().unwrap();
        is_conflict(tx.commit(), space, b"k");
    });
}

/// A range that another writer deletes is a write of every key in it, also of keys without a value.
#[test]
fn a_range_that_was_deleted_conflicts_with_what_was_read_in_it() {
    on_every_kind(&[EngineKind::Memory, EngineKind::Lsm], |db, space| {
        for batched in [false, true] {
            let delete = |range: KeyRange| {
                if batched {
                    let mut batch = Batch::new();
                    db.write(batch.delete_range(space, &range)).unwrap();
                } else {
                    space.delete_range(&range).unwrap();
                }
            };
            space.put(b"d", b"value").unwrap();
            let (reads, scans, other) =
                (db.begin().unwrap(), db.begin().unwrap(), db.begin().unwrap());
            reads.get(space, b"d").unwrap();
            scanned(&scans, space, KeyRange::of("e".."g"));
            other.get(space, b"z").unwrap();
            scanned(&other, space, KeyRange::of("h".."k"));
            for tx in [&reads, &scans, &other] {
                tx.put(space, b"result", b"").unwrap();
            }
            delete(KeyRange::of("c".."h"));
            is_conflict(reads.commit(), space, b"d");
            is_conflict(scans.commit(), space, b"e");
            other.commit().unwrap();
        }
    });
}
