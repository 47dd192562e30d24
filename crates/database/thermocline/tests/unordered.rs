//! Keyspaces of `f2`, an engine that keeps no order: walks, refusals, copies, writes without a
//! journal, shares of the memory.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use engine::InOrder;
use tempfile::TempDir;
use thermocline::{
    Batch, Change, Db, Durability, EngineKind, Environment, Error, KeyRange, Keyspace,
    KeyspaceOptions, Options,
};

const MIB: u64 = 1 << 20;

fn hashed(journaled: bool) -> KeyspaceOptions {
    KeyspaceOptions { engine: EngineKind::F2, journaled, ..Default::default() }
}

fn open(dir: &TempDir, memory_bytes: u64) -> Db {
    let options = Options { memory_bytes, ..Options::default() };
    Db::open(dir.path(), options).unwrap()
}

/// Returns all pairs; a pair that is visited twice is a failure.
fn walked(space: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut pairs = BTreeMap::new();
    let visited = space.walk(None, |key, value| {
        assert_eq!(pairs.insert(key.to_vec(), value.to_vec()), None, "{}", key.escape_ascii());
        Continue(())
    });
    visited.unwrap();
    pairs
}

fn is_unordered<T>(outcome: Result<T, Error>, wanted: InOrder) {
    let error = outcome.err().unwrap();
    let engine::Error::Unordered { engine: "f2", asked } = engine_error(&error) else {
        panic!("{error}");
    };
    assert_eq!(*asked, wanted, "{error}");
    assert!(error.to_string().ends_with(&wanted.to_string()), "{error}");
}

fn engine_error(error: &Error) -> &engine::Error {
    let Error::Engine(error) = error else { panic!("{error}") };
    error
}

#[test]
fn what_wants_an_order_is_refused_and_the_walk_named() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir, 64 * MIB);
    let (f2, memory) = (
        db.keyspace("f2", hashed(true)).unwrap(),
        db.keyspace("memory", KeyspaceOptions::default()).unwrap(),
    );
    assert!(!f2.is_ordered() && memory.is_ordered());
    f2.put(b"k", b"v").unwrap();
    memory.put(b"k", b"v").unwrap();
    is_unordered(f2.scan(KeyRange::all()).map(drop), InOrder::Scan);
    let snapshot = db.snapshot().unwrap();
    is_unordered(snapshot.get(&f2, b"k"), InOrder::Snapshot);
    is_unordered(snapshot.scan(&f2, KeyRange::all()).map(drop), InOrder::Scan);
    is_unordered(f2.delete_range(&KeyRange::all()), InOrder::RangeDelete);
    let mut batch = Batch::new();
    batch.delete_range(&memory, &KeyRange::all()).delete_range(&f2, &KeyRange::all());
    is_unordered(db.write(&batch), InOrder::RangeDelete);
    drop(batch);
    // Nothing of it was written, and writes continue.
    assert!(f2.get(b"k").unwrap().is_some() && memory.get(b"k").unwrap().is_some());
    f2.put(b"k", b"v").unwrap();
    assert_eq!(snapshot.get(&memory, b"k").unwrap().as_deref(), Some(&b"v"[..]));
    // The snapshot holds no keyspace that it does not show.
    drop(f2);
    db.drop_keyspace("f2").unwrap();
    assert!(std::fs::read_dir(dir.path().join("keyspaces/f2")).map_or(0, Iterator::count) == 0);
}

#[test]
fn a_walk_goes_by_position_and_can_be_begun_again_at_any_key() {
    for engine in [EngineKind::F2, EngineKind::Memory] {
        let dir = TempDir::new().unwrap();
        let db = open(&dir, 64 * MIB);
        let space = db.keyspace("s", KeyspaceOptions { engine, ..Default::default() }).unwrap();
        for index in 0..3000_u32 {
            space.put(&index.to_be_bytes(), b"v").unwrap();
        }
        let mut order = Vec::new();
        space
            .walk(None, |key, _| {
                order.push((space.position(key).unwrap(), key.to_vec()));
                Continue(())
            })
            .unwrap();
        assert_eq!(order.len(), 3000);
        assert!(order.is_sorted(), "{engine}: not by position and key");
        for at in [0, 1, 777, 2999] {
            let mut rest = Vec::new();
            space
                .walk(Some(&order[at].1), |key, _| {
                    rest.push(key.to_vec());
                    if rest.len() == 100 { Break(()) } else { Continue(()) }
                })
                .unwrap();
            let wanted: Vec<_> = order[at..].iter().take(100).map(|(_, key)| key.clone()).collect();
            assert_eq!(rest, wanted, "{engine}: from {at}");
        }
        // A key that is not there has a position, too.
        space.delete(&order[777].1).unwrap();
        let mut next = None;
        space
            .walk(Some(&order[777].1), |key, _| {
                next = Some(key.to_vec());
                Break(())
            })
            .unwrap();
        assert_eq!(next.as_ref(), Some(&order[778].1));
    }
}

#[test]
fn a_checkpoint_and_a_reopening_hold_all_of_it() {
    let (dir, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let db = open(&dir, 64 * MIB);
    let space = db.keyspace("f2", hashed(true)).unwrap();
    let memory = db.keyspace("memory", KeyspaceOptions::default()).unwrap();
    for index in 0..2000_u32 {
        space.put(&index.to_be_bytes(), &index.to_le_bytes()).unwrap();
        if index == 1000 {
            space.flush().unwrap();
        }
    }
    space.delete(&7_u32.to_be_bytes()).unwrap();
    let mut batch = thermocline::Batch::new();
    batch.put(&space, b"both", b"1").put(&memory, b"both", b"1");
    db.write(&batch).unwrap();
    let all = walked(&space);
    assert_eq!(all.len(), 2000);
    db.checkpoint(copy.path()).unwrap();
    db.close().unwrap();
    for dir in [&copy, &dir] {
        assert!(thermocline::check(dir.path()).unwrap().is_whole());
        let db = open(dir, 64 * MIB);
        assert_eq!(walked(&db.existing_keyspace("f2").unwrap()), all);
        let stats = db.stats();
        assert_eq!(stats.keyspaces[0].engine.live_keys, None);
        assert_eq!(db.existing_keyspace("memory").unwrap().get(b"both").unwrap().unwrap(), b"1");
    }
}

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
}

/// Read-modify-writes of an engine that orders them itself run at the same time. But none runs next
/// to a section over the same key, nor in an engine that was closed or replaced.
#[test]
fn unjournaled_counters_lose_nothing_beside_sections_and_a_close() {
    const KEYS: [&[u8]; 2] = [b"a", b"b"];
    let dir = TempDir::new().unwrap();
    let db = open(&dir, 64 * MIB);
    let space = db.keyspace("n", hashed(false)).unwrap();
    let counted = KEYS.map(|_| AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (db, space, counted) = (&db, &space, &counted);
            scope.spawn(move || {
                for round in 0.. {
                    let at = (thread + round) % 2;
                    let done = if round % 8 == 0 {
                        db.atomically(&[(space, KEYS[at])], |section| {
                            let old = number(section.get(0)?.as_deref());
                            section.put(0, (old + 1).to_le_bytes().to_vec())
                        })
                    } else {
                        space
                            .rmw(KEYS[at], |old| {
                                Change::Put((number(old) + 1).to_le_bytes().to_vec())
                            })
                            .map(|seqno| assert!(seqno.is_some()))
                    };
                    match done {
                        Ok(()) => counted[at].fetch_add(1, SeqCst),
                        Err(error) => {
                            assert_eq!(error, Error::Closed);
                            return;
                        }
                    };
                }
            });
        }
        while counted.iter().any(|count| count.load(SeqCst) < 20_000) {
            Environment::real().sleep(Duration::from_millis(1));
        }
        db.close().unwrap();
    });
    drop((space, db));
    let db = open(&dir, 64 * MIB);
    let space = db.existing_keyspace("n").unwrap();
    for (key, count) in KEYS.iter().zip(&counted) {
        assert_eq!(number(space.get(key).unwrap().as_deref()), count.load(SeqCst));
    }
}

#[test]
fn an_unjournaled_rmw_says_what_changed_and_a_refusal_stops_nothing() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir, 64 * MIB);
    let space = db.keyspace("n", hashed(false)).unwrap();
    assert_eq!(space.rmw(b"k", |_| Change::Delete).unwrap(), None);
    assert_eq!(space.rmw(b"k", |_| Change::Keep).unwrap(), None);
    assert!(space.rmw(b"k", |_| Change::Put(b"v".to_vec())).unwrap().is_some());
    assert_eq!(space.rmw(b"k", |_| Change::Keep).unwrap(), None);
    let long = space.rmw(b"k", |_| Change::Put(vec![0; 32 << 20]));
    assert!(matches!(long, Err(Error::Engine(engine::Error::RecordTooLong { .. }))), "{long:?}");
    assert_eq!(space.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert!(space.rmw(b"k", |_| Change::Delete).unwrap().is_some());
    assert_eq!(space.get(b"k").unwrap(), None);
    assert_eq!(db.failure(), None);
}

/// Returns the memory that its log may take, after writes that fill it.
fn filled(db: &Db, space: &Keyspace) -> u64 {
    let unsynced = space.durability(Durability::Buffered);
    let mut most = 0;
    for index in 0_u64.. {
        unsynced.put(&(index % 4096).to_be_bytes(), &vec![1; 1 << 15]).unwrap();
        if index % 512 == 511 {
            let now = space
                .stats()
                .unwrap()
                .detail
                .iter()
                .find(|(name, _)| *name == "log_memory_bytes")
                .unwrap()
                .1;
            if now <= most {
                break;
            }
            most = now;
        }
    }
    let (used, limit) = db.memory_bytes();
    assert!(used <= limit, "{used} of {limit}");
    most
}

#[test]
fn keyspaces_share_the_memory_and_stay_within_it() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir, 32 * MIB);
    let spaces: Vec<_> =
        (0..4).map(|index| db.keyspace(&format!("s{index}"), hashed(true)).unwrap()).collect();
    let first: u64 = spaces.iter().map(|space| filled(&db, space)).sum();
    assert!((10 * MIB..=24 * MIB).contains(&first), "{first}");
    db.close().unwrap();
    drop((spaces, db));
    // All shares are equal now, except for the least that their pages need.
    let db = open(&dir, 32 * MIB);
    let shares: Vec<u64> = db.keyspaces().iter().map(|space| filled(&db, space)).collect();
    assert!(shares.iter().sum::<u64>() <= 24 * MIB, "{shares:?}");
    assert!(shares.iter().all(|share| *share >= MIB), "{shares:?}");
    // Nothing of it is left to keyspaces in memory, but the memory that was not dealt out.
    let memory = db.keyspace("memory", KeyspaceOptions::default()).unwrap();
    let mut written = 0;
    let refused = loop {
        match memory.put(format!("{written}").as_bytes(), &vec![0; 1 << 16]) {
            Ok(_) => written += 1 << 16,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Engine(engine::Error::OutOfMemory { .. })), "{refused}");
    assert!((4 * MIB..=8 * MIB).contains(&written), "{written}");
    // And data that was accepted opens again.
    db.close().unwrap();
    drop((memory, db));
    let db = open(&dir, 32 * MIB);
    assert_eq!(db.keyspaces().len(), 5);
}

#[test]
fn a_share_is_given_back_and_missed_with_a_clear_error() {
    let dir = TempDir::new().unwrap();
    let db = open(&dir, 8 * MIB);
    let mut made = 0;
    let refused = loop {
        match db.keyspace(&format!("s{made}"), hashed(false)) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::NoMemoryLeft { engine: EngineKind::F2, .. }), "{refused}");
    assert!(made >= 2, "{made}");
    let taken = db.memory_bytes().0;
    // Cleared, it keeps its share; dropped, it gives it back.
    db.existing_keyspace("s1").unwrap().clear().unwrap();
    assert_eq!(db.memory_bytes().0, taken);
    db.drop_keyspace("s1").unwrap();
    assert!(db.memory_bytes().0 < taken);
    db.keyspace("again", hashed(false)).unwrap();
    // Keyspaces that were made under a setting open under it, and under less only as far as pages
    // fit.
    db.close().unwrap();
    drop(db);
    drop(open(&dir, 8 * MIB));
    let roomy = open(&dir, 4096 * MIB);
    roomy.keyspace("large", hashed(false)).unwrap();
    roomy.close().unwrap();
    drop(roomy);
    let refused = Db::open(dir.path(), Options { memory_bytes: 8 * MIB, ..Options::default() });
    let Err(Error::MemoryTooSmall { needed, .. }) = refused else { panic!("{refused:?}") };
    drop(open(&dir, needed));
}

#[test]
fn a_keyspace_has_the_memory_that_it_was_made_with() {
    const WANTED: u64 = 20 * MIB;
    let dir = TempDir::new().unwrap();
    let db = open(&dir, 32 * MIB);
    let used = || db.memory_bytes().0;
    let asking = KeyspaceOptions { memory_bytes: Some(WANTED), ..hashed(true) };
    drop(db.keyspace("asks", asking).unwrap());
    let before = used();
    assert!((WANTED..WANTED + MIB).contains(&before), "{before}");
    drop(db.keyspace("later", hashed(true)).unwrap());
    let later = used() - before;
    assert!((2 * MIB..=4 * MIB).contains(&later), "{later}: a quarter of what is left");
    // More than there is: it gets the memory that is left.
    let greedy = KeyspaceOptions { memory_bytes: Some(u64::MAX), ..hashed(true) };
    drop(db.keyspace("greedy", greedy).unwrap());
    assert_eq!(used(), db.memory_bytes().1);
    db.close().unwrap();
    drop(db);
    // At the next opening it is served first, and the others get the memory that it leaves.
    let db = open(&dir, 48 * MIB);
    assert_eq!(db.existing_keyspace("asks").unwrap().options(), asking);
    let asks = filled(&db, &db.existing_keyspace("asks").unwrap());
    assert!((WANTED / 2..=WANTED).contains(&asks), "{asks}");
    db.drop_keyspace("greedy").unwrap();
    let (used, limit) = db.memory_bytes();
    assert!(used >= WANTED && used < limit, "{used} of {limit}");
}
