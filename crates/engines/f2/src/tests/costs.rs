//! The costs of operations, in measures that repeat exactly: bytes appended, reads of the device.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::Engine;

use super::stores::{Add, Bench, key, some_of_a_chain, tiny, value};
use crate::Options;

fn roomy() -> Options {
    Options { log_memory_bytes: Some(64 * 4096), ..tiny() }
}

#[test]
fn updates_in_place_append_nothing() {
    let bench = Bench::open(roomy());
    for number in 0..100 {
        bench.put(&key(number), &value(number, 0, 8));
        bench.put(&key(1000 + number), &number.to_le_bytes());
    }
    let tail = bench.figure("log_tail");
    for version in 0..50 {
        for number in 0..100 {
            bench.put(&key(number), &value(number, version, 8));
            bench.rmw(&key(1000 + number), &mut Add);
        }
    }
    for number in 0..100 {
        bench.delete(&key(number));
        bench.put(&key(number), &value(number, 99, 8));
        assert_eq!(bench.get(&key(number)), Some(value(number, 99, 8)));
    }
    assert_eq!(bench.figure("log_tail"), tail);
    assert_eq!(bench.device.accounting().counts().write_bytes % 4096, 0);
}

#[test]
fn a_record_of_a_hundred_bytes_takes_128() {
    let bench = Bench::open(roomy());
    bench.put(b"8 bytes.", &[7; 100]);
    let tail = bench.figure("log_tail");
    bench.put(b"8 bytes!", &[7; 100]);
    assert_eq!(bench.figure("log_tail") - tail, 128);
}

#[test]
fn many_cold_reads_at_once_give_what_single_ones_give() {
    const KEYS: u64 = 1_000;
    let bench = Bench::open(tiny());
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, (number % 40) as usize));
        if number % 3 == 0 {
            bench.delete(&key(number / 2));
        }
    }
    let keys: Vec<Vec<u8>> = (0..KEYS + 50).chain(0..20).map(key).collect();
    bench.must_get_many(&keys);
}

#[test]
fn a_cold_read_takes_one_read_of_the_device() {
    const KEYS: u64 = 2_000;
    // The index is so large that hardly any chain has two keys. There is no compaction, which would
    // read old records into memory.
    let disk_bytes_max = Some(u64::MAX);
    let bench = Bench::open(Options { index_bits: Some(12), disk_bytes_max, ..tiny() });
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 8));
    }
    bench.store.flush().expect("flushes");
    let before = bench.device.accounting().counts().read_ops;
    let cold = 1_000;
    for number in 0..cold {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)));
    }
    let reads = bench.device.accounting().counts().read_ops - before;
    // A record that crosses a block's end, and a pair of keys on one chain, take another read.
    assert!((cold..cold + cold / 20).contains(&reads), "{reads} reads for {cold} cold keys");
}

/// Returns the reads of the device that a get of a cold key takes, in thousandths, after the store
/// was opened again. The value of a key has `words(number)` words.
fn reads_of_cold_gets(words: impl Fn(u64) -> usize) -> u64 {
    const KEYS: u64 = 2_000;
    let options = Options {
        log_memory_bytes: Some(6 * (64 << 10)),
        read_cache_bytes: Some(0),
        page_bytes: Some(64 << 10),
        segment_bytes: 1 << 20,
        index_bits: Some(12),
        ..tiny()
    };
    let device = device::memory();
    let bench = Bench::open_by_hand(Arc::clone(&device), options.clone(), 7);
    let bytes = (0..KEYS).map(|number| {
        bench.put(&key(number), &value(number, 0, words(number)));
        if number % 20 == 0 {
            bench.advance();
        }
        8 * words(number) as u64
    });
    assert!(bytes.sum::<u64>() > bench.figure("log_bytes"), "most keys are cold");
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
    let bench = Bench::open_by_hand(device, options, 7);
    let gets = bench.figure("cold_index_entries") / 2;
    for number in 0..gets {
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, words(number))));
    }
    assert!(bench.figure("lookups") > gets * 9 / 10);
    bench.figure("reads_per_lookup_permille")
}

/// A cold get reads a chunk and a record, however long the record is, except for the few records
/// that are longer than most.
#[test]
fn a_cold_get_takes_two_reads_whatever_the_lengths() {
    let of_8_kib = reads_of_cold_gets(|_| 1024);
    let mixed = reads_of_cold_gets(|number| 128 + (number * 7_919 % 384) as usize);
    println!("{of_8_kib} and {mixed} reads for a thousand gets");
    assert!(of_8_kib < 2_100 && mixed < 2_250, "{of_8_kib} and {mixed} for a thousand gets");
}

/// Keys that were chosen to share a chain in a store whose seed was known hardly do so in another
/// store.
#[test]
fn keys_that_collide_in_one_store_do_not_in_the_next() {
    let open = |seed| Bench::open_by_hand(device::memory(), tiny(), seed);
    let chosen: [u64; 8] = some_of_a_chain(&open(1));
    let other = open(2);
    let shared = &other.store.shared;
    let place = |number: &u64| shared.hot.index.position(shared.hash(&key(*number)));
    let chains: BTreeSet<_> =
        chosen.iter().map(|number| shared.hot.index.chain_at(place(number))).collect();
    assert!(chains.len() >= chosen.len() - 1, "{chosen:?} are on {} chains", chains.len());
}
