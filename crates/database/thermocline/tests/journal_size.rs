//! The journal follows its setting: the size of its segments, and when it is trimmed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use device::{Device, FaultDevice, Mode, OperationKind};
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
    let len = |name: &str| match device.open(&format!("journal/{name}"), Mode::Read) {
        Ok(file) => Some(file.len().unwrap()),
        // It was trimmed since.
        Err(device::Error::NotFound { .. }) => None,
        Err(error) => panic!("{error}"),
    };
    names.filter_map(|name| Some((name.clone(), len(&name)?))).collect()
}

/// Writes records of about a KiB, of this number of bytes in all. Returns the lengths of the
/// segments that were begun meanwhile and are there, but for the newest.
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
    assert_eq!(written(&device, 1 << 40, 3 * MIB), [0; 0], "they are in one segment");
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

/// The clock is stopped, so that no periodic task runs: the writes themselves have the journal
/// trimmed.
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

/// Calls `hold` in the first operation of this kind on a thread of the pool.
fn hold_a_worker(
    faulty: &Arc<FaultDevice>,
    kind: OperationKind,
    hold: impl FnOnce() + Send + 'static,
) {
    let again = Arc::clone(faulty);
    faulty.interpose_anywhere(kind, move || {
        match std::thread::current().name().is_some_and(|name| name.starts_with("worker")) {
            true => hold(),
            false => hold_a_worker(&again, kind, hold),
        }
    });
}

/// The flush that makes the journal free waits in its first operation until the writer waits, too.
#[test]
fn a_writer_waits_for_the_flush_of_a_journal_that_is_far_too_long() {
    const LEFT_ALONE_LOOKS: u32 = 200;
    // Before the first write next to the flush: other processes may hold the writer up.
    const FIRST_LOOKS: u32 = 6000;
    let faulty = FaultDevice::new(device::memory());
    let options = Options {
        memory_bytes: 64 * MIB,
        journal_bytes: MIB,
        sync_interval: None,
        balance_memory: false,
        ..Options::default()
    };
    let db = Db::open_on(Arc::clone(&faulty) as Arc<dyn Device>, "db", options).unwrap();
    let keyspace = KeyspaceOptions { engine: EngineKind::Memory, ..KeyspaceOptions::default() };
    let keyspace = db.keyspace("a", keyspace).unwrap();
    let written = Arc::new(AtomicU64::new(0));
    let (seen, (tell, told)) = (Arc::clone(&written), mpsc::channel());
    // The file of its snapshot.
    hold_a_worker(&faulty, OperationKind::Open, move || {
        let real = Environment::real();
        let began = seen.load(SeqCst);
        let (mut before, mut looks) = (began, 0);
        while looks < if before == began { FIRST_LOOKS } else { LEFT_ALONE_LOOKS } {
            real.sleep(Duration::from_millis(5));
            let now = seen.load(SeqCst);
            looks = if now == before { looks + 1 } else { 0 };
            before = now;
        }
        tell.send((began, before)).unwrap();
    });
    for key in 0..60_000_u32 {
        keyspace.put(&(key % 100).to_be_bytes(), &[7; 1000]).unwrap();
        written.fetch_add(KIB, SeqCst);
    }
    db.close().unwrap();
    // Bytes that were written when the flush began, and when the writer waited.
    let (began, waited) = told.recv().unwrap();
    assert!(waited > MIB * 3 / 2, "{waited} bytes: the flush has only just been due");
    assert!(waited < 2 * began + MIB, "{waited} bytes, {began} of them before the flush");
}
