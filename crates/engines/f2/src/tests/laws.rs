//! Laws of the whole store: no update is lost, and changes in place cost no disk.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use engine::Engine;
use environment::{Random, Seed};
use rand::RngExt;

use super::stores::{Add, Bench, count, key, tiny, value};
use super::two_logs::small_cold;
use crate::Options;

const THREADS: u64 = 4;

/// Figures that the store must reach during the updates of many counters. The read cache has room
/// for fewer records. Its evictions are not counted here: if reads are slow, writes take most
/// copies off the chains first.
const BESIDE: [(&str, u64); 5] = [
    ("compactions", 10),
    ("cold_compactions", 3),
    ("read_cache_inserted", 500),
    ("index_buckets", 64),
    ("checkpoint", 20),
];

/// Updates of each thread, at least.
const ROUNDS: u64 = 3_000;

/// Returns options of a store that is small enough for all of it, and not so small that writers
/// wait for compaction most of the time.
fn small() -> Options {
    Options {
        disk_bytes_max: Some(192 << 10),
        cold_disk_bytes_max: Some(256 << 10),
        ..small_cold()
    }
}

/// Threads count `counters` counters up, each thread at least `ROUNDS` times, until all figures of
/// `beside` have been reached meanwhile.
fn count_up(counters: u64, beside: &[(&str, u64)]) {
    let bench = Bench::open(small());
    count_up_in(&bench, 3_000, counters, beside, 0);
    let counted = sum(&bench, counters);
    let bench = bench.reopen(small());
    assert_eq!(sum(&bench, counters), counted, "after opening again");
}

fn sum(bench: &Bench, counters: u64) -> u64 {
    (0..counters).map(|number| count(bench.get(&key(number)))).sum()
}

/// Counts up in a store that is open, next to writes and reads of `fillers` other keys, until
/// compaction was seen to be behind `behind_min` times too. Returns how often it was.
fn count_up_in(
    bench: &Bench,
    fillers: u64,
    counters: u64,
    beside: &[(&str, u64)],
    behind_min: u64,
) -> u64 {
    let happened = || beside.iter().all(|(name, least)| bench.figure(name) >= *least);
    let is_over = AtomicBool::new(false);
    let (counted, behind) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let (counted, behind, is_over, happened) = (&counted, &behind, &is_over, &happened);
        let is_behind = || behind.load(SeqCst) >= behind_min;
        scope.spawn(move || {
            let mut draw = Seed::from(counters).stream("reads");
            while !is_over.load(SeqCst) {
                bench.store.flush().expect("flushes");
                for _ in 0..200 {
                    bench.get(&key(draw.random_range(0..counters)));
                    bench.get(&filler(draw.random_range(0..fillers)));
                    behind.fetch_add(u64::from(!bench.store.shared.admission.is_none()), SeqCst);
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
                        // Keys without a counter push the counters out of memory.
                        let filler = filler(draw.random_range(0..fillers));
                        bench.put(&filler, &value(round, 0, 8));
                        if round >= ROUNDS && round.is_multiple_of(100) && happened() && is_behind()
                        {
                            return;
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = counting.into_iter().map(|thread| thread.join()).collect();
        is_over.store(true, SeqCst);
        ended.into_iter().for_each(|thread| thread.expect("counts"));
    });
    let counted = counted.load(SeqCst);
    println!("{counted} updates of {counters} counters");
    assert_eq!(sum(bench, counters), counted);
    behind.load(SeqCst)
}

fn filler(number: u64) -> Vec<u8> {
    format!("filler {number}").into_bytes()
}

#[test]
fn law_no_update_of_one_counter_is_lost() {
    count_up(1, &BESIDE);
}

#[test]
fn law_no_update_of_few_counters_is_lost() {
    count_up(40, &BESIDE);
}

#[test]
fn law_no_update_of_more_counters_than_fit_in_memory_is_lost() {
    count_up(3_000, &BESIDE);
}

/// The store has a budget, memory that moves between log and cache, an index whose growth is
/// limited, and writers that wait for compaction.
#[test]
fn law_no_update_is_lost_where_memory_is_short() {
    let options = Options {
        page_bytes: Some(4096),
        segment_bytes: 64 << 10,
        cold_disk_bytes_max: Some(8 << 20),
        ..Options::default()
    };
    let beside = [
        ("compactions", 5),
        ("cold_compactions", 2),
        ("read_cache_evicted", 1_000),
        ("index_buckets", 1_024),
        ("checkpoint", 5),
    ];
    for counters in [1, 40, 3_000] {
        let bench = Bench::open_made_for(3 << 20, options.clone());
        let behind = count_up_in(&bench, 60_000, counters, &beside, 1);
        let moves = ["memory_moves_to_log", "memory_moves_to_read_cache"];
        let moves: u64 = moves.iter().map(|name| bench.figure(name)).sum();
        assert!(moves > 0, "memory has not moved");
        assert!(bench.figure("chunk_digest_hits") > 0, "no digest was used");
        println!("{behind} times behind, {moves} moves of memory");
    }
}

/// Versions of keys. One thread writes each key, its versions in order; every third is a delete. A
/// reader knows the version that was written before its read, and the one that had begun by its
/// end.
struct Versions {
    begun: Vec<AtomicU64>,
    written: Vec<AtomicU64>,
}

impl Versions {
    const DELETES: u64 = 3;

    fn new(keys: u64) -> Self {
        let none = || (0..keys).map(|_| AtomicU64::new(0)).collect();
        Self { begun: none(), written: none() }
    }

    fn write(&self, bench: &Bench, number: u64) {
        let version = self.begun[number as usize].fetch_add(1, SeqCst) + 1;
        match version % Self::DELETES {
            0 => bench.delete(&key(number)),
            _ => bench.put(&key(number), &value(number, version, 8)),
        }
        self.written[number as usize].store(version, SeqCst);
    }

    /// Reads a key that had at least version `floor` before; returns the least version that it has
    /// now.
    fn read(&self, bench: &Bench, number: u64, floor: u64) -> u64 {
        let least = self.written[number as usize].load(SeqCst).max(floor);
        let found = bench.get(&key(number));
        let most = self.begun[number as usize].load(SeqCst);
        let Some(found) = found else {
            let deleted = least.next_multiple_of(Self::DELETES);
            assert!(deleted <= most, "key {number} is absent in versions {least} to {most}");
            return deleted;
        };
        let version = u64::from_le_bytes(*found[8..].first_chunk().expect("a version"));
        assert_eq!(found, value(number, version, 8), "key {number}");
        let may_be = (least..=most).contains(&version) && version % Self::DELETES != 0;
        assert!(may_be, "key {number} has version {version} of {least} to {most}");
        version
    }
}

#[test]
fn law_versions_of_a_key_only_rise() {
    const KEYS: u64 = 1_000;
    const WRITERS: u64 = 2;
    let bench = Bench::open(small());
    let versions = Versions::new(KEYS);
    let beside = [("compactions", 30), ("cold_compactions", 5), ("checkpoint", 20)];
    let is_over = || beside.iter().all(|(name, least)| bench.figure(name) >= *least);
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (bench, versions, is_over, has_ended) = (&bench, &versions, &is_over, &has_ended);
        scope.spawn(move || {
            while !has_ended.load(SeqCst) {
                bench.store.flush().expect("flushes");
            }
        });
        for reader in 0..2 {
            scope.spawn(move || {
                let mut draw = Seed::from(reader).stream("reads");
                let mut floors = vec![0; KEYS as usize];
                while !has_ended.load(SeqCst) {
                    let number = draw.random_range(0..KEYS);
                    let floor = &mut floors[number as usize];
                    *floor = versions.read(bench, number, *floor);
                }
            });
        }
        let write_all = move |writer: u64| {
            let mut draw = Seed::from(writer).stream("writes");
            for round in 0_u64.. {
                versions.write(bench, draw.random_range(0..KEYS / WRITERS) * WRITERS + writer);
                if round.is_multiple_of(100) && is_over() {
                    return;
                }
            }
        };
        let writing: Vec<_> =
            (0..WRITERS).map(|writer| scope.spawn(move || write_all(writer))).collect();
        let ended: Vec<_> = writing.into_iter().map(|thread| thread.join()).collect();
        has_ended.store(true, SeqCst);
        ended.into_iter().for_each(|thread| thread.expect("writes"));
    });
    let bench = bench.reopen(small());
    for number in 0..KEYS {
        versions.read(&bench, number, 0);
    }
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
