//! The device's cost of writing.
//!
//! It is the bytes written for each byte put, the reads for each put, and the bytes that the
//! collector moves.
//!
//! A journal keeps the data in memory. The pairs are loaded in no order, or their keys are not all
//! written equally often.

use std::sync::Arc;

use conformance::{Bench, Journaled};
use engine::Engine;
use reads::BlockingReads;
use thermocline_flexdb::{Options, Store};

use super::{PAIR_BYTES, VALUE_BYTES, key};

const BUDGET: u64 = 8 << 20;
/// Four times the budget.
const KEYS: u64 = 4 * BUDGET / PAIR_BYTES;
const PUTS: u64 = 400_000;
/// Zipf's exponent.
const THETA: f64 = 0.99;

fn put(bench: &Bench<Store>, number: u64, byte: u8) {
    bench.put(&key(number), &[byte; VALUE_BYTES]);
}

/// A store to which every pair was put once.
fn loaded() -> Bench<Store> {
    let open = |host| Store::open(host, Options::default());
    let bench = Bench::threaded(device::memory(), Arc::new(Journaled), BUDGET, 2, open);
    (0..KEYS).for_each(|number| put(&bench, number, 1));
    bench
}

/// The keys that puts go to: the same each time.
fn drawn() -> Vec<u64> {
    let weights = (1..=KEYS).map(|rank| (rank as f64).powf(-THETA));
    let shares = weights.scan(0.0, |sum, weight| {
        *sum += weight;
        Some(*sum)
    });
    let shares: Vec<f64> = shares.collect();
    let all = shares.last().copied().unwrap_or_default();
    let draw = |number: u64| {
        let wanted = codec::hash64(11, &number.to_le_bytes()) as f64 / u64::MAX as f64 * all;
        shares.partition_point(|share| *share < wanted) as u64
    };
    (0..PUTS).map(draw).collect()
}

#[test]
fn what_is_written_often_is_seldom_committed_and_neighbours_are_written_together() {
    let (bench, drawn) = (loaded(), drawn());
    let before = bench.wait_idle();
    let committed = bench.detail("committed_pairs");
    let (moved, defragmented) =
        (bench.detail("collected_bytes"), bench.detail("bytes_defragmented"));
    drawn.iter().zip(0_u64..).for_each(|(key, number)| put(&bench, *key, number as u8));
    let after = bench.wait_idle();
    let put = (PUTS * PAIR_BYTES) as f64;
    let committed = (bench.detail("committed_pairs") - committed) as f64 / PUTS as f64;
    let defragmented = (bench.detail("bytes_defragmented") - defragmented) as f64;
    let written = ((after.write_bytes - before.write_bytes) as f64 - defragmented) / put;
    let defragmented = defragmented / put;
    let reads = (after.read_ops - before.read_ops) as f64 / PUTS as f64;
    let moved = (bench.detail("collected_bytes") - moved) as f64 / put;
    println!("{committed:.3} committed and {reads:.3} reads for each put");
    println!("{written:.3} bytes written and {moved:.3} moved for each byte put");
    println!("and {defragmented:.3} afterwards, while nobody wanted the store");
    assert!(committed < 0.5, "{committed} pairs committed for each put");
    assert!(written < 2.0, "{written} bytes written for each byte put");
    assert!(reads < 0.25, "{reads} reads for each put");
    assert!(
        defragmented <= 1.0,
        "{defragmented} bytes written while it was idle for each byte put"
    );
    assert!(moved < 0.5, "{moved} bytes moved by the collector for each byte put");
    let mut value = Vec::new();
    let mut last = vec![1; KEYS as usize];
    drawn.iter().zip(0_u64..).for_each(|(key, number)| last[*key as usize] = number as u8);
    for number in (0..KEYS).step_by(7) {
        assert_eq!(bench.store.get(&key(number), &mut value), Ok(true), "{number}");
        assert_eq!(value, [last[number as usize]; VALUE_BYTES], "{number}");
    }
    bench.end();
}

/// Each pair is put once, and by a few commits: those of all memtables that wait are one.
#[test]
fn what_is_loaded_in_no_order_is_appended_and_seldom_rewritten() {
    let bench = loaded();
    bench.store.flush().expect("the device takes it");
    let loaded = bench.counts();
    let put = (KEYS * PAIR_BYTES) as f64;
    let part = |name| bench.detail(name) as f64 / put;
    let (appended, anew) = (part("bytes_appended"), part("bytes_rewritten"));
    let (moved, defragmented) = (part("collected_bytes"), part("bytes_defragmented"));
    let written = loaded.write_bytes as f64 / put - defragmented;
    let reads = loaded.read_ops as f64 / KEYS as f64;
    let memtables = bench.detail("committed_memtables") as f64 / bench.detail("commits") as f64;
    println!("{written:.3} bytes written for each byte loaded, and {reads:.3} reads for each pair");
    println!("{appended:.3} appended, {anew:.3} written anew, {moved:.3} moved");
    println!("{memtables:.2} memtables a commit");
    assert!(memtables > 2.5, "{memtables} memtables a commit");
    assert!(written < 4.1, "{written} bytes written for each byte loaded");
    assert!(reads < 0.2, "{reads} reads for each pair");
    assert!(moved < 0.6, "{moved} bytes moved by the collector for each byte loaded");
    bench.end();
}

/// The tail of an interval of long values may have the bytes of the interval. So rewrites read
/// fewer intervals. The number of rewritten bytes depends on the time between commits.
#[test]
fn long_values_loaded_in_no_order_are_seldom_read_for_rewrites() {
    const LONG_BYTES: u64 = 1000;
    let open = |host| Store::open(host, Options::default());
    let bench = Bench::threaded(device::memory(), Arc::new(Journaled), BUDGET, 2, open);
    let pairs = 4 * BUDGET / LONG_BYTES;
    (0..pairs).for_each(|number| bench.put(&key(number), &[1; LONG_BYTES as usize]));
    bench.store.flush().expect("the device takes it");
    let reads = bench.counts().read_ops as f64 / pairs as f64;
    println!("{reads:.3} reads for each pair");
    assert!(reads < 0.23, "{reads} reads for each pair");
    bench.end();
}
