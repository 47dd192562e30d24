//! The journal follows its setting: the size of its segments, and when it is trimmed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use device::{Device, Mode};
use thermocline::{Db, EngineKind, Environment, KeyspaceOptions, Options};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn open(device: &Arc<dyn Device>, journal_bytes: u64) -> Db {
    let options = Options { memory_bytes: 64 * MIB, journal_bytes, ..Options::default() };
    Db::open_on(Arc::clone(device), "db", options).unwrap()
}

/// The segments and their lengths, oldest first.
fn segments(device: &dyn Device) -> Vec<(String, u64)> {
    if !device.exists("journal").unwrap() {
        return Vec::new();
    }
    let names = device.list("journal").unwrap().into_iter().map(|entry| entry.name);
    let names = names.filter(|name| name.ends_with(".journal"));
    let len = |name: &str| device.open(&format!("journal/{name}"), Mode::Read).unwrap().len();
    names.map(|name| (name.clone(), len(&name).unwrap())).collect()
}

/// Writes records of about a KiB, of this number of bytes in all. Returns the lengths of the segments that
/// were begun meanwhile and are there, but for the newest.
fn written(device: &Arc<dyn Device>, journal_bytes: u64, bytes: u64) -> Vec<u64> {
    let before = segments(&**device).last().map(|(name, _)| name.clone()).unwrap_or_default();
    let db = open(device, journal_bytes);
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    for key in 0..bytes / KIB {
        keyspace.put(&key.to_be_bytes(), &[7; 1000]).unwrap();
    }
    let mut all = segments(&**device);
    all.retain(|(name, _)| *name > before);
    all.pop();
    all.into_iter().map(|(_, bytes)| bytes).collect()
}

#[test]
fn segments_have_a_quarter_of_the_setting() {
    for (setting, most) in [(MIB, 256 * KIB), (4 * MIB, MIB), (8 * MIB, 2 * MIB)] {
        let device = device::memory();
        // Not enough for a flush, so that nothing is trimmed.
        let lengths = written(&device, setting, setting * 3 / 4);
        assert!(lengths.len() >= 2, "{setting}: {lengths:?}");
        // The record that fills a segment is within it.
        let is_right = |bytes: &u64| (most..most + 2 * KIB).contains(bytes);
        assert!(lengths.iter().all(is_right), "{setting}: {lengths:?}");
        // Another setting holds for new segments.
        let lengths = written(&device, setting / 8, 3 * MIB);
        let most = (setting / 32).max(64 * KIB);
        assert!(lengths.iter().all(|bytes| *bytes < most + 2 * KIB), "{setting}: {lengths:?}");
    }
}

#[test]
fn segments_are_neither_tiny_nor_huge() {
    let device = device::memory();
    let lengths = written(&device, 1, 3 * MIB);
    assert!(lengths.iter().all(|bytes| *bytes < 66 * KIB), "{lengths:?}");
    assert_eq!(written(&device, 1 << 40, 3 * MIB), [], "they are in one segment");
}

#[test]
fn a_record_that_is_longer_than_a_segment_is_kept() {
    let device = device::memory();
    let value = vec![7; 3 << 20];
    for round in 0..3_u32 {
        let db = open(&device, 64 * KIB);
        let options = KeyspaceOptions { engine: EngineKind::FlexDb, ..Default::default() };
        let (long, short) =
            (db.keyspace("long", Default::default()), db.keyspace("short", options));
        let (long, short) = (long.unwrap(), short.unwrap());
        for key in 0..round {
            assert_eq!(long.get(&key.to_be_bytes()).unwrap().as_ref(), Some(&value));
            assert!(short.get(&key.to_be_bytes()).unwrap().is_some());
        }
        short.put(&round.to_be_bytes(), b"v").unwrap();
        long.put(&round.to_be_bytes(), &value).unwrap();
        short.put(&round.to_be_bytes(), b"w").unwrap();
    }
}

/// The clock stands still, so that no periodic task runs: the writes themselves have the journal trimmed.
#[test]
fn a_journal_that_grows_is_trimmed_without_the_clock() {
    let (environment, _clock) = Environment::simulated(1);
    let options = Options {
        memory_bytes: 64 * MIB,
        journal_bytes: MIB,
        environment,
        balance_memory: false,
        ..Options::default()
    };
    let device = device::memory();
    let db = Db::open_on(Arc::clone(&device), "db", options).unwrap();
    let keyspace = db.keyspace("a", KeyspaceOptions::default()).unwrap();
    for key in 0..20_000_u32 {
        keyspace.put(&(key % 100).to_be_bytes(), &[7; 1000]).unwrap();
    }
    let real = Environment::real();
    let deadline = real.now() + Duration::from_secs(60);
    // One more write looks again, after the last task.
    while db.stats().journal.bytes > MIB + 256 * KIB {
        assert!(real.now() < deadline, "it is not trimmed: {:?}", db.stats().journal);
        real.sleep(Duration::from_millis(5));
        (0..300_u32).for_each(|key| assert!(keyspace.put(&key.to_be_bytes(), &[7; 1000]).is_ok()));
    }
    let written = db.stats().journal.payload_bytes;
    assert!(written > 19 * MIB, "{written}");
    let first = &segments(&*device)[0].0;
    assert!(*first > format!("{:020}", 20), "{first} is the oldest segment");
}
