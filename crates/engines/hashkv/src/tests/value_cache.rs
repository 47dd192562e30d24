//! Cached values: what they spare, and that none is shown in the place of another.

use std::sync::Arc;

use device::{Device, FaultDevice, OperationKind};
use engine::{Direction, Engine, KeyRange, NoJournal};
use environment::Seed;
use rand::RngExt;

use super::stores::{Bench, key, scan, small};
use crate::Options;

const KEYS: u64 = 200;

/// Returns a bench with values on the device, and its device.
fn on_device() -> (Bench, Arc<FaultDevice>) {
    let faults = FaultDevice::new(device::memory());
    let bench = Bench::on(Arc::clone(&faults) as Arc<dyn Device>).expect("an empty device opens");
    for number in 0..KEYS {
        bench.put(&key(number), &[number as u8; 500]);
        bench.crank.run_all();
    }
    bench.store.flush().expect("memory takes it");
    bench.crank.run_all();
    (bench, faults)
}

fn reads(faults: &FaultDevice) -> u64 {
    faults.count(Some(OperationKind::Read))
}

/// Reads all keys, so that the index has its blocks in memory. The cache is empty afterwards.
fn warm_index(bench: &Bench) {
    bench.store.shared.cached.fit(0);
    let pairs = scan(&bench.view(), KeyRange::all(), Direction::Forward);
    assert_eq!(pairs.len() as u64, KEYS);
    (0..KEYS).for_each(|number| assert!(bench.get(&key(number)).is_some()));
    bench.store.shared.fit_cache();
}

#[test]
fn the_second_get_of_a_value_reads_nothing() {
    let (bench, faults) = on_device();
    warm_index(&bench);
    for expected in [KEYS, 0] {
        let before = reads(&faults);
        for number in 0..KEYS {
            assert_eq!(bench.get(&key(number)), Some(vec![number as u8; 500]));
        }
        assert_eq!(reads(&faults) - before, expected);
    }
    assert_eq!(bench.detail("cached_value_hits"), KEYS);
    assert!(bench.detail("cached_value_bytes") > KEYS * 500);
    // A scan uses the cache, too.
    let before = reads(&faults);
    let pairs = scan(&bench.view(), KeyRange::all(), Direction::Forward);
    assert_eq!((pairs.len() as u64, reads(&faults)), (KEYS, before));
    bench.end_sound();
}

/// A get of a newer value than the cached one is no hit, and one at a pin leaves the newer value.
#[test]
fn the_newest_value_is_cached() {
    let (bench, faults) = on_device();
    warm_index(&bench);
    let view = bench.view();
    assert!(bench.get(&key(7)).is_some());
    bench.put(&key(7), &[1; 500]);
    bench.end_segments();
    bench.crank.run_all();
    let hits = bench.detail("cached_value_hits");
    assert_eq!(bench.get(&key(7)), Some(vec![1; 500]));
    assert_eq!(bench.detail("cached_value_hits"), hits);
    let mut value = Vec::new();
    assert_eq!(view.get(&key(7), &mut value), Ok(true));
    assert_eq!(value, [7; 500]);
    let before = reads(&faults);
    assert_eq!(bench.get(&key(7)), Some(vec![1; 500]));
    assert_eq!(reads(&faults), before);
}

/// A scan adds the values of its first 64 pairs: each scan of 200 reads the others again.
#[test]
fn a_scan_adds_the_values_of_its_first_pairs() {
    const FIRST: u64 = 64;
    let (bench, faults) = on_device();
    warm_index(&bench);
    for expected in [KEYS, KEYS - FIRST, KEYS - FIRST] {
        let before = reads(&faults);
        scan(&bench.view(), KeyRange::all(), Direction::Backward);
        assert_eq!(reads(&faults) - before, expected);
    }
    assert_eq!(bench.detail("cached_value_hits"), 2 * FIRST);
    // After a seek, too.
    let view = bench.view();
    for expected in [50, 0] {
        let before = reads(&faults);
        let mut walk = view.scan(KeyRange::all(), Direction::Forward).expect("memory reads");
        walk.seek(&key(20));
        for number in 20..70 {
            let found = walk.next().expect("memory reads").map(|(key, _)| key.to_vec());
            assert_eq!(found, Some(key(number)));
        }
        let read = reads(&faults) - before;
        assert!((expected..=expected + FIRST).contains(&read), "{read} reads");
        assert!(expected > 0 || read <= 14, "{read} reads of pairs behind the first");
    }
}

/// A scan at a snapshot does not replace the value of a later write.
#[test]
fn an_older_value_does_not_replace_a_newer_one() {
    let (bench, faults) = on_device();
    let view = bench.view();
    bench.put(&key(7), &[1; 500]);
    bench.end_segments();
    bench.crank.run_all();
    warm_index(&bench);
    assert_eq!(bench.get(&key(7)), Some(vec![1; 500]));
    let range = KeyRange::of(key(5)..key(10));
    let pairs = scan(&view, range, Direction::Forward);
    assert_eq!(pairs[2].1, [7; 500]);
    let before = reads(&faults);
    assert_eq!(bench.get(&key(7)), Some(vec![1; 500]));
    assert_eq!(reads(&faults), before);
}

/// A value is cached by the number of its write, so a job that moves the record leaves it.
#[test]
fn a_moved_value_is_still_cached() {
    let (bench, faults) = on_device();
    for number in (0..KEYS).filter(|number| !number.is_multiple_of(4)) {
        bench.put(&key(number), &[1; 500]);
    }
    bench.end_segments();
    bench.crank.run_all();
    warm_index(&bench);
    (0..KEYS).step_by(4).for_each(|number| assert!(bench.get(&key(number)).is_some()));
    let copied = bench.detail("copied_bytes");
    bench.collect_all();
    assert!(bench.detail("copied_bytes") > copied, "the job has moved no record");
    let before = reads(&faults);
    for number in (0..KEYS).step_by(4) {
        assert_eq!(bench.get(&key(number)), Some(vec![number as u8; 500]));
    }
    assert_eq!(reads(&faults), before);
    bench.end_sound();
}

/// Puts, deletes, gets, gets at views, flushes and jobs in any order.
#[test]
fn no_value_is_shown_in_the_place_of_another() {
    for seed in 0..20 {
        let (bench, _) = on_device();
        let mut random = Seed::from(seed).stream("value cache");
        let mut expected: Vec<Option<Vec<u8>>> =
            (0..KEYS).map(|number| Some(vec![number as u8; 500])).collect();
        let mut seen = (bench.view(), expected.clone());
        for step in 0..800_u64 {
            let number = random.random_range(0..KEYS);
            let (at, key) = (number as usize, key(number));
            match random.random_range(0..20) {
                0..4 => {
                    let value = vec![step as u8; random.random_range(0..1000)];
                    bench.put(&key, &value);
                    expected[at] = Some(value);
                }
                4 => {
                    bench.delete(&key);
                    expected[at] = None;
                }
                5..8 => {
                    let mut value = Vec::new();
                    let found = seen.0.get(&key, &mut value).expect("memory reads");
                    assert_eq!(found.then_some(value), seen.1[at], "seed {seed}, step {step}");
                }
                8 => _ = bench.crank.run_one(),
                9 if step.is_multiple_of(5) => bench.end_segments(),
                10 if step.is_multiple_of(5) => {
                    drop(seen);
                    seen = (bench.view(), expected.clone());
                    bench.collect_once().expect("memory takes it");
                }
                _ => assert_eq!(bench.get(&key), expected[at], "seed {seed}, step {step}"),
            }
        }
        assert!(bench.detail("cached_value_hits") > 50);
    }
}

/// Cached values take memory that write buffers leave, and writers take it back.
#[test]
fn cached_values_take_what_write_buffers_leave() {
    const VALUE_BYTES: usize = 1000;
    let options = Options { buffer_bytes_max: 1 << 20, groups_max: 4, ..small() };
    let opened = Bench::with(device::memory(), Arc::new(NoJournal), options);
    let bench = opened.expect("an empty device opens");
    let shared = &bench.store.shared;
    let limit = shared.host.memory.limit();
    let share = shared.memory_split().value_bytes(limit, 0);
    let keys = 2 * share / VALUE_BYTES as u64;
    for number in 0..keys {
        bench.put(&key(number), &[number as u8; VALUE_BYTES]);
        bench.crank.run_all();
    }
    bench.store.flush().expect("memory takes it");
    bench.crank.run_all();
    for number in (0..3).flat_map(|_| 0..keys) {
        assert!(bench.get(&key(number)).is_some());
    }
    let lent = shared.cached.bytes();
    assert!(lent > share * 9 / 8, "{lent} bytes, {share} of its own");
    assert!(shared.host.memory.used() <= limit);
    // Writers reserve all memory of write buffers, in small steps.
    let (buffers, step) = (shared.values.accounts.buffers.account(), 4 << 10);
    let steps = shared.memory_split().buffer_bytes / step;
    let mut shrunk = 0;
    for _ in 0..steps {
        let before = shared.cached.bytes();
        buffers.add(step);
        shared.shrink_cache_for_writers();
        shrunk += u64::from(shared.cached.bytes() < before);
        assert!(shared.host.memory.used() <= limit);
    }
    assert!(shared.cached.bytes() <= share, "{} of {share}", shared.cached.bytes());
    assert!((2..steps / 2).contains(&shrunk), "the cache became smaller {shrunk} times");
    buffers.release(steps * step);
    bench.end_sound();
}

/// Cached values leave room for directories, and follow the budget.
#[test]
fn cached_values_keep_to_their_share() {
    let (bench, _) = on_device();
    let shared = &bench.store.shared;
    let share =
        |limit: u64| shared.memory_split().value_bytes(limit, shared.values.segment_count());
    warm_index(&bench);
    (0..KEYS).for_each(|number| assert!(bench.get(&key(number)).is_some()));
    let limit = shared.host.memory.limit();
    let bytes = bench.detail("cached_value_bytes") + bench.detail("directory_bytes");
    let all = share(limit) + shared.memory_split().buffer_bytes;
    assert!(bytes <= all, "{bytes} of {all}");
    shared.values.accounts.directories.add(share(limit) - (64 << 10));
    shared.fit_cache();
    assert!(shared.cached.bytes() <= 128 << 10, "{}", shared.cached.bytes());
    shared.values.accounts.directories.release(share(limit) - (64 << 10));
}
