//! The invariants C1 to C4, each with a test that fails without it.

mod campaign;
mod leases;
mod records;
mod remote;
mod with_logs;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

use device::Device;
use environment::Environment;
use stoc::{Epoch, Identity, RangeId};
use thermocline::{Db, Options};
use wire::Role;

use crate::{
    Compare, Coordinator, Descriptor, Error, Event, LocalStore, LogMode, LtcRecord, Order, Owner,
    RangeState, Refusal, Store, StoreError, Versioned, Write,
};

/// A database on a device, which can be opened again.
pub(crate) fn db(device: &Arc<dyn Device>) -> Db {
    let options = Options { memory_bytes: 32 << 20, ..Options::default() };
    Db::open_on(Arc::clone(device), "coordinator", options).expect("memory takes it")
}

pub(crate) fn coordinator(db: &Db) -> Arc<Coordinator> {
    let store = LocalStore::open(db.clone()).expect("memory takes it");
    let opened = Coordinator::open(Arc::new(store), &Environment::seeded(1));
    Arc::new(opened.expect("the store is there"))
}

/// The owner that is the LTC `ltc` in its first start.
pub(crate) fn owner(ltc: u32) -> Owner {
    Owner { ltc, start: 1 }
}

/// C1: a commit compares, writes all, and gives revisions that grow.
#[test]
fn c1_a_commit_is_whole_and_compares() {
    let device = device::memory();
    let db = db(&device);
    let store = LocalStore::open(db.clone()).expect("memory takes it");
    let put = |key: &str, value: &str| Write::put(key, value.as_bytes().to_vec());
    let read = |key: &str| store.get(key).expect("the database is open");
    let none = |key: &str| Compare::unchanged(key, None);
    assert_eq!(store.commit(&[none("a")], &[put("a", "1"), put("b", "1")]), Ok(true));
    let (one, two) = (read("a"), read("b"));
    assert_eq!(one.as_ref().map(|found| found.value.as_slice()), Some(&b"1"[..]));
    assert_eq!(store.commit(&[none("a")], &[put("a", "2")]), Ok(false));
    assert_eq!(read("a"), one);
    // One of two compares fails: nothing is written.
    let compares = [Compare::unchanged("a", one.as_ref()), none("b")];
    assert_eq!(store.commit(&compares, &[put("a", "3"), Write::remove("b")]), Ok(false));
    assert_eq!((read("a"), read("b")), (one.clone(), two.clone()));
    let compares = [Compare::unchanged("a", one.as_ref()), Compare::unchanged("b", two.as_ref())];
    assert_eq!(store.commit(&compares, &[put("a", "3"), Write::remove("b")]), Ok(true));
    assert_eq!(read("b"), None);
    // The same bytes again have another revision, also after a removal and an opening.
    assert_eq!(store.commit(&[none("b")], &[put("b", "1")]), Ok(true));
    let again = read("b");
    assert_ne!(again, two);
    drop(store);
    db.close().expect("memory takes it");
    let db = self::db(&device);
    let store = LocalStore::open(db.clone()).expect("memory takes it");
    assert_eq!(store.get("b"), Ok(again.clone()));
    assert_eq!(
        store.commit(&[Compare::unchanged("b", again.as_ref())], &[put("b", "1")]),
        Ok(true)
    );
    assert!(
        store.get("b").ok().flatten().map(|found| found.revision) > again.map(|it| it.revision)
    );
    let listed = store.list("").expect("the database is open");
    let keys: Vec<&str> = listed.iter().map(|(key, _)| key.as_str()).collect();
    assert!(keys.ends_with(&["a", "b"]), "{keys:?}");
    drop(store);
    db.close().expect("memory takes it");
}

#[test]
fn a_cluster_keeps_its_number() {
    let device = device::memory();
    let db = db(&device);
    let id = coordinator(&db).cluster();
    assert_ne!(id, 0);
    db.close().expect("memory takes it");
    let db = self::db(&device);
    assert_eq!(coordinator(&db).cluster(), id);
}

/// C4: starts grow, and the last completed start is reported.
#[test]
fn c4_a_stoc_has_starts_that_grow() {
    let db = db(&device::memory());
    let coordinator = coordinator(&db);
    let start = |incarnation, last_incarnation| crate::StocStart { incarnation, last_incarnation };
    let identity = |cookie, incarnation| Identity { cluster: 1, node: 3, cookie, incarnation };
    assert_eq!(coordinator.begin_stoc(3), Ok(start(1, None)));
    // A start that never completes.
    assert_eq!(coordinator.begin_stoc(3), Ok(start(2, None)));
    let old = coordinator.complete_stoc(identity(7, 1), None, None);
    assert_eq!(old, Err(Error::OldStart { role: Role::Stoc, node: 3, given: 1, last: 2 }));
    assert_eq!(coordinator.complete_stoc(identity(7, 2), None, None), Ok(false));
    assert_eq!(coordinator.begin_stoc(3), Ok(start(3, Some(2))));
    assert_eq!(coordinator.complete_stoc(identity(7, 3), None, None), Ok(false));
    assert_eq!(coordinator.begin_stoc(3), Ok(start(4, Some(3))));
    // Its directory was replaced.
    let completed = coordinator.complete_stoc(identity(8, 4), Some("db4:7401"), Some("rack-1"));
    assert_eq!(completed, Ok(true));
    assert_eq!(coordinator.begin_stoc(4), Ok(start(1, None)));
    let stocs = coordinator.stocs().expect("the database is open");
    assert_eq!(stocs.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [3, 4]);
    let domains: Vec<_> = stocs.iter().map(|(_, record)| record.domain.as_deref()).collect();
    assert_eq!(domains, [Some("rack-1"), None]);
}

#[test]
fn a_keyspace_has_ranges_over_all_keys() {
    let db = db(&device::memory());
    let coordinator = coordinator(&db);
    let options = LogMode::Memory.to_options();
    let splits = [b"g".to_vec(), b"p".to_vec()];
    let made = coordinator.create_keyspace("users", &options, &splits);
    let made = made.expect("the database is open");
    assert_eq!(made.ranges, [RangeId(1), RangeId(2), RangeId(3)]);
    for key in [&b""[..], b"a", b"g", b"gg", b"o", b"p", b"\xff\xff"] {
        let ranges = coordinator.ranges().expect("the database is open");
        let with_key = ranges.iter().filter(|range| range.contains(key)).count();
        assert_eq!(with_key, 1, "{key:?}");
    }
    // The same again changes nothing.
    assert_eq!(coordinator.create_keyspace("users", &options, &[]), Ok(made.clone()));
    let same = coordinator.create_keyspace("users", &options, &splits);
    assert_eq!(same, Ok(made.clone()));
    let other = coordinator.create_keyspace("users", &options, &[b"g".to_vec()]);
    assert_eq!(other, Err(Error::KeyspaceExists("users".to_owned())));
    let other = coordinator.create_keyspace("users", &LogMode::None.to_options(), &[]);
    assert_eq!(other, Err(Error::KeyspaceExists("users".to_owned())));
    let second = coordinator.create_keyspace("second", b"", &[]).expect("the database is open");
    assert_eq!(second.ranges, [RangeId(4)]);
    assert_eq!(coordinator.keyspaces(), Ok(vec![second, made]));
    for name in ["", "a\nb", &"x".repeat(256)] {
        let refused = coordinator.create_keyspace(name, b"", &[]);
        assert_eq!(refused, Err(Error::BadName(name.to_owned())));
    }
    for splits in [vec![b"b".to_vec(), b"a".to_vec()], vec![Vec::new()], vec![b"a".to_vec(); 2]] {
        let refused = coordinator.create_keyspace("bad", b"", &splits);
        assert_eq!(refused, Err(Error::BadSplits("bad".to_owned())));
    }
    let refused = coordinator.create_keyspace("bad", b"options", &[]);
    assert_eq!(refused, Err(Error::BadOptions("bad".to_owned())));
}

#[test]
fn a_dropped_keyspace_leaves_ranges_until_they_are_forgotten() {
    let db = db(&device::memory());
    let coordinator = coordinator(&db);
    let made = coordinator.create_keyspace("users", b"", &[b"m".to_vec()]).expect("it is new");
    coordinator.take(RangeId(1), owner(1)).expect("it is there");
    let refused = coordinator.forget_range(RangeId(1));
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    coordinator.drop_keyspace("users").expect("it is there");
    assert_eq!(coordinator.drop_keyspace("users"), Err(Error::NoKeyspace("users".to_owned())));
    assert_eq!(coordinator.keyspace("users"), Err(Error::NoKeyspace("users".to_owned())));
    for range in made.ranges {
        let found = coordinator.range(range).expect("it is not forgotten");
        assert_eq!(found.state, RangeState::Dropped);
        let taken = coordinator.take(range, owner(1));
        assert!(matches!(taken, Err(Error::Refused { .. })), "{taken:?}");
        coordinator.forget_range(range).expect("it is dropped");
        coordinator.forget_range(range).expect("it is forgotten");
        assert_eq!(coordinator.range(range), Err(Error::NoRange(range)));
    }
    // The numbers are not given again.
    let next = coordinator.create_keyspace("users", b"", &[]).expect("it is new");
    assert_eq!(next.ranges, [RangeId(3)]);
}

/// C2 and C3: each owner has another epoch, and an old one changes nothing.
#[test]
fn c2_an_owner_has_an_epoch_of_its_own() {
    let db = db(&device::memory());
    let coordinator = coordinator(&db);
    coordinator.create_keyspace("users", b"", &[]).expect("it is new");
    let range = RangeId(1);
    let first = coordinator.take(range, owner(1)).expect("it is there");
    assert_eq!((first.epoch, first.state), (Epoch(1), RangeState::Opening));
    coordinator.serve(range, Epoch(1)).expect("it is opening");
    // The owner is lost.
    let second = coordinator.take(range, owner(2)).expect("it is there");
    assert_eq!((second.epoch, second.owner), (Epoch(2), Some(owner(2))));
    let (given, present) = (Epoch(1), Epoch(2));
    let refusal = Refusal::OtherEpoch { given, present };
    assert_eq!(coordinator.serve(range, Epoch(1)), Err(Error::Refused { range, refusal }));
    coordinator.serve(range, Epoch(2)).expect("it is opening");
    // It moves.
    let refused = |refusal| Err(Error::Refused { range, refusal });
    assert_eq!(coordinator.move_range(range, 2), refused(Refusal::IsThere { ltc: 2 }));
    let state = |descriptor: crate::Result<Descriptor>| descriptor.map(|it| it.state);
    assert_eq!(state(coordinator.move_range(range, 3)), Ok(RangeState::Moving { target: 3 }));
    assert_eq!(state(coordinator.stay(range)), Ok(RangeState::Serving));
    let no_move = Refusal::NoMove { state: RangeState::Serving };
    assert_eq!(coordinator.stay(range), refused(no_move));
    assert_eq!(state(coordinator.move_range(range, 4)), Ok(RangeState::Moving { target: 4 }));
    assert_eq!(state(coordinator.move_range(range, 3)), Ok(RangeState::Moving { target: 3 }));
    let other = Refusal::OtherEpoch { given, present };
    assert_eq!(coordinator.leave(range, Epoch(1)), refused(other));
    assert_eq!(coordinator.left(range, Epoch(1)), refused(other));
    assert_eq!(state(coordinator.leave(range, Epoch(2))), Ok(RangeState::Leaving { target: 3 }));
    assert_eq!(coordinator.stay(range), refused(Refusal::HasBegun { target: 3 }));
    assert_eq!(coordinator.left(range, Epoch(2)).map(|left| left.owner), Ok(None));
    let third = coordinator.take(range, owner(3)).expect("it is closed");
    assert_eq!((third.epoch, third.state), (Epoch(3), RangeState::Opening));
    let (state, event) = (RangeState::Opening, Event::Leave);
    assert_eq!(coordinator.leave(range, Epoch(3)), refused(Refusal::State { state, event }));
    // One opening abandons the log. A range that is served refuses it.
    let gives_up = |descriptor: crate::Result<Descriptor>| descriptor.map(|it| it.gives_up_log);
    assert_eq!(gives_up(coordinator.give_up_log(range)), Ok(true));
    assert_eq!(gives_up(coordinator.take(range, owner(4))), Ok(true));
    assert_eq!(gives_up(coordinator.serve(range, Epoch(4))), Ok(false));
    let (state, event) = (RangeState::Serving, Event::GiveUpLog);
    assert_eq!(coordinator.give_up_log(range), refused(Refusal::State { state, event }));
}

/// C5: an order is void after another owner, and under another leader.
#[test]
fn c5_an_order_is_for_one_owner_and_one_leader() {
    let db = db(&device::memory());
    let coordinator = coordinator(&db);
    coordinator.create_keyspace("users", b"", &[]).expect("it is new");
    let range = RangeId(1);
    let term = coordinator.lead().expect("the database is open");
    let order = Order { range, epoch: Epoch(0), term };
    let epoch = |taken: crate::Result<Descriptor>| taken.map(|taken| taken.epoch);
    assert_eq!(epoch(coordinator.take_ordered(order, owner(1))), Ok(Epoch(1)));
    let void = Err(Error::OldOrder(range));
    assert_eq!(epoch(coordinator.take_ordered(order, owner(2))), void);
    let order = Order { epoch: Epoch(1), ..order };
    let next = coordinator.lead().expect("the database is open");
    assert!(next > term);
    assert_eq!(epoch(coordinator.take_ordered(order, owner(2))), void);
    let order = Order { term: next, ..order };
    assert_eq!(epoch(coordinator.take_ordered(order, owner(2))), Ok(Epoch(2)));
}

#[test]
fn an_ltc_has_starts_an_address_and_can_be_drained() {
    let db = db(&device::memory());
    let coordinator = coordinator(&db);
    assert_eq!(coordinator.drain_ltc(3, true), Err(Error::NoLtc(3)));
    let first = coordinator.begin_ltc(3).expect("the database is open");
    let second = coordinator.begin_ltc(3).expect("the database is open");
    assert_eq!((first, second), (Owner { ltc: 3, start: 1 }, Owner { ltc: 3, start: 2 }));
    let old = Error::OldStart { role: Role::Ltc, node: 3, given: 1, last: 2 };
    assert_eq!(coordinator.complete_ltc(first, "db1:1"), Err(old));
    assert_eq!(coordinator.complete_ltc(second, "db2:1"), Ok(()));
    assert_eq!(coordinator.drain_ltc(3, true), Ok(()));
    let place = Some("db2:1".to_owned());
    let record = LtcRecord { given: 2, place, is_draining: true };
    assert_eq!(coordinator.ltcs(), Ok(vec![(3, record)]));
}

/// C2 and C4 with many threads.
#[test]
fn c4_no_number_is_given_twice() {
    let db = db(&device::memory());
    let coordinator = coordinator(&db);
    coordinator.create_keyspace("users", b"", &[]).expect("it is new");
    let numbers: Vec<(u64, u64, u64)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let coordinator = &coordinator;
                scope.spawn(move || {
                    let take = |_| {
                        let taken = coordinator.take(RangeId(1), owner(thread));
                        let client = coordinator.next_client();
                        let start = coordinator.begin_stoc(1);
                        (
                            taken.expect("it is there").epoch.0,
                            client.expect("the database is open"),
                            start.expect("the database is open").incarnation,
                        )
                    };
                    (0..25).map(take).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let distinct = |number: fn(&(u64, u64, u64)) -> u64| {
        numbers.iter().map(number).collect::<BTreeSet<_>>().len()
    };
    assert_eq!([distinct(|it| it.0), distinct(|it| it.1), distinct(|it| it.2)], [100; 3]);
}

/// A store that cannot be reached at some calls.
#[derive(Debug)]
struct AwayStore(LocalStore);

impl Store for AwayStore {
    fn get(&self, key: &str) -> Result<Option<Versioned>, StoreError> {
        self.0.get(key)
    }

    fn list(&self, _: &str) -> Result<Vec<(String, Versioned)>, StoreError> {
        Err(StoreError::Unavailable("as the test says".to_owned()))
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<bool, StoreError> {
        if writes.iter().any(|write| write.key.starts_with("range/")) {
            return Err(StoreError::Unavailable("as the test says".to_owned()));
        }
        self.0.commit(compares, writes)
    }
}

#[test]
fn a_store_that_is_away_is_reported() {
    let db = db(&device::memory());
    let store = AwayStore(LocalStore::open(db.clone()).expect("memory takes it"));
    let opened = Coordinator::open(Arc::new(store), &Environment::seeded(1));
    let away = opened.expect("the record of the cluster is written");
    let made = away.create_keyspace("users", b"", &[]);
    assert!(matches!(made, Err(Error::Store(_))), "{made:?}");
    assert!(matches!(away.ranges(), Err(Error::Store(_))));
    assert_eq!(away.keyspace("users"), Err(Error::NoKeyspace("users".to_owned())));
}

#[test]
fn a_damaged_record_is_named() {
    let db = db(&device::memory());
    let coordinator = coordinator(&db);
    coordinator.create_keyspace("users", b"", &[]).expect("it is new");
    let store = LocalStore::open(db.clone()).expect("memory takes it");
    for bytes in [&b""[..], b"\x01", b"\x02abc", &[1; 40]] {
        store.commit(&[], &[Write::put("range/00000001", bytes.to_vec())]).expect("it is open");
        let range = coordinator.range(RangeId(1));
        let named = matches!(&range, Err(Error::Damaged { key, .. }) if key == "range/00000001");
        assert!(named, "{range:?}");
    }
}
