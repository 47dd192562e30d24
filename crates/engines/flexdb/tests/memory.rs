//! The memory that a store really takes ([`resident`]).
//!
//! Several times its budget is written to it by several threads, with an old snapshot held, and
//! read by gets and scans. With a journal, by which several memtables are committed as one, keys
//! are also overwritten at full speed, some far more often than others.

use std::path::Path;

use conformance::resident::{self, Case, Churn, Pairs, Watched};
use reads::BlockingReads;
use thermocline_flexdb::{Options, Store};

const MIB: u64 = 1 << 20;
const VALUE_BYTES: usize = 127;
const THREADS: u64 = 2;

/// Bytes in addition to the budget: stacks of threads, the system's memory for the program itself,
/// and memory that the allocator has not returned yet. The store asks for that in the background,
/// once a sixteenth of the budget was cached; how much is added until it is done depends on other
/// work of the machine.
const CASES: [Case; 4] = [
    Case { name: "small", budget: 16 * MIB, times: 4, slack: 6 * MIB },
    Case { name: "large", budget: 64 * MIB, times: 2, slack: 6 * MIB },
    Case { name: "written", budget: 32 * MIB, times: 3, slack: 6 * MIB },
    Case { name: "churn", budget: 32 * MIB, times: 1, slack: 32 * MIB / 20 + 16 * MIB },
];

/// Puts and deletes of short and long values at the limit, before and after the store is opened
/// again.
fn churn(mut watched: Watched<Store>, budget: u64) {
    let churn = Churn { keys: budget / 64, threads: 2, bytes: 4 * budget };
    churn.run(&watched, 1);
    watched.resident.end_phase("churned");
    watched.reopen();
    churn.run(&watched, 2);
    watched.resident.end_phase("churned again");
    watched.end();
}
/// Puts of each thread in the case that is written over, and Zipf's exponent.
const PUTS: u64 = 400_000;
const THETA: f64 = 0.99;

fn key(number: u64) -> Vec<u8> {
    format!("user{:023}", codec::hash64(7, &number.to_le_bytes())).into_bytes()
}

/// The part of the others that has a process of its own; without a case there is nothing to
/// measure.
#[test]
fn child() {
    let Some(name) = resident::case() else { return };
    let case = CASES.into_iter().find(|case| case.name == name).expect("a case of that name");
    // As every program of ours does that has a store.
    arena::bound_heaps();
    let directory = tempfile::tempdir().expect("a directory");
    let count = case.times * case.budget / (27 + VALUE_BYTES as u64);
    let pairs = Pairs { count, threads: THREADS, key, value_bytes: VALUE_BYTES };
    if case.name == "written" {
        return write_over(case, directory.path(), pairs);
    }
    let open = |host| Store::open(host, Options::default());
    let mut watched = Watched::new(case, directory.path(), 2, open);
    if case.name == "churn" {
        return churn(watched, case.budget);
    }
    pairs.write(&watched, 1, 1);
    watched.resident.end_phase("loaded");
    let pin = watched.sequence().pin();
    pairs.write(&watched, 3, 2);
    watched.resident.end_phase("updated with a snapshot held");
    let (mut value, number) = (Vec::new(), 3 * THREADS);
    assert_eq!(watched.store().get_at(&key(number), &pin, &mut value), Ok(true));
    assert_eq!(value, [1; VALUE_BYTES], "as it was");
    drop(pin);
    pairs.read(&watched, 2);
    watched.resident.end_phase("read");
    pairs.walk(&watched);
    watched.resident.end_phase("walked over");
    watched.reopen();
    pairs.read(&watched, 2);
    watched.resident.end_phase("opened and read");
    pairs.write(&watched, 3, 3);
    watched.resident.end_phase("written to after reading");
    watched.end();
}

/// Commits follow each other without a pause, and writers wait for them.
fn write_over(case: Case, directory: &Path, pairs: Pairs) {
    // The test's own memory exists before anything is watched.
    let weights = (1..=pairs.count).map(|rank| (rank as f64).powf(-THETA));
    let shares: Vec<f64> = weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let all = shares.last().copied().unwrap_or_default();
    let open = |host| Store::open(host, Options::default());
    let mut watched = Watched::journaled(case, directory, 2, open);
    pairs.write(&watched, 1, 1);
    watched.resident.end_phase("loaded");
    std::thread::scope(|scope| {
        for thread in 0..pairs.threads {
            let (watched, shares) = (&watched, &shares);
            scope.spawn(move || {
                for number in 0..PUTS {
                    let draw = codec::hash64(thread, &number.to_le_bytes()) as f64;
                    let wanted = draw / u64::MAX as f64 * all;
                    let drawn = shares.partition_point(|share| *share < wanted) as u64;
                    // A key of this thread's own: no other thread writes it meanwhile.
                    let drawn = drawn / pairs.threads * pairs.threads + thread;
                    watched.put(&(pairs.key)(drawn), &[number as u8; VALUE_BYTES]);
                }
            });
        }
    });
    watched.resident.end_phase("written over");
    watched.end();
}

#[test]
fn a_store_keeps_within_its_budget() {
    resident::run_alone("small");
}

#[test]
fn a_store_that_is_written_over_keeps_within_its_budget() {
    resident::run_alone("written");
}

#[test]
fn a_store_with_more_memory_keeps_within_its_budget() {
    resident::run_alone("large");
}

#[test]
fn a_store_of_short_and_long_values_keeps_within_its_budget_also_after_it_is_opened_again() {
    resident::run_alone("churn");
}
