//! A cold log whose lasting records differ in length from the overwritten ones.

use std::sync::Arc;

use engine::Engine;

use super::stores::{Bench, key, tiny};
use crate::Options;

/// Bytes of a record's head and key here.
const HEAD: u64 = 32;

struct Mix {
    stay: u64,
    stay_bytes: usize,
    overwritten: u64,
    overwritten_bytes: usize,
}

impl Mix {
    fn live(&self) -> u64 {
        self.stay * (self.stay_bytes as u64 + HEAD)
            + self.overwritten * (self.overwritten_bytes as u64 + HEAD)
    }

    /// Writes the lasting records, and the others `times` times. Returns the most bytes that the
    /// cold log took meanwhile.
    fn run(&self, bench: &Bench, times: u64) -> u64 {
        (0..self.stay).for_each(|it| put(bench, it, self.stay_bytes));
        let overwritten = (0..times).map(|_| self.overwrite(bench));
        overwritten.max().unwrap_or_default()
    }

    /// Writes the other records once. Returns the bytes of the cold log after that.
    fn overwrite(&self, bench: &Bench) -> u64 {
        (0..self.overwritten).for_each(|it| put(bench, 1_000_000 + it, self.overwritten_bytes));
        bench.figure("cold_log_bytes")
    }
}

fn put(bench: &Bench, number: u64, bytes: usize) {
    bench.put(&key(number), &vec![7; bytes]);
    if number.is_multiple_of(5) {
        bench.advance();
    }
}

fn options(cold_disk_bytes_max: Option<u64>) -> Options {
    Options {
        log_memory_bytes: Some(10 * 4096),
        read_cache_bytes: Some(4 * 4096),
        disk_bytes_max: Some(48 << 10),
        cold_disk_bytes_max,
        ..tiny()
    }
}

const SHORT_STAY: Mix =
    Mix { stay: 4_000, stay_bytes: 8, overwritten: 60, overwritten_bytes: 3_000 };
const LONG_STAY: Mix =
    Mix { stay: 200, stay_bytes: 3_000, overwritten: 4_000, overwritten_bytes: 8 };

#[test]
fn the_cold_log_takes_little_more_than_what_lives_whatever_the_lengths() {
    for mix in [SHORT_STAY, LONG_STAY] {
        let bench = Bench::open_by_hand(device::memory(), options(None), 7);
        let most = mix.run(&bench, 40);
        let live = mix.live();
        // The last term is for records on the way to the tail, and for whole pages and segments.
        assert!(most < 2 * live + 10 * 16_384, "{most} bytes of the cold log for {live} that live");
        let told = bench.figure("cold_log_dead_permille");
        let bytes = bench.figure("cold_log_bytes");
        let dead = 1000 - (live * 1000 / bytes).min(1000);
        assert!(told.abs_diff(dead) < 150, "{told} told, {dead} of a thousand are dead");
    }
}

#[test]
fn a_bound_of_the_cold_log_is_kept_whatever_the_lengths() {
    let max = 1 << 20;
    let bench = Bench::open_by_hand(device::memory(), options(Some(max)), 7);
    let most = SHORT_STAY.run(&bench, 60);
    assert!(most <= max, "{most} bytes of the cold log, which has {max}");
}

#[test]
fn how_much_lives_is_known_when_a_store_is_opened_again() {
    let device = device::memory();
    let bench = Bench::open_by_hand(Arc::clone(&device), options(None), 7);
    SHORT_STAY.run(&bench, 10);
    bench.store.flush().expect("flushes");
    let told = bench.figure("cold_log_dead_permille");
    bench.store.close().expect("closes");
    drop(bench);
    let bench = Bench::open_by_hand(device, options(None), 7);
    let after = bench.figure("cold_log_dead_permille");
    assert!(after.abs_diff(told) < 20, "{told} of a thousand are dead, {after} when it is opened");
    let most = SHORT_STAY.run(&bench, 20);
    let live = SHORT_STAY.live();
    assert!(most < 2 * live + 10 * 16_384, "{most} bytes of the cold log for {live} that live");
}

#[test]
fn what_is_deleted_is_dead() {
    let bench = Bench::open_by_hand(device::memory(), options(None), 7);
    SHORT_STAY.run(&bench, 1);
    let live = |bench: &Bench| {
        let bytes = bench.figure("cold_log_bytes");
        bytes - bytes * bench.figure("cold_log_dead_permille") / 1000
    };
    let before = live(&bench);
    for number in 0..SHORT_STAY.stay {
        bench.delete(&key(number));
        if number % 5 == 0 {
            bench.advance();
        }
    }
    // The other records are written until the tombstones have left the hot log.
    SHORT_STAY.overwrite(&bench);
    let gone = SHORT_STAY.stay * (8 + HEAD) * 7 / 10;
    assert!(live(&bench) + gone < before, "{} of {before} bytes live", live(&bench));
}

/// Each life of a store begins new segments; the space that this leaves in the last ones is no part
/// of the logs.
#[test]
fn what_lies_between_two_lives_is_neither_taken_nor_dead() {
    const KEYS_OF_FIRST: u64 = 10_000;
    const KEYS: u64 = 500;
    let options = || Options {
        log_memory_bytes: Some(64 * 4096),
        read_cache_bytes: Some(0),
        disk_bytes_max: Some(512 << 10),
        segment_bytes: 256 << 10,
        ..tiny()
    };
    let device = device::memory();
    let mut keys = 0;
    for life in 0..16 {
        let bench = Bench::open_by_hand(Arc::clone(&device), options(), life);
        let more = if life == 0 { KEYS_OF_FIRST } else { KEYS };
        (keys..keys + more).for_each(|it| put(&bench, it, 100));
        keys += more;
        let dead = bench.figure("cold_log_dead_permille");
        assert!(dead < 100, "{dead} of a thousand are dead in life {life}");
        assert_eq!(bench.figure("cold_compactions"), 0, "in life {life}");
        assert!(bench.figure("cold_log_bytes") <= keys * 150);
        bench.store.flush().expect("flushes");
        bench.store.close().expect("closes");
    }
}

/// A hot log that is opened often is not emptied because of that.
#[test]
fn a_store_that_is_opened_often_keeps_its_hot_log() {
    let device = device::memory();
    let options = || Options { disk_bytes_max: Some(128 << 10), ..options(None) };
    for life in 0..20 {
        let bench = Bench::open_by_hand(Arc::clone(&device), options(), life);
        put(&bench, life, 100);
        bench.store.flush().expect("flushes");
        (0..5).for_each(|_| bench.advance());
        assert_eq!(bench.figure("compactions"), 0, "in life {life}");
        bench.store.close().expect("closes");
    }
}

/// A store without a budget of disk space, with segments of the default size.
#[test]
fn the_cold_log_of_a_small_store_is_compacted() {
    const KEYS: u64 = 40_000;
    let bench = Bench::open_by_hand_within(4 << 20, device::memory(), Options::default(), 7);
    let most = (0..5).map(|_| {
        (0..KEYS).for_each(|it| put(&bench, it, 100));
        bench.figure("cold_log_bytes")
    });
    let (most, live) = (most.max().unwrap_or_default(), KEYS * (100 + HEAD));
    assert!(bench.figure("cold_compactions") > 0 && most < 3 * live, "{most} bytes for {live}");
}
