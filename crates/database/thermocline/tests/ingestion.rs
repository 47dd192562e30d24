//! Ingestion into a database: the engines that have it, and the pairs that snapshots, transactions,
//! copies and clears see of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use device::{Device, RoomDevice};
use thermocline::{
    Backups, Db, Durability, EngineKind, Environment, Error, KeyRange, Keyspace, KeyspaceOptions,
    Options, Progress,
};

fn options() -> Options {
    let (environment, _clock) = Environment::simulated(1);
    Options { environment, memory_bytes: 64 << 20, sync_interval: None, ..Options::default() }
}

fn open(device: Arc<dyn Device>) -> Db {
    Db::open_on(device, "memory", options()).unwrap()
}

fn keyspace(db: &Db, engine: EngineKind, journaled: bool) -> Keyspace {
    let options = KeyspaceOptions { engine, journaled, ..KeyspaceOptions::default() };
    db.keyspace(&format!("{engine}-{journaled}"), options).unwrap()
}

fn lsm(db: &Db) -> Keyspace {
    keyspace(db, EngineKind::Lsm, true)
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

fn pairs(numbers: std::ops::Range<u64>, value: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    numbers.map(|number| (key(number), value.as_bytes().to_vec())).collect()
}

fn content(space: &Keyspace) -> Vec<(Vec<u8>, Vec<u8>)> {
    space.scan(KeyRange::all()).unwrap().map(|pair| pair.unwrap()).collect()
}

#[test]
fn engines_that_cannot_say_so() {
    let db = open(device::memory());
    for engine in [EngineKind::Memory, EngineKind::F2, EngineKind::FlexDb] {
        let space = keyspace(&db, engine, true);
        let refused = space.ingest(pairs(0..3, "v")).unwrap_err();
        let name = engine.name();
        assert_eq!(refused, Error::Engine(engine::Error::NoIngestion { engine: name }));
        space.put(b"k", b"v").unwrap();
    }
    let space = lsm(&db);
    let unsorted = [("b", "1"), ("a", "2")];
    let refused = space.ingest(unsorted).unwrap_err();
    let (key, before) = (b"a".to_vec(), b"b".to_vec());
    assert_eq!(refused, Error::Engine(engine::Error::NotAscending { key, before }));
    assert_eq!(content(&space), []);
    let last = db.last();
    assert_eq!(space.ingest::<&str, &str>([]).unwrap(), last);
    assert!(space.put(b"k", b"v").unwrap() > last);
}

#[test]
fn it_is_there_for_those_who_come_later_and_after_every_opening() {
    for journaled in [true, false] {
        let device = device::memory();
        let db = open(Arc::clone(&device));
        let space = keyspace(&db, EngineKind::Lsm, journaled);
        let other = keyspace(&db, EngineKind::Memory, true);
        for (key, value) in pairs(0..50, "old") {
            space.put(&key, &value).unwrap();
        }
        let snapshot = db.snapshot().unwrap();
        let mut ingestion = space.ingestion().unwrap();
        for (key, value) in pairs(20..500, "new") {
            ingestion.push(&key, &value).unwrap();
        }
        space.put(&key(30), b"meanwhile").unwrap();
        let number = ingestion.commit().unwrap();
        assert_eq!(number, db.last());
        assert!(other.put(b"k", b"v").unwrap() > number);
        space.put(&key(40), b"later").unwrap();
        let mut expected = [pairs(0..20, "old"), pairs(20..500, "new")].concat();
        expected[40].1 = b"later".to_vec();
        assert_eq!(content(&space), expected);
        let before: Vec<_> =
            snapshot.scan(&space, KeyRange::all()).unwrap().map(|pair| pair.unwrap()).collect();
        assert_eq!(before, pairs(0..50, "old"));
        space.flush().unwrap();
        let last = db.last();
        drop((snapshot, space, other));
        db.close().unwrap();
        let db = open(device);
        assert_eq!(content(&keyspace(&db, EngineKind::Lsm, journaled)), expected);
        assert!(keyspace(&db, EngineKind::Memory, true).put(b"k", b"w").unwrap() > last);
    }
}

#[test]
fn a_cleared_keyspace_stays_empty() {
    let db = open(device::memory());
    let space = lsm(&db);
    let mut ingestion = space.ingestion().unwrap();
    ingestion.push(b"a", b"1").unwrap();
    space.clear().unwrap();
    let name = space.name().to_owned();
    assert_eq!(ingestion.commit(), Err(Error::Cleared { name }));
    assert_eq!(content(&space), []);
    space.ingest([("a", "2")]).unwrap();
    assert_eq!(content(&space), [(b"a".to_vec(), b"2".to_vec())]);
}

/// Each round ingests pairs, and the next write, to a keyspace that is copied earlier, names them:
/// a copy has the ingested pairs, or it has nothing later.
#[test]
fn a_backup_beside_ingestions_is_of_one_moment() {
    let db = open(device::memory());
    let (first, second) = (keyspace(&db, EngineKind::FlexDb, true), lsm(&db));
    assert!(first.name() < second.name(), "copied in this order");
    let backups = Backups::open_on(device::memory(), "backups").unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round: u64 = 0;
            while !ended.load(SeqCst) {
                round += 1;
                let value = round.to_string();
                second.put(&key(5), value.as_bytes()).unwrap();
                second.ingest(pairs(0..20, &value)).unwrap();
                second.put(&key(30), value.as_bytes()).unwrap();
                first.put(b"round", value.as_bytes()).unwrap();
            }
        });
        for _ in 0..20 {
            db.backup(&backups, &Progress::default()).unwrap();
        }
        ended.store(true, SeqCst);
    });
    for number in 1..=20 {
        let copy = device::memory();
        backups.restore_on(Some(number), &copy, "copy", &Progress::default()).unwrap();
        let db = open(copy);
        let round = keyspace(&db, EngineKind::FlexDb, true).get(b"round").unwrap();
        let round: u64 = round.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap());
        let space = lsm(&db);
        let of = |number| -> u64 {
            let value = space.get(&key(number)).unwrap();
            value.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap())
        };
        let (ingested, before, after) = (of(0), of(5), of(30));
        assert!(
            round <= after && after <= ingested && ingested <= before && before <= round + 1,
            "backup {number}: round {round}, after {after}, ingested {ingested}, before {before}"
        );
        assert!((7..20).all(|number| of(number) == ingested), "backup {number} has a part");
    }
}

/// Writers of other keyspaces continue meanwhile, and readers see all or nothing.
#[test]
fn readers_beside_it_see_all_or_nothing() {
    let db = open(device::memory()).durability(Durability::Buffered);
    let (space, other) = (lsm(&db), keyspace(&db, EngineKind::Memory, true));
    let (ended, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !ended.load(SeqCst) {
                let number = written.load(SeqCst);
                other.put(&number.to_be_bytes(), b"v").unwrap();
                space.put(&key(1000 + number % 50), b"v").unwrap();
                written.fetch_add(1, SeqCst);
            }
        });
        let reader = scope.spawn(|| {
            let mut newest = 0;
            while !ended.load(SeqCst) {
                let scan = space.scan(KeyRange::of(key(0)..key(1000))).unwrap();
                let rounds: Vec<u64> = scan
                    .map(|pair| String::from_utf8(pair.unwrap().1).unwrap().parse().unwrap())
                    .collect();
                assert!(rounds.is_empty() || rounds.len() == 300, "{} pairs", rounds.len());
                assert!(rounds.iter().all(|round| *round == rounds[0] && *round >= newest));
                newest = rounds.first().copied().unwrap_or(newest);
                let got = space.get(&key(7)).unwrap();
                let got = got.map_or(0, |text| String::from_utf8(text).unwrap().parse().unwrap());
                assert!(got >= newest, "{got} after {newest}");
                newest = got;
            }
        });
        for round in 1..=30_u64 {
            space.ingest(pairs(0..300, &round.to_string())).unwrap();
            // Some writes come in between, however busy the machine is.
            while round == 15 && written.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
        }
        ended.store(true, SeqCst);
        reader.join().unwrap();
        writer.join().unwrap();
    });
    assert_eq!(space.get(&key(0)).unwrap().as_deref(), Some(&b"30"[..]));
}

/// A device that has too little room for an ingestion, in whichever step, refuses that ingestion
/// and nothing else.
#[test]
fn an_ingestion_without_room_costs_itself_alone() {
    const BLOCK_BYTES: u64 = 4096;
    const PAIRS: u64 = 5000;
    let mut refused = 0;
    for blocks in 0.. {
        let device = RoomDevice::new(device::memory(), 1 << 30).unwrap();
        let db = open(device.clone());
        let space = lsm(&db);
        // In memory yet, so that it has to be flushed.
        space.put(&key(0), b"old").unwrap();
        device.fill();
        device.grow(blocks * BLOCK_BYTES);
        let ingested = space.ingest(pairs(0..PAIRS, "new"));
        assert_eq!(db.failure(), None, "{blocks} blocks: {ingested:?}");
        if let Err(error) = &ingested {
            assert!(error.is_no_space(), "{blocks} blocks: {error}");
            assert_eq!(content(&space), pairs(0..1, "old"), "{blocks} blocks");
        }
        device.grow(64 << 20);
        if ingested.is_err() {
            space.ingest(pairs(0..PAIRS, "new")).unwrap();
            refused += 1;
        }
        assert_eq!(content(&space), pairs(0..PAIRS, "new"));
        space.put(&key(PAIRS), b"new").unwrap();
        let name = space.name().to_owned();
        db.close().unwrap();
        let db = open(device);
        assert_eq!(content(&db.existing_keyspace(&name).unwrap()), pairs(0..PAIRS + 1, "new"));
        if ingested.is_ok() {
            break;
        }
    }
    assert!(refused > 3, "{refused} were refused");
}
