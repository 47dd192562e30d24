//! Transactions one step at a time: their reads, and which writes are a conflict and which are
//! none, over every engine, journaled or not.

use std::collections::BTreeMap;

use crate::every_kind::{MIB, is_conflict, on_every_kind, open, ordered, scanned, space};
use rand::RngExt;
use tempfile::TempDir;
use thermocline::{
    Change, Db, Direction, EngineKind, Environment, Error, KeyRange, KeyspaceOptions, Options,
    Swap, Transaction, TransactionOptions,
};

#[test]
fn its_writes_show_to_itself_at_once_and_to_others_when_it_commits() {
    on_every_kind(EngineKind::ALL, |db, space| {
        space.put(b"a", b"old").unwrap();
        space.put(b"b", b"old").unwrap();
        let tx = db.begin().unwrap();
        tx.put(space, b"a", b"new").unwrap();
        tx.delete(space, b"b").unwrap();
        tx.put(space, b"c", b"first").unwrap();
        tx.put(space, b"c", b"second").unwrap();
        for (key, own, others) in [
            (b"a", Some(&b"new"[..]), Some(&b"old"[..])),
            (b"b", None, Some(&b"old"[..])),
            (b"c", Some(&b"second"[..]), None),
        ] {
            assert_eq!(tx.get(space, key).unwrap().as_deref(), own);
            assert_eq!(space.get(key).unwrap().as_deref(), others);
        }
        let seqno = tx.commit().unwrap().unwrap();
        assert_eq!(seqno, db.last());
        assert_eq!(space.get(b"a").unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(space.get(b"b").unwrap(), None);
        assert_eq!(space.get(b"c").unwrap().as_deref(), Some(&b"second"[..]));
    });
}

#[test]
fn a_rollback_an_error_and_a_drop_leave_nothing() {
    on_every_kind(EngineKind::ALL, |db, space| {
        let before = db.last();
        let tx = db.begin().unwrap();
        tx.put(space, b"k", b"v").unwrap();
        tx.rollback();
        drop(db.begin().inspect(|tx| tx.put(space, b"k", b"v").unwrap()));
        let outcome: Result<(), _> = db.transaction(|tx| {
            tx.put(space, b"k", b"v")?;
            Err(Error::RolledBack)
        });
        assert_eq!(outcome, Err(Error::RolledBack));
        assert_eq!((space.get(b"k").unwrap(), db.last()), (None, before));
        assert_eq!(db.begin().unwrap().commit(), Ok(None), "nothing to commit");
    });
}

#[test]
fn a_lost_update_is_a_conflict() {
    on_every_kind(EngineKind::ALL, |db, space| {
        space.put(b"n", b"1").unwrap();
        let (one, other) = (db.begin().unwrap(), db.begin().unwrap());
        for tx in [&one, &other] {
            assert_eq!(tx.get(space, b"n").unwrap().as_deref(), Some(&b"1"[..]));
            tx.put(space, b"n", b"2").unwrap();
        }
        one.commit().unwrap().unwrap();
        is_conflict(other.commit(), space, b"n");
    });
}

#[test]
fn write_skew_is_a_conflict() {
    on_every_kind(EngineKind::ALL, |db, space| {
        space.put(b"ada", b"on call").unwrap();
        space.put(b"bob", b"on call").unwrap();
        let (one, other) = (db.begin().unwrap(), db.begin().unwrap());
        for (tx, leaves) in [(&one, b"ada"), (&other, b"bob")] {
            assert!(tx.get(space, b"ada").unwrap().is_some());
            assert!(tx.get(space, b"bob").unwrap().is_some());
            tx.delete(space, leaves).unwrap();
        }
        one.commit().unwrap().unwrap();
        is_conflict(other.commit(), space, b"ada");
    });
}

/// Queues take from the front while others add at the back.
#[test]
fn what_a_scan_has_not_come_to_is_no_conflict() {
    on_every_kind(&ordered(), |db, space| {
        for key in b'b'..b'z' {
            space.put(&[key], b"v").unwrap();
        }
        let all = KeyRange::of(&b"a"[..]..);
        for (direction, read, beyond) in
            [(Direction::Forward, b"bcd", b"eyz"), (Direction::Backward, b"yxw", b"vba")]
        {
            let begin = || {
                let tx = db.begin().unwrap();
                let scan = tx.scan_in(space, all.clone(), direction).unwrap();
                let keys: Vec<_> = scan.take(3).map(|pair| pair.unwrap().0).collect();
                assert_eq!(keys.concat(), read);
                tx.put(space, b"0", b"taken").unwrap();
                tx
            };
            for key in beyond.chunks(1) {
                let tx = begin();
                space.put(key, b"w").unwrap();
                tx.commit().unwrap().unwrap();
                if key == b"a" || key == b"z" {
                    space.delete(key).unwrap();
                }
            }
            for key in read.chunks(1) {
                let tx = begin();
                space.put(key, b"w").unwrap();
                is_conflict(tx.commit(), space, key);
            }
            let tx = db.begin().unwrap();
            drop(tx.scan_in(space, all.clone(), direction).unwrap());
            tx.put(space, b"0", b"v").unwrap();
            space.put(b"k", b"w").unwrap();
            tx.commit().unwrap().unwrap();
        }
    });
}

/// The same pairs as a map with the own writes in it, both ways, also with writes during the scan.
#[test]
fn scans_are_merged_with_its_own_writes() {
    let seed = std::env::var("THERMOCLINE_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or(1);
    println!("THERMOCLINE_SEED={seed}");
    on_every_kind(&ordered(), |db, space| {
        let mut random = Environment::seeded(seed).random(space.name());
        for _ in 0..20 {
            let mut map = BTreeMap::new();
            let tx_of_all = db.begin().unwrap();
            for (key, _) in scanned(&tx_of_all, space, KeyRange::all()) {
                space.delete(&key).unwrap();
            }
            for key in 0..30_u8 {
                if random.random_range(0..2) == 0 {
                    space.put(&[key], b"base").unwrap();
                    map.insert(vec![key], b"base".to_vec());
                }
            }
            let tx = db.begin().unwrap();
            for key in 0..30_u8 {
                match random.random_range(0..4) {
                    0 => {
                        tx.put(space, &[key], b"own").unwrap();
                        map.insert(vec![key], b"own".to_vec());
                    }
                    1 => {
                        tx.delete(space, &[key]).unwrap();
                        map.remove(&vec![key]);
                    }
                    _ => {}
                }
            }
            for _ in 0..5 {
                let (low, high) = (random.random_range(0..30_u8), random.random_range(0..32_u8));
                let range = KeyRange::of(vec![low]..vec![high.max(low)]);
                let wanted: Vec<_> = map
                    .iter()
                    .filter(|(key, _)| range.contains(key))
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                assert_eq!(scanned(&tx, space, range.clone()), wanted);
                let back = tx.scan_reverse(space, range.clone()).unwrap();
                let mut back: Vec<_> = back.map(|pair| pair.unwrap()).collect();
                back.reverse();
                assert_eq!(back, wanted);
                for pair in tx.scan(space, range).unwrap() {
                    let key = pair.unwrap().0;
                    tx.put(space, &key, b"seen").unwrap();
                    map.insert(key, b"seen".to_vec());
                }
            }
            tx.commit().unwrap();
            let after: BTreeMap<_, _> =
                space.scan(KeyRange::all()).unwrap().map(|pair| pair.unwrap()).collect();
            assert_eq!(after, map);
        }
    });
}

#[test]
fn what_it_has_not_read_is_no_conflict() {
    on_every_kind(EngineKind::ALL, |db, space| {
        space.put(b"read", b"1").unwrap();
        let tx = db.begin().unwrap();
        tx.get(space, b"read").unwrap();
        tx.put(space, b"blind", b"mine").unwrap();
        // Its own value is no value of others.
        assert_eq!(tx.get(space, b"blind").unwrap().as_deref(), Some(&b"mine"[..]));
        space.put(b"blind", b"theirs").unwrap();
        space.put(b"beside", b"v").unwrap();
        // These change nothing, and a journal shows it.
        if space.options().journaled {
            assert_eq!(space.rmw(b"read", |_| Change::Keep).unwrap(), None);
            let refused = space.compare_and_swap(b"read", Some(b"2"), None).unwrap();
            assert_eq!(refused, Swap::Refused { present: Some(b"1".to_vec()) });
        }
        tx.commit().unwrap().unwrap();
        assert_eq!(space.get(b"blind").unwrap().as_deref(), Some(&b"mine"[..]));
    });
}

#[test]
fn one_that_only_reads_shows_one_moment_and_always_commits() {
    on_every_kind(&ordered(), |db, space| {
        space.put(b"a", b"1").unwrap();
        let tx = db.begin().unwrap();
        space.put(b"a", b"2").unwrap();
        space.put(b"b", b"2").unwrap();
        assert_eq!(tx.get(space, b"a").unwrap().as_deref(), Some(&b"1"[..]));
        space.clear().unwrap();
        assert_eq!(scanned(&tx, space, KeyRange::all()), [(b"a".to_vec(), b"1".to_vec())]);
        assert_eq!(tx.commit(), Ok(None));
    });
}

/// It has no old values; so a read that would not be of the moment is the conflict.
#[test]
fn without_an_order_a_read_of_what_was_written_since_is_the_conflict() {
    on_every_kind(&[EngineKind::F2], |db, space| {
        space.put(b"a", b"1").unwrap();
        space.put(b"b", b"1").unwrap();
        let tx = db.begin().unwrap();
        space.put(b"a", b"2").unwrap();
        assert_eq!(tx.get(space, b"b").unwrap().as_deref(), Some(&b"1"[..]));
        is_conflict(tx.get(space, b"a"), space, b"a");
        is_conflict(tx.commit(), space, b"a");
        let mut attempts = 0;
        let read = db.transaction(|tx| {
            attempts += 1;
            if attempts == 1 {
                space.put(b"a", b"3")?;
            }
            // To look away does not help.
            Ok(tx.get(space, b"a").unwrap_or_default())
        });
        assert_eq!((attempts, read), (2, Ok(Some(b"3".to_vec()))));
        let unordered = db.begin().unwrap().scan(space, KeyRange::all()).map(drop).unwrap_err();
        assert!(matches!(unordered, Error::Engine(engine::Error::Unordered { engine: "f2", .. })));
    });
}

#[test]
fn it_goes_over_keyspaces_of_all_engines_at_once() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let spaces: Vec<_> = EngineKind::ALL.iter().map(|engine| space(&db, *engine, true)).collect();
    let sum = |tx: &Transaction| -> Result<u8, Error> {
        let mut sum = 0;
        for space in &spaces {
            sum += tx.get(space, b"n")?.map_or(0, |value| value[0]);
        }
        Ok(sum)
    };
    for round in 1..=20_u8 {
        db.transaction(|tx| {
            assert_eq!(sum(tx)?, spaces.len() as u8 * (round - 1));
            spaces.iter().try_for_each(|space| tx.put(space, b"n", &[round]))
        })
        .unwrap();
    }
    for changed in &spaces {
        let tx = db.begin().unwrap();
        assert_eq!(sum(&tx), Ok(spaces.len() as u8 * 20));
        spaces.iter().for_each(|space| tx.put(space, b"n", b"?").unwrap());
        changed.put(b"n", &[20]).unwrap();
        is_conflict(tx.commit(), changed, b"n");
    }
    drop(spaces);
    db.close().unwrap();
    let db = open(&dir);
    for &engine in EngineKind::ALL {
        assert_eq!(space(&db, engine, true).get(b"n").unwrap(), Some(vec![20]), "{engine}");
    }
}

#[test]
fn a_body_is_run_as_often_as_it_may_be() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let space = space(&db, EngineKind::Memory, true);
    for (attempts_max, wanted) in [(0, 1), (1, 1), (5, 5)] {
        let mut attempts = 0;
        let outcome = db.transaction_with(TransactionOptions { attempts_max }, |tx| {
            attempts += 1;
            tx.get(&space, b"hot")?;
            tx.put(&space, b"result", b"v")?;
            space.put(b"hot", &[attempts])?;
            Ok(())
        });
        is_conflict(outcome, &space, b"hot");
        assert_eq!(attempts, wanted);
    }
    let mut attempts = 0;
    let outcome = db.transaction(|tx| {
        attempts += 1;
        tx.get(&space, b"hot")?;
        if attempts < 4 {
            space.put(b"hot", &[attempts])?;
        }
        tx.put(&space, b"result", &[attempts])
    });
    assert_eq!((outcome, attempts), (Ok(()), 4));
    assert_eq!(space.get(b"result").unwrap(), Some(vec![4]));
}

/// With 8 MiB of memory, 128 KiB of notes.
#[test]
fn one_that_stays_open_too_long_is_told_so_and_holds_no_memory() {
    let dir = TempDir::new().unwrap();
    let options = Options { memory_bytes: 8 * MIB, ..Options::default() };
    let db = Db::open(dir.path(), options).unwrap();
    let space = db.keyspace("s", KeyspaceOptions::default()).unwrap();
    let begin = || {
        let tx = db.begin().unwrap();
        tx.get(&space, b"never written").unwrap();
        tx.put(&space, b"result", b"v").unwrap();
        tx
    };
    let tx = begin();
    for index in 0..20_000_u32 {
        space.put(&(index % 5000).to_be_bytes(), b"v").unwrap();
    }
    let refused = tx.commit().unwrap_err();
    assert_eq!(refused, Error::TransactionTooOld { keyspace: "s".to_owned() });
    assert!(refused.is_conflict());
    assert_eq!(space.get(b"result").unwrap(), None);
    let tx = begin();
    space.put(b"k", b"v").unwrap();
    tx.commit().unwrap().unwrap();
}

#[test]
fn keyspaces_that_come_and_go_meanwhile() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir);
    let old = db.keyspace("old", KeyspaceOptions::default()).unwrap();
    old.put(b"k", b"v").unwrap();
    let (reader, writer) = (db.begin().unwrap(), db.begin().unwrap());
    assert_eq!(reader.get(&old, b"k").unwrap().as_deref(), Some(&b"v"[..]));
    writer.get(&old, b"k").unwrap();
    let new = db.keyspace("new", KeyspaceOptions::default()).unwrap();
    new.put(b"k", b"later").unwrap();
    db.drop_keyspace("old").unwrap();
    // As of its moment the one was there and the other was empty.
    assert_eq!(reader.get(&old, b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(reader.get(&new, b"k").unwrap(), None);
    assert_eq!(reader.commit(), Ok(None));
    writer.put(&new, b"result", b"v").unwrap();
    assert_eq!(writer.commit(), Err(Error::NoKeyspace { name: "old".to_owned() }));
    let tx = db.begin().unwrap();
    tx.put(&new, b"result", b"v").unwrap();
    db.close().unwrap();
    assert_eq!(tx.get(&new, b"k"), Err(Error::Closed));
    assert_eq!(tx.commit(), Err(Error::Closed));
    assert_eq!(db.begin().map(drop), Err(Error::Closed));
}

#[test]
fn what_it_cannot_write_is_refused_at_the_call() {
    let (dir, other_dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (db, other) = (open(&dir), open(&other_dir));
    let foreign = space(&other, EngineKind::Memory, true);
    let own = space(&db, EngineKind::Memory, true);
    let tx = db.begin().unwrap();
    let refused = Err(Error::NoKeyspace { name: foreign.name().to_owned() });
    assert_eq!(tx.put(&foreign, b"k", b"v"), refused);
    assert_eq!(tx.delete(&foreign, b"k"), refused);
    assert_eq!(tx.get(&foreign, b"k").map(drop), refused);
    assert_eq!(tx.scan(&foreign, KeyRange::all()).map(drop), refused);
    let long = vec![0; thermocline::KEY_BYTES_MAX + 1];
    assert!(matches!(
        tx.put(&own, &long, b"v"),
        Err(Error::Engine(engine::Error::KeyTooLong { .. }))
    ));
    assert_eq!(tx.commit(), Ok(None));
}

#[test]
fn a_swap_is_done_or_tells_what_was_there() {
    on_every_kind(EngineKind::ALL, |db, space| {
        let present = |value: &[u8]| Swap::Refused { present: Some(value.to_vec()) };
        let swap = |expected: Option<&[u8]>, new: Option<&[u8]>| {
            space.compare_and_swap(b"k", expected, new).unwrap()
        };
        assert_eq!(swap(Some(b"a"), Some(b"b")), Swap::Refused { present: None });
        assert_eq!(swap(None, None), Swap::Done { seqno: None });
        assert_eq!(space.get(b"k").unwrap(), None);
        let Swap::Done { seqno: Some(seqno) } = swap(None, Some(b"a")) else { panic!("refused") };
        assert!(seqno <= db.last());
        assert_eq!(swap(None, Some(b"b")), present(b"a"));
        assert_eq!(swap(Some(b"b"), Some(b"c")), present(b"a"));
        assert_eq!(swap(Some(b"b"), None), present(b"a"));
        assert!(swap(Some(b"a"), Some(b"b")).is_done(), "in place");
        assert!(swap(Some(b"b"), Some(b"longer")).is_done());
        assert_eq!(space.get(b"k").unwrap().as_deref(), Some(&b"longer"[..]));
        assert!(swap(Some(b"longer"), None).is_done());
        assert_eq!(space.get(b"k").unwrap(), None);
    });
}

#[test]
fn handles_may_be_sent_and_shared() {
    fn is_sent<T: Send>() {}
    fn is_shared<T: Sync>() {}
    is_sent::<Transaction>();
    is_shared::<Transaction>();
    is_sent::<thermocline::TransactionScan<'_>>();
}

/// The pin of a transaction would count old versions as memory that its writes take.
#[test]
fn a_full_keyspace_takes_what_does_not_grow() {
    let dir = TempDir::new().unwrap();
    let options = Options { memory_bytes: 16 * MIB, ..Options::default() };
    let db = Db::open(dir.path(), options).unwrap();
    let space = db.keyspace("s", KeyspaceOptions::default()).unwrap();
    let full = |outcome: Result<(), Error>| {
        matches!(outcome, Err(Error::Engine(engine::Error::OutOfMemory { .. })))
    };
    let value = vec![1; 64 << 10];
    let mut count = 0_u32;
    while !full(space.put(&count.to_be_bytes(), &value).map(drop)) {
        count += 1;
    }
    assert!(full(db.transaction(|tx| tx.put(&space, b"one more", &value))));
    for index in 0..count {
        let changed = db.transaction(|tx| {
            assert_eq!(tx.get(&space, &index.to_be_bytes())?.as_ref(), Some(&value));
            tx.put(&space, &index.to_be_bytes(), &vec![2; value.len()])
        });
        assert_eq!(changed, Ok(()));
    }
    assert_eq!(space.get(&0_u32.to_be_bytes()).unwrap(), Some(vec![2; value.len()]));
}
