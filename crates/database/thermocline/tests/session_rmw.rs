//! Read-modify-writes on sessions have the same outcomes as blocking ones, while others write too.
//!
//! Pending ones have changed nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::few_pages;
use crate::numbered::{add_one, key, number, value};
use device::{Device, Failure, Fault, FaultDevice, Faults, Lasting, OperationKind, SimulatedDisk};
use rand::RngExt;
use thermocline::{
    Batch, Change, Completed, Db, Durability, EngineKind, Environment, Error, Keyspace,
    KeyspaceOptions, LookupForUpdate, Operator, Options, SeqNo, Session, SessionGet, SessionRmw,
    Tried, f2,
};

/// Keys that do not fit into the memory of the keyspace.
const KEYS: u64 = 3_000;

/// A few pages of memory, and so little disk that compactions run all the while.
fn options() -> Options {
    let f2 = f2::Options {
        disk_bytes_max: Some(8 * few_pages::PAGE_BYTES),
        cold_disk_bytes_max: Some(32 * few_pages::PAGE_BYTES),
        ..few_pages::f2()
    };
    Options {
        memory_bytes: 64 << 20,
        sync_interval: None,
        durability: Durability::Buffered,
        engines: f2.into(),
        ..Options::default()
    }
}

fn open(journaled: bool) -> (Db, Keyspace) {
    open_on(&device::memory(), options(), journaled)
}

fn open_on(device: &Arc<dyn Device>, options: Options, journaled: bool) -> (Db, Keyspace) {
    let db = Db::open_on(Arc::clone(device), "memory", options).unwrap();
    let options = KeyspaceOptions { engine: EngineKind::F2, journaled, ..Default::default() };
    let space = db.keyspace("s", options).unwrap();
    (db, space)
}

/// The same with the keys, each with its number, most of them on disk alone.
fn filled(journaled: bool) -> (Db, Keyspace) {
    let (db, space) = open(journaled);
    for at in 0..KEYS {
        space.put(&key(at), &value(at)).unwrap();
    }
    (db, space)
}

/// Begins `operator` on keys from `from` on, until it is pending on one, whose number is returned.
/// On the keys before it, it is done.
fn pend(session: &mut Session, from: u64, operator: fn(Option<&[u8]>) -> Change) -> u64 {
    for at in from..KEYS {
        match session.begin_rmw(at, &key(at), Box::new(operator)).unwrap() {
            SessionRmw::Pending => return at,
            SessionRmw::Done(_) => {}
            SessionRmw::Full(_) => panic!("full"),
        }
    }
    panic!("nothing is on disk")
}

/// Returns the outcome of each pending operation.
fn complete(session: &mut Session) -> Vec<(u64, Result<Option<SeqNo>, Error>)> {
    let mut told = Vec::new();
    while session.pending() > 0 {
        let count = session.complete(true, &mut |tag, outcome| match outcome {
            Ok(Completed::Updated(seqno)) => told.push((tag, Ok(seqno))),
            Ok(other) => panic!("{other:?} of an update"),
            Err(error) => told.push((tag, Err(error))),
        });
        assert!(count.unwrap() > 0, "a wait is for something");
    }
    told
}

/// Waits for some outcomes, all of which must be right. Returns their number.
fn hear(session: &mut Session) -> usize {
    session
        .complete(true, &mut |_, outcome| {
            assert!(matches!(outcome, Ok(Completed::Updated(Some(_)))), "{outcome:?}");
        })
        .unwrap()
}

/// Completes the only pending operation, and checks its outcome.
fn complete_one(session: &mut Session, at: u64) {
    let told = complete(session);
    assert!(matches!(&told[..], [(tag, Ok(Some(_)))] if *tag == at), "{told:?}");
}

#[test]
fn pending_updates_come_to_what_blocking_ones_do() {
    for journaled in [false, true] {
        let (db, space) = filled(journaled);
        let mut session = space.session(32).unwrap();
        let (mut pended, mut told, mut at) = (0, BTreeSet::new(), 0);
        let mut operator: Box<dyn Operator + Send> = Box::new(add_one);
        while at < KEYS + 100 {
            match session.begin_rmw(at, &key(at), operator).unwrap() {
                SessionRmw::Done(seqno) => assert!(seqno.is_some() && told.insert(at)),
                SessionRmw::Pending => pended += 1,
                SessionRmw::Full(back) => {
                    session
                        .complete(true, &mut |tag, outcome| {
                            assert!(
                                matches!(outcome, Ok(Completed::Updated(Some(_)))),
                                "{outcome:?}"
                            );
                            assert!(told.insert(tag), "{tag} is told once");
                        })
                        .unwrap();
                    operator = back;
                    continue;
                }
            }
            operator = Box::new(add_one);
            at += 1;
        }
        for (tag, outcome) in complete(&mut session) {
            assert!(outcome.unwrap().is_some() && told.insert(tag));
        }
        assert_eq!(told.len() as u64, KEYS + 100);
        assert!(pended > KEYS / 4, "{pended} were pending");
        for at in 0..KEYS + 100 {
            let before = if at < KEYS { at } else { 0 };
            assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), before + 1, "{at}");
        }
        db.close().unwrap();
    }
}

/// A write to the key during the lookup of its old value takes place first.
#[test]
fn what_is_written_meanwhile_is_what_the_operator_is_shown() {
    type Write = fn(&Db, &Keyspace, &[u8]);
    let writes: [(Write, u64); 6] = [
        (|_, space, key| assert!(space.put(key, &value(7000)).is_ok()), 7000),
        (|_, space, key| assert!(space.put(key, &value(7000)[..16]).is_ok()), 7000),
        (|_, space, key| assert!(space.delete(key).is_ok()), 0),
        (
            |_, space, key| {
                space.rmw(key, |_| Change::Put(value(8000))).unwrap();
            },
            8000,
        ),
        (
            |db, space, key| {
                let mut batch = Batch::new();
                batch.put(space, key, &value(9000));
                db.write(&batch).unwrap();
            },
            9000,
        ),
        (
            |db, space, key| {
                db.atomically(&[(space, key)], |section| section.put(0, value(9500))).unwrap();
            },
            9500,
        ),
    ];
    for journaled in [false, true] {
        let (db, space) = filled(journaled);
        let mut from = 0;
        for (write, left) in writes {
            let mut session = space.session(4).unwrap();
            let at = pend(&mut session, from, add_one);
            write(&db, &space, &key(at));
            complete_one(&mut session, at);
            assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), left + 1);
            from = at + 1;
        }
    }
}

/// The present place of the write does not matter, nor the progress of the lookup.
#[test]
fn a_write_that_has_left_memory_again_is_met_all_the_same() {
    for journaled in [false, true] {
        let (_db, space) = filled(journaled);
        let mut session = space.session(KEYS as usize).unwrap();
        for at in 0..KEYS {
            session.begin_rmw(at, &key(at), Box::new(add_one)).unwrap();
        }
        // The budget has room for some of them, and the others are refused.
        let pending = session.pending();
        assert!(pending > 100, "{pending} are pending");
        for at in 0..KEYS {
            space.put(&key(at), &value(at + 7000)).unwrap();
        }
        let before = compactions(&space);
        let mut round = 0;
        while round < 2 * KEYS || compactions(&space) < before + 2 {
            space.put(&key(KEYS + round % KEYS), &value(round)).unwrap();
            round += 1;
        }
        for (at, outcome) in complete(&mut session) {
            assert!(outcome.unwrap().is_some());
            assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), at + 7001);
        }
    }
}

#[test]
fn pending_updates_of_one_key_all_count() {
    for journaled in [false, true] {
        let (_db, space) = filled(journaled);
        let mut session = space.session(8).unwrap();
        let at = pend(&mut session, 0, add_one);
        for _ in 0..3 {
            let begun = session.begin_rmw(at, &key(at), Box::new(add_one)).unwrap();
            assert!(matches!(begun, SessionRmw::Pending), "{begun:?}");
        }
        let mut into = Vec::new();
        assert_eq!(session.begin_get(99, &key(at), &mut into).unwrap(), SessionGet::Pending);
        let (mut updates, mut gets) = (0, 0);
        while session.pending() > 0 {
            session
                .complete(true, &mut |tag, outcome| match outcome.unwrap() {
                    Completed::Updated(seqno) => updates += u64::from(seqno.is_some() && tag == at),
                    Completed::Value(value) => {
                        assert!(tag == 99 && (at..=at + 4).contains(&number(value)));
                        gets += 1;
                    }
                    Completed::Old(_) => panic!("nobody asked for it"),
                })
                .unwrap();
        }
        assert_eq!((updates, gets), (4, 1));
        assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), at + 4);
    }
}

#[test]
fn what_an_operator_refuses_to_change_or_cannot_is_told_so() {
    for journaled in [false, true] {
        let (db, space) = filled(journaled);
        let mut session = space.session(8).unwrap();
        let kept = pend(&mut session, 0, |_| Change::Keep);
        let long = pend(&mut session, kept + 1, |_| Change::Put(vec![0; 32 << 20]));
        let gone = pend(&mut session, long + 1, |_| Change::Delete);
        for (tag, outcome) in complete(&mut session) {
            match outcome {
                Ok(None) => assert_eq!(tag, kept),
                Ok(Some(_)) => assert_eq!(tag, gone),
                Err(error) => {
                    assert_eq!(tag, long);
                    let error = matches!(error, Error::Engine(engine::Error::RecordTooLong { .. }));
                    assert!(error);
                }
            }
        }
        assert_eq!(db.failure(), None);
        assert_eq!(number(space.get(&key(kept)).unwrap().as_deref()), kept);
        assert_eq!(number(space.get(&key(long)).unwrap().as_deref()), long);
        assert_eq!(space.get(&key(gone)).unwrap(), None);
    }
}

#[test]
fn a_session_that_is_dropped_has_changed_nothing() {
    for journaled in [false, true] {
        let (db, space) = filled(journaled);
        let alive = Arc::new(());
        let mut done = BTreeSet::new();
        let mut session = space.session(64).unwrap();
        for at in 0..KEYS {
            let held = Arc::clone(&alive);
            let operator = move |old: Option<&[u8]>| {
                let _held = &held;
                add_one(old)
            };
            match session.begin_rmw(at, &key(at), Box::new(operator)).unwrap() {
                SessionRmw::Done(_) => drop(done.insert(at)),
                SessionRmw::Pending => {}
                SessionRmw::Full(_) => break,
            }
        }
        assert_eq!(session.pending(), 64);
        drop(session);
        assert_eq!(Arc::strong_count(&alive), 1, "the operators are gone");
        for at in 0..KEYS {
            let expected = at + u64::from(done.contains(&at));
            assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), expected);
        }
        db.close().unwrap();
    }
}

#[test]
fn a_pending_update_fails_when_the_database_closes() {
    for journaled in [false, true] {
        let device = device::memory();
        let (db, space) = open_on(&device, options(), journaled);
        for at in 0..KEYS {
            space.put(&key(at), &value(at)).unwrap();
        }
        let mut session = space.session(4).unwrap();
        let at = pend(&mut session, 0, add_one);
        db.close().unwrap();
        assert_eq!(complete(&mut session), [(at, Err(Error::Closed))]);
        let refused = session.begin_rmw(0, &key(0), Box::new(add_one));
        assert!(matches!(refused, Err(Error::Closed)));
        drop((session, space, db));
        let (_db, space) = open_on(&device, options(), journaled);
        assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), at);
    }
}

#[test]
fn a_read_that_fails_is_told_of_its_update_alone() {
    for journaled in [false, true] {
        // Nothing else reads.
        let f2 = few_pages::f2();
        let device = FaultDevice::new(device::memory());
        let opened = open_on(
            &(device.clone() as Arc<dyn Device>),
            Options { engines: f2.into(), ..options() },
            journaled,
        );
        let (db, space) = opened;
        for at in 0..KEYS {
            space.put(&key(at), &value(at)).unwrap();
        }
        db.flush().unwrap();
        let mut session = space.session(8).unwrap();
        let (kind, failure) = (Some(OperationKind::Read), Failure::Io);
        let nth = device.count(kind) + 2;
        device.fail(Fault { kind, nth, failure, lasting: Lasting::Once });
        for at in 0..4 {
            let begun = session.begin_rmw(at, &key(at), Box::new(add_one)).unwrap();
            assert!(matches!(begun, SessionRmw::Pending), "{begun:?}");
        }
        let told = complete(&mut session);
        assert_eq!((told.len(), device.failed()), (4, 1));
        for (at, outcome) in &told {
            let left = number(space.get(&key(*at)).unwrap().as_deref());
            match outcome {
                Ok(seqno) => assert!(seqno.is_some() && left == at + 1),
                Err(Error::Engine(engine::Error::Device(_))) => assert_eq!(left, *at),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(told.iter().filter(|(_, outcome)| outcome.is_err()).count(), 1);
        assert_eq!(db.failure(), None);
        assert!(space.put(&key(0), &value(0)).is_ok(), "writes go on");
    }
}

#[test]
fn an_operator_that_panics_takes_nothing_with_it() {
    for journaled in [false, true] {
        let (_db, space) = filled(journaled);
        let mut session = space.session(8).unwrap();
        let first = pend(&mut session, 0, add_one);
        let second = pend(&mut session, first + 1, |_| panic!("as it was planted"));
        let third = pend(&mut session, second + 1, add_one);
        // Another writer has written its key first.
        space.put(&key(third), &value(7000)).unwrap();
        let mut told = BTreeSet::new();
        let mut panics = 0;
        while session.pending() > 0 {
            let completed = catch_unwind(AssertUnwindSafe(|| {
                session.complete(true, &mut |tag, outcome| {
                    assert!(matches!(outcome, Ok(Completed::Updated(Some(_)))), "{outcome:?}");
                    assert!(told.insert(tag));
                })
            }));
            panics += u32::from(completed.is_err());
        }
        assert_eq!((panics, told), (1, BTreeSet::from([first, third])));
        for (at, left) in [(first, first + 1), (second, second), (third, 7001)] {
            assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), left);
            assert!(space.put(&key(at), &value(1)).is_ok(), "no lock is left behind");
        }
    }
}

#[test]
fn a_keyspace_that_is_cleared_or_dropped_meanwhile_is_another() {
    for journaled in [false, true] {
        let (db, space) = filled(journaled);
        let mut session = space.session(4).unwrap();
        let at = pend(&mut session, 0, add_one);
        space.clear().unwrap();
        complete_one(&mut session, at);
        assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), 1, "it was empty by then");
        for at in 0..KEYS {
            space.put(&key(at), &value(at)).unwrap();
        }
        let at = pend(&mut session, 0, add_one);
        db.drop_keyspace("s").unwrap();
        let told = complete(&mut session);
        assert_eq!(told, [(at, Err(Error::NoKeyspace { name: "s".to_owned() }))]);
    }
}

/// With a durability to wait for, operations that are done at the same time share one wait.
#[test]
fn one_sync_is_for_all_that_are_over() {
    // Nothing in the background syncs the journal.
    let f2 = few_pages::f2();
    let (db, space) = open_on(&device::memory(), Options { engines: f2.into(), ..options() }, true);
    for at in 0..KEYS {
        space.put(&key(at), &value(at)).unwrap();
    }
    db.flush().unwrap();
    let space = space.durability(Durability::Synced);
    let mut session = space.session(16).unwrap();
    let mut pended = 0;
    for at in 0..KEYS {
        match session.begin_rmw(at, &key(at), Box::new(add_one)).unwrap() {
            SessionRmw::Pending => pended += 1,
            SessionRmw::Done(_) => {}
            SessionRmw::Full(_) => break,
        }
    }
    assert_eq!(pended, 16);
    let before = db.stats().journal.syncs;
    let (mut calls, mut told) = (0, 0);
    while session.pending() > 0 {
        told += hear(&mut session);
        calls += 1;
    }
    assert_eq!(told, 16);
    assert_eq!(db.stats().journal.syncs - before, calls, "one for each call");
    assert!(calls < 16, "{calls} calls");
}

/// Several threads on sessions run next to blocking updates, puts, deletes and batches of the same
/// keys, and both compactions. No two of the updates that are done saw the same value.
#[test]
fn no_value_is_updated_twice_beside_all_other_writers() {
    for journaled in [false, true] {
        let (db, space) = open(journaled);
        let versions = AtomicU64::new(1);
        let seen = Mutex::new(Vec::new());
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let sessions: Vec<_> = (0..2_u64)
                .map(|thread| {
                    let (db, space, versions, seen) = (&db, &space, &versions, &seen);
                    scope.spawn(move || {
                        let saw = update_in_session(db, space, versions, thread);
                        seen.lock().unwrap().extend(saw);
                    })
                })
                .collect();
            scope.spawn(|| {
                let saw = write_beside(&db, &space, &versions, &is_over);
                seen.lock().unwrap().extend(saw);
            });
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    space.flush().unwrap();
                }
            });
            for session in sessions {
                session.join().unwrap();
            }
            is_over.store(true, SeqCst);
        });
        let mut seen: Vec<u64> = seen.into_inner().unwrap();
        seen.retain(|version| *version != 0);
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "two updates were shown one value");
        println!("journaled {journaled}: {count} values were updated");
        db.close().unwrap();
    }
}

/// How many keys all of them write to: few, so that they meet, and not so few that none is on disk.
const SHARED: u64 = 400;

fn compactions(space: &Keyspace) -> u64 {
    let detail = space.stats().unwrap().detail;
    let figure = |name| detail.iter().find(|(known, _)| *known == name).unwrap().1;
    figure("compactions").min(figure("cold_compactions"))
}

/// Returns the values that its updates have replaced.
fn update_in_session(db: &Db, space: &Keyspace, versions: &AtomicU64, thread: u64) -> Vec<u64> {
    let mut session = space.session(24).unwrap();
    let mut saw: Vec<Arc<AtomicU64>> = Vec::new();
    let mut told = 0;
    let mut random = Environment::seeded(thread).random("session");
    let (mut pended, mut round) = (0_u64, 0_u64);
    while round < 2_000 || pended < 300 || compactions(space) < 2 {
        let version = versions.fetch_add(1, SeqCst);
        let old = Arc::new(AtomicU64::new(0));
        saw.push(Arc::clone(&old));
        let mut operator: Box<dyn Operator + Send> = Box::new(move |present: Option<&[u8]>| {
            // If it is called several times, the last result counts.
            old.store(number(present), SeqCst);
            Change::Put(value(version))
        });
        let key = key(random.random_range(0..SHARED));
        loop {
            match session.begin_rmw(0, &key, operator).unwrap() {
                SessionRmw::Done(_) => told += 1,
                SessionRmw::Pending => pended += 1,
                SessionRmw::Full(back) => {
                    operator = back;
                    told += hear(&mut session);
                    continue;
                }
            }
            break;
        }
        round += 1;
        if round % 4 == 0 {
            let filler = KEYS + (round * 7 + thread * 1000) % (2 * KEYS);
            space.put(&self::key(filler), &value(0).repeat(8)).unwrap();
        }
        assert_eq!(db.failure(), None);
    }
    while session.pending() > 0 {
        told += hear(&mut session);
    }
    assert_eq!(told, saw.len(), "each is told once");
    saw.iter().map(|old| old.load(SeqCst)).collect()
}

/// The same by blocking updates, until it is over, with other writes in between.
fn write_beside(db: &Db, space: &Keyspace, versions: &AtomicU64, is_over: &AtomicBool) -> Vec<u64> {
    let mut saw = Vec::new();
    let mut random = Environment::seeded(7).random("beside");
    while !is_over.load(SeqCst) {
        let key = key(random.random_range(0..SHARED));
        let fresh = || value(versions.fetch_add(1, SeqCst));
        match random.random_range(0..6) {
            0 => {
                space.put(&key, &fresh()).unwrap();
            }
            1 => {
                space.delete(&key).unwrap();
            }
            2 => {
                let mut batch = Batch::new();
                batch.put(space, &key, &fresh());
                db.write(&batch).unwrap();
            }
            _ => {
                let mut old = 0;
                let new = fresh();
                let update = |present: Option<&[u8]>| {
                    old = number(present);
                    Change::Put(new.clone())
                };
                space.rmw(&key, update).unwrap();
                saw.push(old);
            }
        }
    }
    saw
}

/// Power cuts at moments of a run of counters on a session. An image has a prefix of the updates in
/// the order of their numbers, with all that were acknowledged before the cut.
#[test]
fn a_power_cut_leaves_what_was_reported() {
    const SEED: u64 = 11;
    const COUNTERS: u64 = 1_500;
    const UPDATES: usize = 1_200;
    let simulated = || {
        let (environment, _clock) = Environment::simulated(SEED);
        Options { environment, background_threads: 1, ..options() }
    };
    let disk = SimulatedDisk::new(SEED, Faults::none());
    disk.keep_history();
    let (db, space) = open_on(&(Arc::clone(&disk) as Arc<dyn Device>), simulated(), true);
    for at in 0..COUNTERS {
        space.put(&key(at), &value(0)).unwrap();
    }
    db.flush().unwrap();
    let synced = space.durability(Durability::Synced);
    let mut session = synced.session(16).unwrap();
    // The counters, by the numbers of their updates; and for each moment the number of acknowledged
    // updates.
    let (mut order, mut moments, mut pended) = (Vec::new(), vec![], 0);
    let loaded_at = disk.operations();
    let mut random = Environment::seeded(SEED).random("counters");
    let hear = |session: &mut Session, order: &mut Vec<(SeqNo, u64)>| {
        session
            .complete(true, &mut |tag, outcome| match outcome.unwrap() {
                Completed::Updated(seqno) => order.push((seqno.unwrap(), tag)),
                other => panic!("{other:?}: nothing was read"),
            })
            .unwrap();
    };
    while order.len() < UPDATES {
        let at = random.random_range(0..COUNTERS);
        match session.begin_rmw(at, &key(at), Box::new(add_one)).unwrap() {
            SessionRmw::Done(seqno) => order.push((seqno.unwrap(), at)),
            SessionRmw::Pending => pended += 1,
            SessionRmw::Full(_) => hear(&mut session, &mut order),
        }
        moments.push((disk.operations(), order.len()));
    }
    while session.pending() > 0 {
        hear(&mut session, &mut order);
    }
    assert!(pended > 300, "{pended} were pending");
    let history = disk.history();
    drop((session, synced, space, db));
    order.sort_unstable();
    let mut replay = history.replay();
    let last = moments.last().unwrap().0;
    let step = usize::try_from((last - loaded_at) / 20).unwrap().max(1);
    for operation in (loaded_at..=last).step_by(step) {
        replay.advance_to(operation);
        let image = replay.crash(SEED ^ operation);
        let (_db, space) = open_on(&(image as Arc<dyn Device>), simulated(), true);
        let found: Vec<u64> =
            (0..COUNTERS).map(|at| number(space.get(&key(at)).unwrap().as_deref())).collect();
        let kept = usize::try_from(found.iter().sum::<u64>()).unwrap();
        let told = moments.iter().rfind(|(at, _)| *at <= operation).map_or(0, |(_, told)| *told);
        assert!(kept >= told, "seed {SEED}, cut after {operation}: {kept} of {told} told are left");
        let mut expected = vec![0; found.len()];
        order[..kept].iter().for_each(|(_, at)| expected[*at as usize] += 1);
        assert_eq!(found, expected, "seed {SEED}, cut after {operation}: no prefix of {kept}");
    }
}

#[test]
fn a_user_may_update_with_what_was_looked_up_for_it() {
    for journaled in [false, true] {
        let (_db, space) = filled(journaled);
        let mut session = space.session(4).unwrap();
        // The store may still make room for the writes that have filled it.
        let with_room = |attempt: &dyn Fn() -> Tried| loop {
            match attempt() {
                Tried::MustWait => space.wait_to_write().unwrap(),
                tried => return tried,
            }
        };
        let on_disk = |at: &u64| {
            let attempt = || space.try_rmw(&key(*at), &mut add_one).unwrap();
            with_room(&attempt) == Tried::NeedsRead
        };
        let at = (0..KEYS).find(on_disk).unwrap();
        for tag in [7, 8] {
            assert_eq!(session.lookup_for_update(tag, &key(at)).unwrap(), LookupForUpdate::Pending);
        }
        assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), at, "nothing has changed");
        // The first finds that its value is still the newest, the second finds the value that
        // memory has meanwhile.
        let mut tags = Vec::new();
        while session.pending() > 0 {
            let told = session.complete(true, &mut |tag, outcome| match outcome.unwrap() {
                Completed::Old(old) => {
                    let tried = with_room(&|| old.update(&mut add_one).unwrap());
                    assert!(matches!(tried, Tried::Done(Some(_))), "{tried:?}");
                    tags.push(tag);
                }
                other => panic!("{other:?}"),
            });
            assert!(told.unwrap() > 0);
        }
        tags.sort_unstable();
        assert_eq!(tags, [7, 8]);
        assert_eq!(number(space.get(&key(at)).unwrap().as_deref()), at + 2);
        assert_eq!(session.lookup_for_update(9, &key(at)).unwrap(), LookupForUpdate::InMemory);
    }
}
