//! Laws of the whole store: no update is lost, and what is changed in place costs no disk.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use engine::Engine;
use environment::{Random, Seed};
use rand::RngExt;

use super::stores::{Add, Bench, count, key, tiny, value};
use super::two_logs::small_cold;
use crate::Options;

const THREADS: u64 = 4;

/// What has to have happened beside the updates of many counters.
const BESIDE: [(&str, u64); 5] = [
    ("compactions", 10),
    ("cold_compactions", 3),
    ("read_cache_evicted", 100),
    ("index_buckets", 64),
    ("checkpoint", 20),
];

/// Updates of each thread, at least.
const ROUNDS: u64 = 3_000;

/// Small enough for all of it, and not so small that writers wait for compaction most of the time.
fn small() -> Options {
    Options {
        disk_bytes_max: Some(192 << 10),
        cold_disk_bytes_max: Some(256 << 10),
        ..small_cold()
    }
}

/// Threads count `counters` up, each so often, until all of `beside` has happened beside them.
fn count_up(counters: u64, beside: &[(&str, u64)]) {
    let bench = Bench::open(small());
    let happened = || beside.iter().all(|(name, least)| bench.figure(name) >= *least);
    let is_over = AtomicBool::new(false);
    let counted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (bench, counted, is_over, happened) = (&bench, &counted, &is_over, &happened);
        scope.spawn(move || {
            let mut draw = Seed::from(counters).stream("reads");
            while !is_over.load(SeqCst) {
                bench.store.flush().expect("flushes");
                for _ in 0..200 {
                    bench.get(&key(draw.random_range(0..counters)));
                }
            }
        });
        let counting: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    let mut draw = Seed::from(counters).stream(&format!("thread {thread}"));
                    for round in 0_u64.. {
                        bench.rmw(&key(draw.random_range(0..counters)), &mut Add);
                        counted.fetch_add(1, SeqCst);
                        // Keys that nobody counts push the counters out of memory.
                        let filler = format!("filler {}", draw.random_range(0..3_000));
                        bench.put(filler.as_bytes(), &value(round, 0, 8));
                        if round >= ROUNDS && round.is_multiple_of(100) && happened() {
                            return;
                        }
                    }
                })
            })
            .collect();
        counting.into_iter().for_each(|thread| thread.join().expect("counts"));
        is_over.store(true, SeqCst);
    });
    let sum =
        |bench: &Bench| (0..counters).map(|number| count(bench.get(&key(number)))).sum::<u64>();
    let counted = counted.load(SeqCst);
    println!("{counted} updates of {counters} counters");
    assert_eq!(sum(&bench), counted);
    let bench = bench.reopen(small());
    assert_eq!(sum(&bench), counted, "after opening again");
}

#[test]
fn law_no_update_of_one_counter_is_lost() {
    count_up(1, &BESIDE[..2]);
}

#[test]
fn law_no_update_of_few_counters_is_lost() {
    count_up(40, &BESIDE[..2]);
}

#[test]
fn law_no_update_of_more_counters_than_fit_in_memory_is_lost() {
    count_up(3_000, &BESIDE);
}

/// Draws numbers below `count`, the first most, by Zipf's law with the exponent 0.99.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(count: u64) -> Self {
        let mut sum = 0.0;
        Self(
            (1..=count)
                .map(|rank| {
                    sum += (rank as f64).powf(-0.99);
                    sum
                })
                .collect(),
        )
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let sum = self.0.last().copied().unwrap_or(0.0);
        let at = random.random_range(0.0..sum);
        self.0.partition_point(|upto| *upto <= at) as u64
    }
}

#[test]
fn law_updates_of_a_hot_set_that_fits_write_nothing() {
    const HOT: u64 = 1_500;
    const UPDATES: u64 = 50_000;
    // 64 pages, of which nine tenths are mutable; the hot set takes half of that.
    let bench = Bench::open(Options { log_memory_bytes: Some(64 * 4096), ..tiny() });
    for number in 0..HOT {
        bench.put(&key(number), &value(number, 0, 8));
    }
    let written = || (bench.figure("log_tail"), bench.device.accounting().counts().write_bytes);
    let before = written();
    let zipf = Zipf::new(HOT);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (bench, zipf) = (&bench, &zipf);
            scope.spawn(move || {
                let mut random = Seed::from(1).stream(&format!("thread {thread}"));
                for version in 1..=UPDATES {
                    let number = zipf.draw(&mut random);
                    bench.put(&key(number), &value(number, version, 8));
                }
            });
        }
    });
    assert_eq!(written(), before, "{} updates", 2 * UPDATES);
}
