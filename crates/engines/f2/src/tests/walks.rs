//! Walks next to truncations: a walk meets a record that moves between two of its reads.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use device::{Device, FaultDevice, OperationKind};
use engine::Engine;

use super::stores::{Bench, fill, key, tiny, two_of_a_chain, value};
use super::two_logs::small_cold;
use crate::Options;

/// Walks over two keys of one chain on disk; the older key is at the chain's end. Before the walk
/// has the newer key's record, `meanwhile` is done, and the log is truncated beyond both records.
/// Returns the values of the older key that the walk has met.
fn walk_past(options: Options, meanwhile: fn(&Bench, &[u8])) -> Vec<Vec<u8>> {
    let device = FaultDevice::new(device::memory());
    let bench = Bench::open_on(Arc::clone(&device) as Arc<dyn Device>, options);
    let bench = Arc::new(bench);
    let (older, newer) = two_of_a_chain(&bench);
    let (older, newer) = (key(older), key(newer));
    bench.put(&older, &value(1, 0, 8));
    bench.put(&newer, &value(2, 0, 8));
    let log = Arc::clone(&bench.store.shared.hot.log);
    let tail = log.tail();
    fill(&bench, &|| log.head() > tail);
    assert!(log.begin() < tail, "both are on disk still");
    let was_truncated = Arc::new(AtomicBool::new(false));
    let beside = (Arc::clone(&bench), older.clone(), Arc::clone(&was_truncated));
    device.interpose(OperationKind::Read, move || {
        let (bench, older, was_truncated) = beside;
        assert!(bench.store.shared.hot.log.begin() < tail, "nothing has moved yet");
        meanwhile(&bench, &older);
        fill(&bench, &|| bench.store.shared.hot.log.begin() > tail);
        was_truncated.store(true, SeqCst);
    });
    let mut met = Vec::new();
    let walked = bench.store.walk(Some(&older), &mut |key, value| {
        if key == older {
            met.push(value.to_vec());
        }
        ControlFlow::Continue(())
    });
    walked.expect("the walk is made");
    assert!(was_truncated.load(SeqCst), "the walk has read what is on disk");
    met
}

/// Compaction does not copy the older record, because a newer record of its key is above the part
/// that the walk has searched.
#[test]
fn a_walk_meets_what_was_left_behind_for_a_newer_record() {
    let rewrite = |bench: &Bench, older: &[u8]| bench.put(older, &value(1, 1, 8));
    let options = Options { read_cache_bytes: Some(0), ..small_cold() };
    assert_eq!(walk_past(options, rewrite), [value(1, 1, 8)]);
}

/// Compaction copies the older record to the tail of the same log, behind the walk.
#[test]
fn a_walk_over_a_single_log_meets_what_was_copied_to_its_tail() {
    let options = Options { read_cache_bytes: Some(0), single_log: true, ..small_cold() };
    assert_eq!(walk_past(options, |_, _| ()), [value(1, 0, 8)]);
}

/// Makes a store with `keys` values of `words` words each. With two logs most of them are in the
/// cold log.
fn filled(keys: u64, words: usize, options: Options) -> Bench {
    let has_cold_log = !options.single_log;
    let bench = Bench::open_by_hand(device::memory(), options, 7);
    for number in 0..keys {
        bench.put(&key(number), &value(number, 0, words));
        if number % 10 == 0 && has_cold_log {
            bench.advance();
        }
    }
    bench
}

/// A walk does not keep values for which it has no room until it visits them. It counts the memory
/// of the values that it keeps.
#[test]
fn a_walk_over_long_values_holds_few_of_them() {
    const KEYS: u64 = 600;
    const WORDS: usize = 256;
    /// The most memory: the room for keys and values, and a value that is looked up again.
    const MOST: u64 = (64 << 10) + 3 * 8 * WORDS as u64;
    for single_log in [false, true] {
        let options = Options {
            log_memory_bytes: Some(8 << 14),
            page_bytes: Some(1 << 14),
            segment_bytes: 1 << 16,
            // A single log is not compacted here.
            disk_bytes_max: (!single_log).then_some(1 << 18),
            read_cache_bytes: Some(0),
            chunk_bytes: 64,
            single_log,
            ..tiny()
        };
        let bench = filled(KEYS, WORDS, options);
        bench.delete(&key(3));
        let before = bench.memory.used();
        let mut most = 0;
        let mut met = vec![0; KEYS as usize];
        let walked = bench.store.walk(None, &mut |found, of_it| {
            let number = (0..KEYS).find(|number| key(*number) == found).expect("one of ours");
            assert_eq!(of_it, value(number, 0, WORDS), "{number}");
            met[number as usize] += 1;
            most = most.max(bench.memory.used() - before);
            ControlFlow::Continue(())
        });
        walked.expect("the walk is made");
        assert!(met.iter().enumerate().all(|(at, count)| *count == i32::from(at != 3)), "{met:?}");
        assert!((1..=MOST).contains(&most), "{most} bytes were held, single log: {single_log}");
        assert_eq!(bench.memory.used(), before, "all is given back");
        let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
        bench.must_get_many(&keys);
    }
}

/// Records of a stretch are read together, in the order of the log; records near each other take
/// one read.
#[test]
fn a_walk_over_records_on_disk_takes_few_reads() {
    const KEYS: u64 = 4000;
    for single_log in [false, true] {
        let options = Options {
            log_memory_bytes: Some(8 << 16),
            page_bytes: Some(1 << 16),
            segment_bytes: 1 << 18,
            disk_bytes_max: None,
            read_cache_bytes: Some(0),
            single_log,
            ..tiny()
        };
        let bench = Bench::open_by_hand(device::memory(), options, 7);
        (0..KEYS).for_each(|number| bench.put(&key(number), &value(number, 0, 64)));
        let reads = || bench.store.shared.host.device.accounting().counts().read_ops;
        let (before, mut met) = (reads(), 0);
        let walked = bench.store.walk(None, &mut |_, _| {
            met += 1;
            ControlFlow::Continue(())
        });
        walked.expect("the walk is made");
        let count = reads() - before;
        assert_eq!(met, KEYS);
        assert!(count > 0, "nothing is on disk");
        assert!(count < KEYS / 2, "{count} reads for {KEYS} keys, single log: {single_log}");
    }
}

/// A walk reads a long record once or twice, and little else.
#[test]
fn a_walk_over_long_records_reads_little_more_than_these() {
    const KEYS: u64 = 4000;
    const WORDS: usize = 375;
    for single_log in [false, true] {
        let options = Options {
            log_memory_bytes: Some(8 << 16),
            page_bytes: Some(1 << 16),
            segment_bytes: 1 << 18,
            // A single log is not compacted here.
            disk_bytes_max: (!single_log).then_some(1 << 20),
            read_cache_bytes: Some(0),
            single_log,
            ..tiny()
        };
        let bench = filled(KEYS, WORDS, options);
        let counts = || bench.store.shared.host.device.accounting().counts();
        let (before, mut met) = (counts(), 0);
        let walked = bench.store.walk(None, &mut |_, _| {
            met += 1;
            ControlFlow::Continue(())
        });
        walked.expect("the walk is made");
        let after = counts();
        assert_eq!(met, KEYS);
        let times =
            (after.read_bytes - before.read_bytes) as f64 / (KEYS * 8 * WORDS as u64) as f64;
        assert!(times < 4.5, "{times:.2} times the data, single log: {single_log}");
    }
}
