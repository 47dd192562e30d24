//! How often scans read the device.

use std::ops::Bound;

use engine::{Direction, KeyRange};

use super::stores::{Bench, key};
use crate::Options;

const KEYS: u64 = 12_000;
const VALUE_BYTES: usize = 1000;
/// Pairs of a scan, in some 30 blocks.
const PAIRS: usize = 100;
const SCANS: u64 = 100;

/// A value that does not compress.
fn value(number: u64) -> Vec<u8> {
    let words = 0..VALUE_BYTES as u64 / 8;
    words.flat_map(|word| codec::hash64(number, &word.to_le_bytes()).to_le_bytes()).collect()
}

/// A store with much more in it than it may cache, at rest.
fn loaded() -> Bench {
    let options = Options { slots_max: 1, memtable_bytes_max: 1 << 20, ..Options::default() };
    let device = device::memory();
    let barrier = std::sync::Arc::new(engine::NoJournal);
    let bench =
        Bench::with_options(device, barrier, 8 << 20, options).expect("an empty device opens");
    for number in 0..KEYS {
        // In no order, so that all of it is compacted.
        bench.put(&key(number * 7919 % KEYS), &value(number));
        bench.crank.run_all();
    }
    bench.run_background();
    bench
}

/// Returns the reads of the device that a scan of [`PAIRS`] takes, and the bytes that it reads for
/// each byte that it returns.
fn reads_of_scans(bench: &Bench, direction: Direction) -> (f64, f64) {
    reads_of_scans_of(PAIRS, 0, bench, direction)
}

/// Returns the same for scans of `pairs`, at most [`PAIRS`]. Each round has other places.
fn reads_of_scans_of(pairs: usize, round: u64, bench: &Bench, direction: Direction) -> (f64, f64) {
    let before = bench.device.accounting().counts();
    for scan in round * SCANS..(round + 1) * SCANS {
        let from = key(PAIRS as u64 + scan * 6007 % (KEYS - 2 * PAIRS as u64));
        let range = match direction {
            Direction::Forward => KeyRange { start: Bound::Included(from), end: Bound::Unbounded },
            Direction::Backward => KeyRange { start: Bound::Unbounded, end: Bound::Included(from) },
        };
        let view = bench.view();
        let mut cursor = view.scan(range, direction).expect("the store is open");
        for _ in 0..pairs {
            assert!(cursor.next().expect("nothing is damaged").is_some());
        }
    }
    let counts = bench.device.accounting().counts();
    let bytes = (SCANS as usize * pairs * VALUE_BYTES) as f64;
    let reads = (counts.read_ops - before.read_ops) as f64 / SCANS as f64;
    (reads, (counts.read_bytes - before.read_bytes) as f64 / bytes)
}

#[test]
fn scans_read_many_blocks_at_once() {
    let bench = loaded();
    let many = bench.detail("level0_tables");
    assert!(many >= 4, "{many} tables of Level 0 wait until they are worth a compaction");
    for _ in 0..10 {
        // Each looks into all of them.
        reads_of_scans(&bench, Direction::Forward);
        bench.crank.run_all();
    }
    let few = bench.detail("level0_tables");
    assert!(few < 4, "{few} tables of Level 0 after a thousand scans");
    for direction in [Direction::Forward, Direction::Backward] {
        let (reads, bytes) = reads_of_scans(&bench, direction);
        assert!(reads < 8.0, "{reads} reads for 100 pairs in 30 blocks, {direction:?}");
        assert!(bytes < 1.8, "{bytes} bytes for one that was given, {direction:?}");
    }
}

/// The first read of a scan is as long as the scans before it were, in each level. The blocks of
/// one of the two levels are cached.
#[test]
fn a_scan_of_a_usual_length_waits_for_one_read() {
    let bench = loaded();
    for _ in 0..3 {
        bench.store.shared.compact_if_idle();
        bench.crank.run_all();
    }
    assert_eq!(bench.detail("level0_tables"), 0);
    let mut round = 0;
    for direction in [Direction::Forward, Direction::Backward] {
        for (pairs, bytes_max) in [(1, 11.0), (20, 1.5)] {
            // The scans before these had another length.
            for _ in 0..4 {
                reads_of_scans_of(pairs, round, &bench, direction);
                round += 1;
            }
            let (reads, bytes) = reads_of_scans_of(pairs, round, &bench, direction);
            assert!(reads < 1.4, "{reads} reads for {pairs} pairs, {direction:?}");
            assert!(bytes < bytes_max, "{bytes} bytes for one of {pairs} pairs, {direction:?}");
        }
    }
}

/// No reader has to read for it first.
#[test]
fn a_store_that_stood_idle_is_scanned_by_as_few_reads() {
    let bench = loaded();
    let (before, _) = reads_of_scans(&bench, Direction::Forward);
    let bench = loaded();
    for _ in 0..3 {
        bench.store.shared.compact_if_idle();
        bench.crank.run_all();
    }
    let compactions = bench.detail("compactions");
    let (after, _) = reads_of_scans(&bench, Direction::Forward);
    println!("{before} reads for 100 pairs right after the load, {after} after some idle seconds");
    assert!(after < 8.0 && after < 0.8 * before, "{after} reads, {before} before");
    bench.crank.run_all();
    assert_eq!(bench.detail("compactions"), compactions, "scans leave nothing to be compacted");
}
