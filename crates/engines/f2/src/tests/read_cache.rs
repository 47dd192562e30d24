//! The read cache saves reads of the device, and changes no result of a read.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use engine::Engine;
use reads::BlockingReads;

use super::stores::{Add, Bench, count, key, tiny, value};
use crate::Options;

const KEYS: u64 = 2_000;

/// Returns options with four pages of log in memory, and `bytes` bytes of cache.
fn with_cache(bytes: u64) -> Options {
    Options {
        log_memory_bytes: Some(4 * 4096 + bytes),
        read_cache_bytes: Some(bytes),
        disk_bytes_max: Some(u64::MAX),
        index_bits: Some(9),
        ..tiny()
    }
}

/// Returns numbers below [`KEYS`], small ones far more often: the same ones each time.
fn skewed() -> impl Iterator<Item = u64> {
    let mut state = 1u64;
    (0..8_000).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let share = (state >> 11) as f64 / (1u64 << 53) as f64;
        (share.powi(6) * KEYS as f64) as u64
    })
}

fn reads_of_the_device(bench: &Bench, work: impl FnOnce()) -> u64 {
    let before = bench.device.accounting().counts().read_ops;
    work();
    bench.device.accounting().counts().read_ops - before
}

#[test]
fn skewed_reads_take_fewer_reads_of_the_device() {
    let run = |bytes| {
        let bench = Bench::loaded(KEYS, with_cache(bytes));
        reads_of_the_device(&bench, || {
            for number in skewed() {
                assert_eq!(bench.get(&key(number)), Some(value(number, 0, 8)));
            }
        })
    };
    let (without, with) = (run(0), run(64 << 10));
    println!("{without} reads of the device without the cache, {with} with it");
    assert!(with * 3 < without, "{with} reads with the cache, {without} without");
}

#[test]
fn many_reads_at_once_are_cached_too() {
    let bench = Bench::loaded(KEYS, with_cache(64 << 10));
    let keys: Vec<Vec<u8>> = (0..100).map(key).collect();
    let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let read = || {
        let mut found = 0;
        let told = bench.store.multi_get(&borrowed, &mut |index, told| {
            assert_eq!(told, Some(value(index as u64, 0, 8).as_slice()));
            found += 1;
        });
        told.expect("the reads are answered");
        assert_eq!(found, 100);
    };
    assert!(reads_of_the_device(&bench, read) >= 100);
    assert_eq!(reads_of_the_device(&bench, read), 0);
    assert_eq!(bench.figure("read_cache_inserted"), 100);
    assert_eq!(bench.figure("read_cache_hits"), 100);
}

#[test]
fn a_write_is_seen_over_a_cached_value() {
    let bench = Bench::loaded(KEYS, with_cache(64 << 10));
    bench.put(b"counter", &7u64.to_le_bytes());
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 1, 8));
    }
    bench.store.flush().expect("flushes");
    for number in 0..3 {
        assert_eq!(bench.get(&key(number)), Some(value(number, 1, 8)));
    }
    assert_eq!(count(bench.get(b"counter")), 7);
    assert_eq!(bench.figure("read_cache_inserted"), 4);
    let reads = reads_of_the_device(&bench, || {
        bench.put(&key(0), &value(0, 2, 8));
        bench.delete(&key(1));
        bench.rmw(b"counter", &mut Add);
        assert_eq!(bench.get(&key(0)), Some(value(0, 2, 8)));
        assert_eq!(bench.get(&key(1)), None);
        assert_eq!(bench.get(&key(2)), Some(value(2, 1, 8)));
        assert_eq!(count(bench.get(b"counter")), 8);
    });
    assert_eq!(reads, 0, "a read-modify-write takes the old value from the cache");
    let bench = bench.reopen(with_cache(64 << 10));
    assert_eq!(bench.get(&key(0)), Some(value(0, 2, 8)));
    assert_eq!(bench.get(&key(1)), None);
    assert_eq!(count(bench.get(b"counter")), 8);
}

/// Readers that fill the cache run next to writers, with four tiny pages of cache, compaction and a
/// growing index. A reader that begins after a write was acknowledged reads that write or a later
/// one, and counters are exact.
#[test]
fn no_reader_sees_an_older_value_than_was_acknowledged() {
    const HOT: u64 = 300;
    const ROUNDS: u64 = 60;
    let options =
        Options { disk_bytes_max: Some(192 << 10), index_bits: Some(1), ..with_cache(16 << 10) };
    let bench = Bench::open(options.clone());
    for number in 0..HOT {
        bench.put(&key(number), &0u64.to_le_bytes());
    }
    // Copies of these stay until they are evicted.
    for number in 0..HOT {
        bench.put(&key(20_000 + number), &value(number, 0, 16));
    }
    let acknowledged: Vec<AtomicU64> = (0..HOT).map(|_| AtomicU64::new(0)).collect();
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (bench, acknowledged, done, reads) = (&bench, &acknowledged, &done, &reads);
            scope.spawn(move || {
                let mut at = reader;
                while !done.load(Ordering::Relaxed) {
                    at = (at * 31 + 17) % HOT;
                    let number = if at % 3 == 0 { at } else { at % 20 };
                    let floor = acknowledged[number as usize].load(Ordering::Acquire);
                    let seen = count(bench.get(&key(number)));
                    assert!(seen >= floor, "key {number}: {seen} after {floor}");
                    assert_eq!(bench.get(&key(20_000 + at)), Some(value(at, 0, 16)));
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (bench, acknowledged) = (&bench, &acknowledged);
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        for number in (0..HOT).filter(|number| number % 2 == writer) {
                            bench.rmw(&key(number), &mut Add);
                            acknowledged[number as usize].store(round + 1, Ordering::Release);
                            // These puts push the counters to disk.
                            bench.put(&key(10_000 + number), &value(number, round, 16));
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("ends"));
        done.store(true, Ordering::Relaxed);
    });
    for number in 0..HOT {
        assert_eq!(count(bench.get(&key(number))), ROUNDS, "counter {number}");
    }
    for figure in ["compactions", "index_buckets", "read_cache_hits", "read_cache_inserted"] {
        println!("{figure}: {}", bench.figure(figure));
        assert!(bench.figure(figure) > 0, "{figure}");
    }
    println!("second chances: {}", bench.figure("read_cache_second_chances"));
    assert!(bench.figure("read_cache_evicted") > 0 && bench.figure("index_buckets") > 2);
    let bench = bench.reopen(options);
    for number in 0..HOT {
        assert_eq!(count(bench.get(&key(number))), ROUNDS, "counter {number} after opening again");
    }
}
