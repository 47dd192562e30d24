//! Memory moves to where it saves most, and a store never has more of it than its limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::Engine;

use super::stores::{Add, Bench, count, key, tiny, value};
use crate::Options;

const PAGE: u64 = 4096;
/// Bytes of the hot log and the read cache, at first three parts to one.
const TOTAL: u64 = 256 * PAGE;
/// Bytes of the cold log and the chunk log, which are not part of `TOTAL`.
const BACKGROUND: u64 = 8 * PAGE;
const KEYS: u64 = 30_000;

fn options() -> Options {
    Options {
        log_memory_bytes: Some(TOTAL),
        disk_bytes_max: Some(u64::MAX),
        index_bits: Some(12),
        ..tiny()
    }
}

/// Returns numbers below [`KEYS`], small ones far more often, from a seed.
fn skewed(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let share = (state >> 11) as f64 / (1u64 << 53) as f64;
        (share.powi(4) * KEYS as f64) as u64
    })
}

/// Runs `operations` operations, of which `writes` of a hundred write; the memory is balanced after
/// each hundred.
fn run(bench: &Bench, operations: usize, writes: usize) {
    for (at, number) in skewed(operations as u64).take(operations).enumerate() {
        if at % 100 < writes {
            bench.put(&key(number), &value(number, at as u64, 8));
        } else {
            assert!(bench.get(&key(number)).is_some());
        }
        if at % 100 == 0 {
            bench.store.shared.balance_memory();
        }
    }
}

fn tell(bench: &Bench, load: &str) {
    let figure = |name| bench.figure(name);
    println!(
        "{load}: {} pages of log, {} of cache, {} moves to the log, {} to the cache",
        figure("log_pages"),
        figure("read_cache_pages"),
        figure("memory_moves_to_log"),
        figure("memory_moves_to_read_cache")
    );
}

#[test]
fn readers_get_a_large_cache_and_writers_a_large_log_within_the_same_memory() {
    let bench = Bench::loaded(KEYS, options());
    assert_eq!((bench.figure("log_pages"), bench.figure("read_cache_pages")), (192, 64));
    let done = AtomicBool::new(false);
    let (most, cache, log) = std::thread::scope(|scope| {
        let (bench, done) = (&bench, &done);
        let watcher = scope.spawn(move || {
            let mut most = 0;
            while !done.load(Relaxed) {
                most = most.max(bench.memory.used());
                std::thread::yield_now();
            }
            most
        });
        run(bench, 100_000, 0);
        tell(bench, "reads alone");
        let cache = bench.figure("read_cache_pages");
        run(bench, 300_000, 98);
        tell(bench, "writes, nearly");
        let log = bench.figure("log_pages");
        done.store(true, Relaxed);
        (watcher.join().expect("ends"), cache, log)
    });
    assert!(cache > 160, "{cache} pages of cache, from 64");
    assert!(log > 200, "{log} pages of log");
    let moves = bench.figure("memory_moves_to_log") + bench.figure("memory_moves_to_read_cache");
    assert!(moves > 40, "{moves} moves");
    // Other charges only grow.
    let limit = TOTAL + BACKGROUND + bench.store.shared.memory.own.bytes();
    assert!(most <= limit, "{most} bytes at most, of {limit}");
    assert!(most > limit / 10 * 9, "the memory is used: {most} of {limit}");
}

#[test]
fn a_split_that_was_chosen_stays() {
    for options in [
        Options { adaptive_split: false, ..options() },
        Options { read_cache_bytes: Some(TOTAL / 4), ..options() },
    ] {
        let bench = Bench::loaded(KEYS, options);
        run(&bench, 60_000, 0);
        assert!(bench.figure("read_cache_ghost_hits") > 100);
        assert_eq!((bench.figure("log_pages"), bench.figure("read_cache_pages")), (192, 64));
    }
}

/// Writers and readers run while the log gets fewer and more pages all the time. Nothing is lost,
/// and a log of fewer pages frees their memory without help.
#[test]
fn the_log_may_shrink_and_grow_beside_writers() {
    const COUNTERS: u64 = 500;
    const ROUNDS: u64 = 60;
    let bench = Bench::loaded(KEYS, Options { adaptive_split: false, ..options() });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (bench, done) = (&bench, &done);
        let sizes = scope.spawn(move || {
            let mut resized = 0;
            for frames in [4, 40, 17, 190, 5].into_iter().cycle() {
                if done.load(Relaxed) {
                    break;
                }
                bench.store.shared.hot.log.resize(frames);
                while !bench.store.shared.hot.log.is_within_limit() && !done.load(Relaxed) {
                    std::thread::yield_now();
                }
                resized += u64::from(bench.store.shared.hot.log.pages_held() <= frames);
            }
            resized
        });
        let workers: Vec<_> = (0..2)
            .map(|worker| {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        for number in (0..COUNTERS).filter(|number| number % 2 == worker) {
                            bench.rmw(&key(100_000 + number), &mut Add);
                            assert_eq!(count(bench.get(&key(100_000 + number))), round + 1);
                            bench.put(&key(number), &value(number, round, 16));
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().expect("ends"));
        done.store(true, Relaxed);
        let resized = sizes.join().expect("ends");
        println!("resized {resized} times");
        assert!(resized > 3);
    });
    for number in 0..COUNTERS {
        assert_eq!(count(bench.get(&key(100_000 + number))), ROUNDS, "counter {number}");
        assert_eq!(bench.get(&key(number)), Some(value(number, ROUNDS - 1, 16)));
    }
    let log = &bench.store.shared.hot.log;
    log.resize(4);
    while !log.is_within_limit() {
        std::thread::yield_now();
    }
    assert!(log.pages_held() <= 4);
}

/// The size that the index is made for follows from the budget alone. A table that has doubled as
/// often as it may refuses no write by itself.
#[test]
fn the_largest_table_is_within_what_the_index_may_take() {
    for single_log in [true, false] {
        let bench = Bench::open(Options { single_log, ..tiny() });
        let shared = &bench.store.shared;
        for mib in 16..200 {
            bench.memory.set_limit(mib << 20);
            let (largest, most) = (shared.index_table_bytes_max(), shared.index_bytes_most());
            let excess = if single_log { 0 } else { most / 8 };
            assert!(largest <= most + excess, "{largest} of {most} bytes, with {mib} MiB");
            assert!(largest * 2 > most + excess, "{largest} of {most} bytes, with {mib} MiB");
        }
        let base = shared.hot.index.base_table_bytes();
        bench.memory.set_limit(4 * base);
        let largest = shared.index_table_bytes_max();
        while shared.hot.index.table_bytes() < 8 * base {
            assert!(shared.hot.index.grow());
            while shared.hot.index.split_some(usize::MAX) {}
        }
        assert!(largest <= 2 * base);
        assert_eq!(shared.index_table_bytes_max(), largest, "whatever the present one takes");
    }
}

#[test]
fn log_and_cache_make_room_for_the_buffers_of_sessions() {
    const LIMIT: u64 = 16 << 20;
    const SESSIONS: usize = 6;
    let bench = Bench::open_by_hand_within(LIMIT, device::memory(), Options::default(), 7);
    for number in 0..150_000 {
        bench.put(&key(number), &value(number, 0, 13));
        if number % 1000 == 0 {
            bench.advance();
        }
    }
    let of_both = || bench.figure("log_memory_bytes") + bench.figure("read_cache_bytes");
    // Cold keys are read twice, so that log and cache take all that they may have.
    let read_all = || {
        for number in (0..100_000).chain(0..100_000) {
            bench.get(&key(number));
            if number % 1000 == 0 {
                bench.advance();
            }
        }
    };
    read_all();
    let before = of_both();
    let used = bench.memory.used();
    assert!(used <= LIMIT, "{used} bytes without sessions");
    let begin_session = |_| {
        let mut session = bench.session(128);
        for number in 100_000..100_128 {
            session.get(&key(number), &mut Vec::new()).expect("the get begins");
        }
        session
    };
    let sessions: Vec<_> = (0..SESSIONS).map(begin_session).collect();
    let buffers = bench.memory.used() - used;
    assert!(buffers > LIMIT / 8, "{buffers} bytes of buffers make no difference");
    (0..200).for_each(|_| bench.advance());
    let used = bench.memory.used();
    assert!(used <= LIMIT, "{used} bytes, of which {buffers} are buffers");
    let least = of_both();
    assert!(least + buffers / 2 < before, "{least} bytes of {before}");
    drop(sessions);
    (0..1000).for_each(|_| bench.advance());
    read_all();
    let again = of_both();
    assert!(again > (least + before) / 2, "{again} bytes, from {least} of {before}");
}

/// Returns the reads per lookup of keys that are read evenly, at the end, and the bytes of digests
/// then.
fn read_evenly(chunk_digests: bool) -> (f64, u64) {
    const LIMIT: u64 = 16 << 20;
    const KEYS: u64 = 300_000;
    let options = Options { chunk_digests, ..Options::default() };
    let bench = Bench::open_by_hand_within(LIMIT, device::memory(), options, 7);
    for number in 0..KEYS {
        bench.put(&key(number), &value(number, 0, 13));
        if number % 1000 == 0 {
            bench.advance();
        }
    }
    let read = |count: u64| {
        for number in (0..count).map(|at| at * 7_919 % KEYS) {
            assert_eq!(bench.get(&key(number)), Some(value(number, 0, 13)));
            if number % 100 == 0 {
                bench.advance();
                let used = bench.memory.used();
                assert!(used <= LIMIT, "{used} bytes");
            }
        }
    };
    read(80_000);
    let before = (bench.figure("lookup_reads"), bench.figure("lookups"));
    read(20_000);
    let reads = bench.figure("lookup_reads") - before.0;
    let lookups = bench.figure("lookups") - before.1;
    (reads as f64 / lookups as f64, bench.figure("chunk_digest_bytes"))
}

#[test]
fn keys_that_are_read_evenly_cost_one_read_each_where_digests_fit() {
    let (with, digest_bytes) = read_evenly(true);
    let (without, none) = read_evenly(false);
    println!("{with:.2} reads with {digest_bytes} bytes of digests, {without:.2} without");
    assert!(with < 1.2 && without > 1.5, "{with} reads, and {without} without digests");
    assert!(digest_bytes > 512 << 10 && none == 0);
}

/// Opens a store of cold keys again, by hand.
fn opened_again(chunk_digests: bool) -> Bench {
    let options = Options { chunk_digests, ..Options::default() };
    let bench = Bench::open_by_hand_within(LIMIT, device::memory(), options.clone(), 7);
    for number in 0..COLD_KEYS {
        bench.put(&key(number), &value(number, 0, 13));
        if number % 1000 == 0 {
            bench.advance();
        }
    }
    bench.store.flush().expect("flushes");
    bench.store.close().expect("closes");
    let opened = Bench::open_by_hand_within(LIMIT, Arc::clone(&bench.device), options, 8);
    assert!(opened.figure("cold_index_entries") > COLD_KEYS / 2);
    opened
}

const LIMIT: u64 = 16 << 20;
const COLD_KEYS: u64 = 300_000;

/// Gets keys anywhere in the store, from the first number of `gets` to the second.
fn read_anywhere(bench: &Bench, gets: std::ops::Range<u64>) {
    for get in gets {
        let number = get * 7_919 % COLD_KEYS;
        assert_eq!(bench.get(&key(number)), Some(value(number, 0, 13)));
        if get % 100 == 0 {
            bench.advance();
            let used = bench.memory.used();
            assert!(used <= LIMIT, "{used} bytes");
        }
    }
}

/// Returns the device reads per lookup of these gets after opening.
fn reads_after_opening(bench: &Bench, gets: std::ops::Range<u64>) -> f64 {
    let before = (bench.figure("lookup_reads"), bench.figure("lookups"));
    read_anywhere(bench, gets);
    let reads = bench.figure("lookup_reads") - before.0;
    reads as f64 / (bench.figure("lookups") - before.1) as f64
}

/// A pass over the chunk log makes the digests in less than one lookup for each ten chunks.
#[test]
fn soon_after_opening_a_cold_key_costs_one_read() {
    let bench = opened_again(true);
    let chunks = bench.figure("cold_index_chunks");
    let first = reads_after_opening(&bench, 0..chunks / 10);
    let then = reads_after_opening(&bench, chunks / 10..chunks / 5);
    let pass = bench.figure("chunk_digest_pass_bytes");
    let without = reads_after_opening(&opened_again(false), 0..chunks / 5);
    println!("{chunks} chunks: {first:.2} reads, then {then:.2}, {without:.2} without digests");
    assert!(then < 1.1 && without > 1.5, "{then} reads, {without} without digests");
    assert!(pass > 0 && pass <= bench.figure("chunk_log_bytes"), "{pass} bytes of the chunk log");
}

/// Memory that log and cache do not fill is lent to the digests, and returns when log and cache
/// fill it.
#[test]
fn memory_that_is_lent_to_digests_comes_back_as_it_is_wanted() {
    let bench = opened_again(true);
    let share = bench.figure("log_pages");
    (0..10).for_each(|_| bench.advance());
    assert_eq!(bench.figure("chunk_digest_bytes_allowed"), 0, "nobody has asked");
    bench.get(&key(1));
    bench.store.shared.balance_memory();
    assert!(bench.figure("log_pages") < share, "the log lends what it does not fill");
    assert_eq!(bench.figure("chunk_digest_bytes_allowed"), 0, "before the log is within its limit");
    read_anywhere(&bench, 0..400);
    let lent = bench.figure("chunk_digest_bytes_allowed");
    let lent_pages = share - bench.figure("log_pages");
    assert!(lent_pages > 8 && lent >= 1 << 20, "{lent_pages} pages, {lent} bytes");
    // Writes of new keys fill the log.
    for number in COLD_KEYS..COLD_KEYS + 60_000 {
        bench.put(&key(number), &value(number, 0, 13));
        if number % 100 == 0 {
            bench.advance();
            let used = bench.memory.used();
            assert!(used <= LIMIT, "{used} bytes");
        }
    }
    let log_pages = bench.figure("log_pages");
    assert!(log_pages > share - lent_pages, "{log_pages} pages, of {share}");
    let left = bench.figure("chunk_digest_bytes_allowed");
    assert!(left < lent / 2, "{left} bytes of {lent}");
    read_anywhere(&bench, 0..2_000);
}

/// The number of pages of a store decides whether a cache is worth its memory.
#[test]
fn a_small_store_of_small_pages_has_a_cache_and_digests() {
    let pages = |count: u64| Options { log_memory_bytes: Some(count * 4096), ..tiny() };
    let bench = Bench::open_by_hand(device::memory(), pages(20), 7);
    assert!(bench.store.shared.cache.bytes_max() > 0, "it has a fifth page");
    assert!(bench.store.shared.memory.split.plan().digest_bytes_max() > 0);
    let bench = Bench::open_by_hand(device::memory(), pages(12), 7);
    assert_eq!(bench.store.shared.cache.bytes_max(), 0, "three pages are no cache");
}
