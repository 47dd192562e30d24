//! Every way of reading when a value ends: the values that it shows, and the values that moments
//! keep.

use std::ops::ControlFlow::Continue;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;

use thermocline::{
    Completed, Db, Error, Expiring, KeyRange, Keyspace, KeyspaceOptions, SessionGet, Snapshot,
    Transaction,
};

use super::database::{Bench, kinds};

/// The value that a way of reading shows for a key.
type Found = Option<Vec<u8>>;
type Pair = (Vec<u8>, Vec<u8>);

fn wait_for(future: thermocline::AsyncGet) -> Found {
    let mut future = pin!(future);
    loop {
        let polled = Pin::as_mut(&mut future).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(value) = polled {
            return value.unwrap();
        }
        thread::yield_now();
    }
}

fn in_session(space: &Keyspace, key: &[u8]) -> Found {
    let (mut session, mut value) = (space.session(1).unwrap(), Vec::new());
    let mut told = None;
    match session.begin_get(7, key, &mut value).unwrap() {
        SessionGet::Found => return Some(value),
        SessionGet::Absent => return None,
        SessionGet::Pending => {}
        SessionGet::Full => panic!("nothing is pending"),
    }
    while session.pending() > 0 {
        session
            .complete(true, &mut |tag, outcome| match outcome.unwrap() {
                Completed::Value(value) => told = Some((tag, value.map(<[u8]>::to_vec))),
                other => panic!("{other:?}"),
            })
            .unwrap();
    }
    let (tag, value) = told.unwrap();
    assert_eq!(tag, 7);
    value
}

/// Returns the value that each way of reading the present shows for `key`, by the way's name.
fn ways(db: &Db, space: &Keyspace, key: &[u8]) -> Vec<(&'static str, Found)> {
    let mut into = Vec::new();
    let at_once = space.try_get(key, &mut into).unwrap();
    let mut walked = None;
    space
        .walk(None, |other, value| {
            if other == key {
                walked = Some(value.to_vec());
            }
            Continue(())
        })
        .unwrap();
    let section = db.atomically(&[(space, key)], |section| section.get(0)).unwrap();
    let mut seen = None;
    space
        .rmw(key, |old| {
            seen = old.map(<[u8]>::to_vec);
            thermocline::Change::Keep
        })
        .unwrap();
    let mut ways = vec![
        ("get", space.get(key).unwrap()),
        ("get_with_expiry", space.expiring().get(key).unwrap().map(|(value, _)| value)),
        ("multi_get", space.multi_get(&[key]).unwrap().remove(0)),
        ("walk", walked),
        ("section", section),
        ("rmw", seen),
        ("transaction", db.begin().unwrap().get(space, key).unwrap()),
        ("session", in_session(space, key)),
        ("future", wait_for(space.futures().get(key))),
    ];
    if let Some(is_there) = at_once {
        ways.push(("try_get", is_there.then_some(into)));
    }
    if space.is_ordered() {
        let of = |pair: Option<Result<Pair, Error>>| pair.map(|pair| pair.unwrap().1);
        let range = || KeyRange::prefix(key);
        let snapshot = db.snapshot().unwrap();
        ways.extend([
            ("scan", of(space.scan(range()).unwrap().next())),
            ("scan_reverse", of(space.scan_reverse(range()).unwrap().next())),
            ("snapshot", snapshot.get(space, key).unwrap()),
            ("snapshot's scan", of(snapshot.scan(space, range()).unwrap().next())),
            ("transaction's scan", of(db.begin().unwrap().scan(space, range()).unwrap().next())),
        ]);
    }
    ways
}

/// Enough that an engine larger than memory has most of it on disk.
fn fill(space: &Keyspace) {
    for number in 0..600_u32 {
        space.put(&number.to_be_bytes(), &[7; 20_000]).unwrap();
    }
    space.flush().unwrap();
}

#[test]
fn no_way_of_reading_shows_what_has_ended() {
    for (engine, journaled) in kinds() {
        let bench = Bench::new(3);
        let space = bench.space(engine, journaled);
        let expiry_ms = bench.now_ms() + 1000;
        space.expiring().put(b"ends", b"soon", expiry_ms).unwrap();
        space.put(b"stays", b"for long").unwrap();
        fill(&space);
        bench.pass(999);
        for (way, found) in ways(&bench.db, &space, b"ends") {
            assert_eq!(found.as_deref(), Some(&b"soon"[..]), "{engine}, {journaled}: {way}");
        }
        bench.pass(1);
        for (way, found) in ways(&bench.db, &space, b"ends") {
            assert_eq!(found, None, "{engine}, {journaled}: {way}");
        }
        for (way, found) in ways(&bench.db, &space, b"stays") {
            assert_eq!(found.as_deref(), Some(&b"for long"[..]), "{engine}, {journaled}: {way}");
        }
        let stored = space.expiring().raw().get(b"ends").unwrap().unwrap();
        let whole = Expiring { value: b"soon", expiry_ms: Some(expiry_ms) };
        assert_eq!(Expiring::decode(&stored), Ok(whole), "nobody has removed it");
    }
}

/// A value of a moment is shown at that moment, however long the moment is held.
#[test]
fn a_moment_keeps_what_had_not_ended() {
    for (engine, journaled) in kinds() {
        let bench = Bench::new(4);
        let space = bench.space(engine, journaled);
        space.expiring().put(b"ends", b"soon", bench.now_ms() + 10).unwrap();
        let transaction = bench.db.begin().unwrap();
        let read = |transaction: &Transaction| transaction.get(&space, b"ends").unwrap();
        assert_eq!(read(&transaction).as_deref(), Some(&b"soon"[..]));
        let ordered = space
            .is_ordered()
            .then(|| (bench.db.snapshot().unwrap(), space.scan(KeyRange::all()).unwrap()));
        bench.pass(10);
        assert_eq!(space.get(b"ends").unwrap(), None);
        assert_eq!(read(&transaction).as_deref(), Some(&b"soon"[..]), "{engine}");
        transaction.put(&space, b"other", b"").unwrap();
        transaction.commit().unwrap();
        let Some((snapshot, scan)) = ordered else { continue };
        let kept = |snapshot: &Snapshot| snapshot.get(&space, b"ends").unwrap();
        assert_eq!(kept(&snapshot).as_deref(), Some(&b"soon"[..]), "{engine}");
        assert_eq!(scan.count(), 1, "{engine}");
        assert_eq!(space.expiring().remove_expired(), Ok(1));
        assert_eq!(kept(&snapshot).as_deref(), Some(&b"soon"[..]), "{engine}, removed since");
    }
}

#[test]
fn copies_keep_ends_and_show_nothing_that_has_ended() {
    for (engine, journaled) in kinds() {
        let mut bench = Bench::new(5);
        let space = bench.space(engine, journaled);
        let expiry_ms = bench.now_ms() + 1000;
        space.expiring().put(b"later", b"1", expiry_ms).unwrap();
        space.expiring().put(b"soon", b"2", bench.now_ms() + 1).unwrap();
        space.flush().unwrap();
        let copy = device::SimulatedDisk::new(1, device::Faults::none());
        let copy = Arc::clone(&copy) as Arc<dyn device::Device>;
        bench.db.checkpoint_on(Arc::clone(&copy), "copy").unwrap();
        bench.pass(1);
        let look = |db: &Db| {
            let space = db.existing_keyspace(space.name()).unwrap();
            assert_eq!(
                space.expiring().get(b"later").unwrap(),
                Some((b"1".to_vec(), Some(expiry_ms)))
            );
            assert_eq!(space.get(b"soon").unwrap(), None);
            let mut walked = 0;
            space
                .walk(None, |_, _| {
                    walked += 1;
                    Continue(())
                })
                .unwrap();
            assert_eq!(walked, 1);
        };
        let copied = Db::open_on(copy, "copy", bench.options()).unwrap();
        look(&copied);
        copied.close().unwrap();
        bench.reopen();
        look(&bench.db);
        bench.db.close().unwrap();
        let disk = Arc::clone(&bench.disk) as Arc<dyn device::Device>;
        let reading =
            Db::open_read_only_on(Arc::clone(&disk), "simulated", bench.options()).unwrap();
        look(&reading);
        let existing = reading.existing_keyspace(space.name()).unwrap();
        assert!(matches!(existing.expiring().remove_expired(), Err(Error::OpenedReadOnly { .. })));
        reading.close().unwrap();
        assert!(thermocline::check_on(disk, "simulated").unwrap().is_whole());
    }
}

#[test]
fn what_is_ingested_may_end() {
    let bench = Bench::new(6);
    let space = bench.space(thermocline::EngineKind::Lsm, true);
    space.put(b"a", b"old").unwrap();
    let now_ms = bench.now_ms();
    let mut ingestion = space.ingestion().unwrap();
    ingestion.push_with_expiry(b"a", b"past", now_ms).unwrap();
    ingestion.push_with_expiry(b"b", b"ends", now_ms + 1).unwrap();
    ingestion.push(b"c", b"stays").unwrap();
    ingestion.commit().unwrap();
    let keys =
        || space.scan(KeyRange::all()).unwrap().map(|pair| pair.unwrap()).collect::<Vec<_>>();
    let pair = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    assert_eq!(keys(), [pair(b"b", b"ends"), pair(b"c", b"stays")]);
    bench.pass(1);
    assert_eq!(keys(), [pair(b"c", b"stays")]);
    assert_eq!(space.expiring().remove_expired(), Ok(2));
}

#[test]
fn a_keyspace_without_ends_stores_nothing_more_and_refuses_them() {
    let bench = Bench::new(7);
    let options = KeyspaceOptions { expiring: false, ..Default::default() };
    let space = bench.db.keyspace("plain", options).unwrap();
    let is_refused =
        |error: &Error| matches!(error, Error::NotExpiring { keyspace } if keyspace == "plain");
    assert!(is_refused(&space.expiring().put(b"k", b"v", u64::MAX).unwrap_err()));
    assert!(is_refused(&space.expiring().get(b"k").unwrap_err()));
    assert!(is_refused(&space.expiring().expire_at(b"k", 1).unwrap_err()));
    assert!(is_refused(&space.expiring().persist(b"k").unwrap_err()));
    assert!(is_refused(&space.expiring().remove_expired().unwrap_err()));
    let mut batch = thermocline::Batch::new();
    batch
        .put(&space, b"other", b"v")
        .put_with_expiry(&space, b"k", b"v", 1)
        .delete(&space, b"other");
    assert!(is_refused(&bench.db.write(&batch).unwrap_err()));
    assert_eq!(space.get(b"other"), Ok(None), "nothing of a refused batch is written");
    let refused = bench.db.begin().unwrap().put_with_expiry(&space, b"k", b"v", 1);
    assert!(is_refused(&refused.unwrap_err()));
    space.put(b"k", b"v").unwrap();
    assert_eq!(space.expiring().raw().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(space.expiring().stats(), Ok(None));
    let other = KeyspaceOptions { expiring: true, ..options };
    let refused = bench.db.keyspace("plain", other).unwrap_err();
    assert!(matches!(refused, Error::KeyspaceExists { expiring: false, .. }), "{refused}");
}
