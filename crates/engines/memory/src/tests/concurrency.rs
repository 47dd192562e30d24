//! Many threads at the same time: nothing lost, nothing torn, views consistent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use engine::{Change, Direction, Engine, KeyRange, Op};
use rand::{RngExt, SeedableRng};
use reads::BlockingReads;
use sync::locks::Mutex;

use super::stores::{Bench, key, scan};

const THREADS: u64 = 4;

/// The host's part of law L6: one writer per key at a time.
struct KeyLocks([Mutex<()>; 16]);

impl KeyLocks {
    fn new() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }

    fn of(&self, number: u64) -> &Mutex<()> {
        &self.0[number as usize % self.0.len()]
    }
}

fn add_one(value: Option<&[u8]>) -> Change {
    let count = value.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")));
    Change::Put((count + 1).to_le_bytes().to_vec())
}

/// Adds in place, as the server's counters do.
struct Add;

impl engine::Operator for Add {
    fn update_in_place(&mut self, value: &mut [u8]) -> bool {
        let count = u64::from_le_bytes(value.try_into().expect("8 bytes"));
        value.copy_from_slice(&(count + 1).to_le_bytes());
        true
    }

    fn update(&mut self, value: Option<&[u8]>) -> Change {
        add_one(value)
    }
}

#[test]
fn counters_are_exact_beside_flushes_scans_and_splits() {
    const ADDS: u64 = 20_000;
    let bench = Bench::new();
    let locks = KeyLocks::new();
    let done = AtomicBool::new(false);
    let adder = |thread: u64| {
        let mut dice = random(thread);
        for round in 0..ADDS {
            // Neighbouring keys come late, so that leaves of counters split under way.
            let number = dice.random_range(0..=round / 20);
            let held = locks.of(number).lock();
            let ticket = bench.sequence.begin();
            let result = if round % 2 == 0 {
                bench.store.rmw(&key(number), &mut Add, ticket.seqno())
            } else {
                bench.store.rmw(&key(number), &mut add_one, ticket.seqno())
            };
            result.expect("the write is taken");
            drop((ticket, held));
        }
    };
    std::thread::scope(|scope| {
        let adders: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || adder(thread))).collect();
        scope.spawn(|| {
            while !done.load(Relaxed) {
                bench.store.flush().expect("flushes");
            }
        });
        scope.spawn(|| {
            let mut last = 0;
            while !done.load(Relaxed) {
                let sum = sum(&bench);
                assert!(sum >= last, "a later view shows less: {sum} after {last}");
                last = sum;
            }
        });
        adders.into_iter().for_each(|adder| adder.join().expect("the adder ends"));
        done.store(true, Relaxed);
    });
    assert_eq!(sum(&bench), THREADS * ADDS);
    assert_eq!(bench.store.stats().live_keys, Some(bench.pairs().len() as u64));
    assert_eq!(bench.budget.used(), bench.store.stats().memory_bytes);
}

fn sum(bench: &Bench) -> u64 {
    let value = |(_, value): (_, Vec<u8>)| u64::from_le_bytes(value.try_into().expect("8 bytes"));
    bench.pairs().into_iter().map(value).sum()
}

fn random(seed: u64) -> environment::Random {
    environment::Random::seed_from_u64(seed)
}

/// An empty account is deleted, so that keys come and go as well.
fn balance<'a>(key: &'a [u8], value: &'a [u8; 8]) -> Op<'a> {
    if *value == [0; 8] { Op::Delete { key } } else { Op::Put { key, value } }
}

#[test]
fn transfers_keep_the_sum_of_every_view() {
    const ACCOUNTS: u64 = 500;
    const TRANSFERS: u64 = 6_000;
    const START: u64 = 1_000;
    /// Views that are made during the transfers, unless the transfers reach their limit first.
    const VIEWS_MIN: u64 = 10;
    let bench = Bench::new();
    for number in 0..ACCOUNTS {
        bench.put(&key(number), &START.to_le_bytes());
    }
    // One transfer at a time takes its two accounts, lower first; as the facade's key locks.
    let accounts: Vec<Mutex<u64>> = (0..ACCOUNTS).map(|_| Mutex::new(START)).collect();
    let done = AtomicBool::new(false);
    let views = AtomicU64::new(0);
    let transfer = |thread: u64| {
        let mut dice = random(100 + thread);
        for transfer in 0.. {
            let is_enough = views.load(Relaxed) >= VIEWS_MIN || transfer >= 100 * TRANSFERS;
            if transfer >= TRANSFERS && is_enough {
                break;
            }
            let (one, other) = (dice.random_range(0..ACCOUNTS), dice.random_range(0..ACCOUNTS));
            if one == other {
                continue;
            }
            let (low, high) = (one.min(other), one.max(other));
            let mut from = accounts[low as usize].lock();
            let mut to = accounts[high as usize].lock();
            let amount = dice.random_range(0..=*from);
            (*from, *to) = (*from - amount, *to + amount);
            let (low, high) = (key(low), key(high));
            let (from, to) = (from.to_le_bytes(), to.to_le_bytes());
            bench.apply(&[balance(&low, &from), balance(&high, &to)]);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || transfer(thread))).collect();
        for backward in [false, true] {
            let (bench, done, views) = (&bench, &done, &views);
            scope.spawn(move || {
                let direction = if backward { Direction::Backward } else { Direction::Forward };
                while !done.load(Relaxed) {
                    let pairs = scan(&bench.view(), KeyRange::all(), direction);
                    let value =
                        |value: &[u8]| u64::from_le_bytes(value.try_into().expect("8 bytes"));
                    let sum: u64 = pairs.iter().map(|(_, bytes)| value(bytes)).sum();
                    assert_eq!(sum, ACCOUNTS * START, "a view between two steps of a batch");
                    views.fetch_add(1, Relaxed);
                }
            });
        }
        workers.into_iter().for_each(|worker| worker.join().expect("the worker ends"));
        done.store(true, Relaxed);
    });
    assert!(views.load(Relaxed) >= VIEWS_MIN, "{} views", views.load(Relaxed));
}

#[test]
fn threads_that_fill_and_empty_the_same_ranges_lose_no_key() {
    const KEYS: u64 = 4_000;
    let bench = Arc::new(Bench::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let bench = &bench;
            scope.spawn(move || {
                for round in 0..3 {
                    // Each thread has every fourth key, so leaves belong to all of them.
                    let own = || (0..KEYS).map(|number| number * THREADS + thread);
                    for number in own() {
                        bench.put(&key(number), &number.to_le_bytes());
                        assert!(bench.get(&key(number)).is_some(), "a key is not where it was put");
                    }
                    if round < 2 {
                        for number in own() {
                            bench.delete(&key(number));
                            assert!(bench.get(&key(number)).is_none(), "a deleted key is back");
                        }
                    }
                }
            });
        }
    });
    assert_eq!(bench.store.stats().live_keys, Some(KEYS * THREADS));
    let pairs = bench.pairs();
    assert!(pairs.iter().zip(0..).all(|((found, _), number)| *found == key(number)));
    assert_eq!(pairs.len() as u64, KEYS * THREADS);
    assert!(bench.detail("merges") > 0, "leaves were to be merged on the way");
    // `stats` counts the leaves from its counters; the walk is the exact count.
    assert_eq!(bench.detail("leaves"), bench.store.shared.map.walk_leaves());
}
