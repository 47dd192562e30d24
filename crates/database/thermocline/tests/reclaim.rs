//! Space of deletes is freed without a flush by the user; and the calls for ranges: compaction,
//! sizes, seeks.

use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use thermocline::{
    Db, Durability, EngineKind, Environment, Error, KeyRange, Keyspace, KeyspaceOptions, Options,
};

const VALUES: u32 = 200;
const VALUE_BYTES: usize = 20_000;
/// Values of which many are in one block or interval.
const SHORT_VALUES: u32 = 20 * VALUES;
const SHORT_VALUE_BYTES: usize = VALUE_BYTES / 20;
/// A wait ends with an error after this time, if its condition is never met.
const WAIT_MAX: Duration = Duration::from_secs(120);

fn options() -> Options {
    Options { memory_bytes: 64 << 20, ..Options::default() }
}

fn open(dir: &Path, engine: EngineKind) -> (Db, Keyspace) {
    let db = Db::open(dir, options()).expect("it opens");
    let options = KeyspaceOptions { engine, ..KeyspaceOptions::default() };
    let keyspace = db.keyspace("data", options).expect("it is made");
    (db, keyspace.durability(Durability::Buffered))
}

/// Bytes that do not compress.
fn noise(seed: u32) -> Vec<u8> {
    noise_of(seed, VALUE_BYTES)
}

fn noise_of(seed: u32, bytes: usize) -> Vec<u8> {
    let word = |part: u32| codec::hash64(u64::from(seed), &part.to_le_bytes()).to_le_bytes();
    (0..bytes as u32 / 8).flat_map(word).collect()
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Bytes of the device that all files in a directory take, but for the room that `flexdb` keeps for
/// a full device.
fn bytes_of(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let entries = entries.filter(|entry| entry.file_name() != "ballast");
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    bytes.sum()
}

fn keyspaces(dir: &Path) -> u64 {
    bytes_of(&dir.join("keyspaces"))
}

fn wait_until(what: &str, mut is_met: impl FnMut() -> bool) {
    let clock = Environment::real();
    let begun = clock.now();
    while !is_met() {
        assert!((clock.now() - begun) < WAIT_MAX, "{what}");
        clock.sleep(Duration::from_millis(20));
    }
}

fn load(db: &Db, keyspace: &Keyspace, dir: &Path) -> u64 {
    load_of(db, keyspace, dir, (VALUES, VALUE_BYTES))
}

fn load_of(db: &Db, keyspace: &Keyspace, dir: &Path, (values, length): (u32, usize)) -> u64 {
    (0..values).for_each(|number| {
        keyspace.put(&key(number), &noise_of(number, length)).expect("put");
    });
    db.flush().expect("it flushes");
    let bytes = keyspaces(dir);
    assert!(bytes > u64::from(values) * length as u64);
    bytes
}

fn delete_all(keyspace: &Keyspace) {
    delete_below(keyspace, VALUES);
}

fn delete_below(keyspace: &Keyspace, values: u32) {
    (0..values).for_each(|number| _ = keyspace.delete(&key(number)).expect("deleted"));
}

fn ordered() -> impl Iterator<Item = EngineKind> {
    EngineKind::ALL.iter().copied().filter(|engine| engine.is_ordered())
}

#[test]
fn deleted_values_leave_the_device_by_themselves() {
    for engine in ordered() {
        let dir = tempfile::tempdir().expect("a directory");
        let (db, keyspace) = open(dir.path(), engine);
        let full = load(&db, &keyspace, dir.path());
        delete_all(&keyspace);
        let is_small = || keyspaces(dir.path()) < full / 4;
        wait_until(&format!("{engine} keeps what was deleted"), is_small);
        assert_eq!(keyspace.scan(KeyRange::all()).expect("ordered").count(), 0);
        db.close().expect("it closes");
    }
}

/// The engine has no values in memory when it reads the deletes from the journal.
#[test]
fn deleted_values_leave_the_device_after_an_opening() {
    for engine in ordered() {
        for values in [(VALUES, VALUE_BYTES), (SHORT_VALUES, SHORT_VALUE_BYTES)] {
            let dir = tempfile::tempdir().expect("a directory");
            let (db, keyspace) = open(dir.path(), engine);
            let full = load_of(&db, &keyspace, dir.path(), values);
            delete_below(&keyspace, values.0);
            db.close().expect("it closes");
            let (db, keyspace) = open(dir.path(), engine);
            let is_small = || keyspaces(dir.path()) < full / 4;
            wait_until(&format!("{engine} keeps deleted values, {values:?}"), is_small);
            assert_eq!(keyspace.scan(KeyRange::all()).expect("ordered").count(), 0);
            db.close().expect("it closes");
        }
    }
}

/// A keyspace in memory without a flush: the journal holds every value that was ever put.
#[test]
fn a_journal_of_deleted_values_is_trimmed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, keyspace) = open(dir.path(), EngineKind::Memory);
    let (other, options) =
        ("other", KeyspaceOptions { engine: EngineKind::Lsm, ..Default::default() });
    let other = db.keyspace(other, options).expect("it is made");
    other.put(b"key", b"not flushed either").expect("put");
    for round in 0..20 {
        for number in 0..VALUES / 2 {
            keyspace.put(&key(number), &noise(round)).expect("put");
        }
    }
    delete_all(&keyspace);
    db.sync().expect("synced");
    let journal = dir.path().join("journal");
    assert!(bytes_of(&journal) > 32 << 20);
    wait_until("the journal stays", || bytes_of(&journal) < 1 << 20);
    assert_eq!(other.get(b"key").expect("it reads").as_deref(), Some(&b"not flushed either"[..]));
    db.close().expect("it closes");
}

/// The names of the journal's segments.
fn segments(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("journal")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".journal")).collect()
}

/// A renewal removes all segments that the journal has, however short they are. Writes continue.
#[test]
fn a_renewed_journal_has_no_earlier_segment() {
    let dir = tempfile::tempdir().expect("there is room");
    let (db, data) = open(dir.path(), EngineKind::Lsm);
    data.put(b"first", b"1").expect("it is open");
    for _ in 0..3 {
        let before = segments(dir.path());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (0..2_000_u32).for_each(|number| {
                    data.put(&key(number), b"value").expect("it is open");
                });
            });
            db.renew_journal().expect("it is open");
            let after = segments(dir.path());
            assert!(after.iter().all(|name| !before.contains(name)), "{before:?}, {after:?}");
            writer.join().expect("it does not panic");
        });
    }
    db.close().expect("it is open");
    assert_eq!(db.renew_journal(), Err(Error::Closed));
    drop((data, db));
    let (_db, data) = open(dir.path(), EngineKind::Lsm);
    assert_eq!(data.get(b"first").expect("it is open").as_deref(), Some(&b"1"[..]));
    let values = (0..2_000).map(|number| data.get(&key(number)).expect("it is open"));
    assert_eq!(values.flatten().count(), 2_000);
}

#[test]
fn a_compaction_leaves_nothing_that_was_deleted_or_overwritten() {
    for engine in ordered() {
        let dir = tempfile::tempdir().expect("a directory");
        let (db, keyspace) = open(dir.path(), engine);
        let full = load(&db, &keyspace, dir.path());
        let size = |range: &KeyRange| keyspace.approximate_bytes(range).expect("a size");
        let half = KeyRange::of(key(VALUES / 2)..);
        let (all, upper) = (size(&KeyRange::all()), size(&half));
        assert!(all >= u64::from(VALUES) * VALUE_BYTES as u64 && all <= full, "{engine}: {all}");
        assert!((all * 4 / 10..=all * 6 / 10).contains(&upper), "{engine}: {upper} of {all}");
        assert_eq!(size(&KeyRange::of(key(9)..key(3))), 0, "{engine}: no key lies in it");
        for number in 0..VALUES / 2 {
            keyspace.put(&key(number), b"short").expect("put");
        }
        keyspace.compact_range(&KeyRange::of(..key(VALUES / 2))).expect("it compacts");
        let left = keyspaces(dir.path());
        assert!(left < full * 3 / 4, "{engine}: {left} of {full} after half was overwritten");
        delete_all(&keyspace);
        keyspace.put(b"kept", b"value").expect("put");
        keyspace.compact_range(&KeyRange::all()).expect("it compacts");
        let left = keyspaces(dir.path());
        assert!(left < full / 5, "{engine}: {left} of {full} after all was deleted");
        assert_eq!(keyspace.scan(KeyRange::all()).expect("ordered").count(), 1);
        db.close().expect("it closes");
    }
}

/// `f2` compacts and measures itself as a whole; a part of its keys is refused by name.
#[test]
fn an_engine_without_order_takes_only_all_keys() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, keyspace) = open(dir.path(), EngineKind::F2);
    keyspace.put(b"key", b"value").expect("put");
    keyspace.compact_range(&KeyRange::all()).expect("it compacts");
    assert!(keyspace.approximate_bytes(&KeyRange::all()).expect("a size") > 0);
    let part = KeyRange::prefix(b"k");
    for refused in [keyspace.compact_range(&part), keyspace.approximate_bytes(&part).map(drop)] {
        let error = refused.expect_err("a part of the keys");
        assert!(matches!(error, Error::Engine(engine::Error::Unordered { .. })), "{error:?}");
        assert!(error.to_string().contains("engine f2") && error.to_string().contains("whole"));
    }
    assert_eq!(keyspace.get(b"key").expect("it reads").as_deref(), Some(&b"value"[..]));
    assert_eq!(db.failure(), None);
    db.close().expect("it closes");
}

#[test]
fn contains_key_says_what_get_finds() {
    for &engine in EngineKind::ALL {
        let dir = tempfile::tempdir().expect("a directory");
        let (db, keyspace) = open(dir.path(), engine);
        keyspace.put(b"empty", b"").expect("put");
        keyspace.put(b"gone", b"value").expect("put");
        keyspace.delete(b"gone").expect("deleted");
        let has = |key: &[u8]| keyspace.contains_key(key).expect("it reads");
        assert_eq!([has(b"empty"), has(b"gone"), has(b"never")], [true, false, false]);
        db.close().expect("it closes");
    }
}

/// Seeks in any order, in scans both ways over a snapshot, against a list.
#[test]
fn a_seek_moves_a_scan_within_its_range_and_moment() {
    use thermocline::Direction::{Backward, Forward};
    for engine in ordered() {
        for expiring in [false, true] {
            let dir = tempfile::tempdir().expect("a directory");
            let db = Db::open(dir.path(), options()).expect("it opens");
            let made = KeyspaceOptions { engine, expiring, ..KeyspaceOptions::default() };
            let keyspace = db.keyspace("data", made).expect("it is made");
            let keyspace = keyspace.durability(Durability::Buffered);
            for number in 0..2_000 {
                keyspace.put(&key(number * 2), &[0; 50]).expect("put");
                if number == 1_000 {
                    keyspace.flush().expect("it flushes");
                }
            }
            for number in (0..2_000).step_by(3) {
                keyspace.delete(&key(number * 2)).expect("deleted");
            }
            let there: Vec<u32> = (0..2_000).filter(|it| it % 3 > 0).map(|it| it * 2).collect();
            let (low, high) = (101, 3_901);
            let range = KeyRange {
                start: Bound::Excluded(key(low).to_vec()),
                end: Bound::Included(key(high).to_vec()),
            };
            let in_range: Vec<u32> =
                there.into_iter().filter(|it| *it > low && *it <= high).collect();
            let snapshot = db.snapshot().expect("a snapshot");
            for direction in [Forward, Backward] {
                let mut scan =
                    snapshot.scan_in(&keyspace, range.clone(), direction).expect("ordered");
                for number in 0..2_000 {
                    keyspace.put(&key(number * 2), b"later").expect("put");
                }
                let mut at = 7_u32;
                for round in 0..300 {
                    at = (at * 2_477 + 13) % 4_100;
                    let mut wanted: Vec<u32> = match direction {
                        Forward => in_range.iter().copied().filter(|it| *it >= at).collect(),
                        Backward => in_range.iter().rev().copied().filter(|it| *it <= at).collect(),
                    };
                    wanted.truncate(round % 5);
                    scan.seek(&key(at));
                    let mut found = Vec::new();
                    for _ in 0..round % 5 {
                        let Some((key, value)) = scan.next_ref().expect("it reads") else { break };
                        assert_eq!(value, [0; 50], "the moment of the snapshot");
                        found.push(u32::from_be_bytes(key.try_into().expect("four bytes")));
                    }
                    assert_eq!(found, wanted, "{engine} {direction:?} from {at}");
                }
                scan.seek(&key(u32::MAX));
                if direction == Forward {
                    assert_eq!(scan.next_ref().expect("it reads"), None);
                    scan.seek(&key(0));
                    let first = scan.next_ref().expect("it reads").map(|(key, _)| key.to_vec());
                    assert_eq!(first, Some(key(in_range[0]).to_vec()), "it goes on after its end");
                }
            }
            drop(snapshot);
            db.close().expect("it closes");
        }
    }
}

/// A transaction sees its own writes after a seek, and has read all up to the furthest key that a
/// scan returned.
#[test]
fn a_seek_in_a_transaction_shows_its_writes_and_reads_what_it_skips() {
    let dir = tempfile::tempdir().expect("a directory");
    let (db, keyspace) = open(dir.path(), EngineKind::Lsm);
    (0..100).for_each(|number| _ = keyspace.put(&key(number), b"old").expect("put"));
    let number_of = |pair: Option<thermocline::Result<(Vec<u8>, Vec<u8>)>>| {
        let (key, value) = pair?.expect("it reads");
        Some((u32::from_be_bytes(key.try_into().expect("four bytes")), value))
    };
    for reads_to in [20, 60] {
        let transaction = db.begin().expect("it begins");
        transaction.put(&keyspace, &key(50), b"own").expect("put");
        transaction.delete(&keyspace, &key(51)).expect("deleted");
        transaction.put(&keyspace, b"zz", b"written").expect("put");
        let mut scan = transaction.scan(&keyspace, KeyRange::of(..key(90))).expect("ordered");
        scan.seek(&key(if reads_to == 60 { 50 } else { 10 }));
        let first = number_of(scan.next());
        if reads_to == 60 {
            assert_eq!(first, Some((50, b"own".to_vec())));
            assert_eq!(number_of(scan.next()), Some((52, b"old".to_vec())));
            scan.seek(&key(95));
            assert_eq!(number_of(scan.next()), None);
            scan.seek(&key(49));
            assert_eq!(number_of(scan.next()).map(|(number, _)| number), Some(49));
            assert_eq!(number_of(scan.next()), Some((50, b"own".to_vec())));
        } else {
            assert_eq!(first, Some((10, b"old".to_vec())));
            scan.seek(&key(3));
            assert_eq!(number_of(scan.next()), Some((3, b"old".to_vec())));
        }
        drop(scan);
        // The second scan has read up to the end of its range, and the first one only up to key 10.
        keyspace.put(&key(30), b"later").expect("put");
        let committed = transaction.commit();
        match reads_to {
            20 => drop(committed.expect("what was written is behind all that was read")),
            _ => assert!(committed.expect_err("it read to the end").is_conflict()),
        }
    }
    db.close().expect("it closes");
}
