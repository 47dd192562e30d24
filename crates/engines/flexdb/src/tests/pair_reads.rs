//! How often gets of few popular keys read the device.

use std::sync::Arc;

use engine::{Engine, NoJournal};

use super::stores::{Bench, key};
use crate::Options;

const KEYS: u64 = 60_000;
const GETS: u64 = 40_000;
const VALUE_BYTES: usize = 100;

fn value(number: u64) -> Vec<u8> {
    let mut value = vec![number as u8; VALUE_BYTES];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value
}

/// Reads of the device for each get by Zipf (0.99) of data four times the memory, popular keys
/// anywhere; and whether a kept pair served any get.
fn reads_of_a_get(pairs: bool) -> (f64, bool) {
    let options = Options { pairs, ..Options::default() };
    let budget = KEYS * (VALUE_BYTES as u64 + 14) / 4;
    let open = |device| {
        let opened = Bench::with(device, Arc::new(NoJournal), budget, options.clone());
        opened.expect("it opens")
    };
    let bench = open(device::memory());
    for number in 0..KEYS {
        bench.put(&key(number * 7919 % KEYS), &value(number * 7919 % KEYS));
        bench.crank.run_all();
    }
    bench.flush();
    bench.store.close().expect("closes");
    let bench = open(bench.0.device);
    let mut below = 0.0;
    let shares: Vec<f64> = (1..=KEYS)
        .map(|rank| {
            below += (rank as f64).powf(-0.99);
            below
        })
        .collect();
    let get = |at: u64| {
        let unit = codec::hash64(7, &at.to_le_bytes()) as f64 / u64::MAX as f64 * below;
        let rank = shares.partition_point(|share| *share < unit) as u64;
        let number = rank * 48_271 % KEYS;
        assert_eq!(bench.get(&key(number)), Some(value(number)), "{number}");
    };
    (0..GETS).for_each(get);
    let before = bench.device.accounting().counts().read_ops;
    (GETS..2 * GETS).for_each(get);
    let reads = (bench.device.accounting().counts().read_ops - before) as f64 / GETS as f64;
    assert!(bench.budget.used() <= budget, "{} bytes", bench.budget.used());
    (reads, bench.detail("pair_hits") > 0)
}

#[test]
fn pairs_spare_reads_of_popular_keys() {
    let ((with, is_used), (without, is_used_without)) =
        (reads_of_a_get(true), reads_of_a_get(false));
    println!("{with} reads a get with pairs, {without} without");
    assert!(is_used && !is_used_without);
    assert!(with < 0.75 * without, "{with} reads a get with pairs, {without} without");
}
