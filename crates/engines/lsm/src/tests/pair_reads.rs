//! How often gets of few popular keys read the device.

use std::sync::Arc;

use engine::NoJournal;

use super::stores::{Bench, key};
use crate::Options;

const KEYS: u64 = 60_000;
const GETS: u64 = 60_000;
const VALUE_BYTES: usize = 100;

/// Values that do not compress.
fn value(number: u64) -> Vec<u8> {
    let words = 0..VALUE_BYTES as u64 / 4;
    words
        .flat_map(|word| (codec::hash64(number, &word.to_le_bytes()) as u32).to_le_bytes())
        .collect()
}

/// Reads of the device for each get by Zipf (0.99) of data five times the memory, popular keys
/// anywhere.
fn reads_of_a_get(pairs: bool) -> f64 {
    // Tables as small as the memory. Otherwise the metadata of one table take most of the room of a
    // clock of the cache, and repeated reads are mostly of metadata.
    let options = Options { pairs, slots_max: 1, table_bytes: 256 << 10, ..Options::default() };
    let budget = KEYS * (VALUE_BYTES as u64 + 14) / 5;
    let opened = Bench::with_options(device::memory(), Arc::new(NoJournal), budget, options);
    let bench = opened.expect("an empty device opens");
    for number in 0..KEYS {
        bench.put(&key(number * 7919 % KEYS), &value(number * 7919 % KEYS));
        bench.crank.run_all();
    }
    bench.run_background();
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
    (bench.device.accounting().counts().read_ops - before) as f64 / GETS as f64
}

#[test]
fn pairs_spare_reads_of_popular_keys() {
    let (with, without) = (reads_of_a_get(true), reads_of_a_get(false));
    println!("{with} reads a get with pairs, {without} without");
    assert!(with < 0.75 * without, "{with} reads a get with pairs, {without} without");
}
