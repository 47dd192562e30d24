//! Nothing is lost: read-modify-writes of several threads, without any lock of theirs.

use engine::Engine;

use super::stores::{Add, Bench, count, key, tiny};
use crate::Options;

const THREADS: u64 = 4;
const ROUNDS: u64 = 6_000;

/// Every thread counts `keys` counters up in an order of its own while the store is flushed again
/// and again; then the sum must be exact, also after the store was opened again.
fn count_up(keys: u64, options: &Options) -> Bench {
    let bench = Bench::open(options.clone());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let bench = &bench;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let number = (round * (2 * thread + 1) + thread) % keys;
                    bench.rmw(&key(number), &mut Add);
                    if round % 1500 == 0 {
                        bench.store.flush().expect("flushes");
                    }
                }
            });
        }
    });
    let sum = |bench: &Bench| (0..keys).map(|number| count(bench.get(&key(number)))).sum::<u64>();
    assert_eq!(sum(&bench), THREADS * ROUNDS);
    let rounds = bench.figure("compactions");
    println!("{keys} keys: {rounds} compactions, index {} buckets", bench.figure("index_buckets"));
    let bench = bench.reopen(options.clone());
    assert_eq!(sum(&bench), THREADS * ROUNDS, "after opening again");
    bench
}

#[test]
fn one_counter_is_exact() {
    count_up(1, &tiny());
}

#[test]
fn few_counters_are_exact() {
    count_up(50, &tiny());
}

#[test]
fn more_counters_than_fit_in_memory_are_exact() {
    count_up(3_000, &tiny());
}

#[test]
fn counters_are_exact_beside_compaction() {
    let options = Options { disk_bytes_max: Some(160 << 10), ..tiny() };
    count_up(1_000, &options);
}
