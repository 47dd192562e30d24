//! The memory that a store really takes ([`resident`]), while it is loaded, updated, collected,
//! read and walked over. The values are several times its budget.

use conformance::resident::{self, Case, Churn, Pairs, Watched};
use thermocline_hashkv::{Options, Store};

const MIB: u64 = 1 << 20;

/// In addition to the budget: stacks of threads, the system's memory for the program itself, and
/// buffers that were freed and that the allocator keeps.
const CASES: [Case; 4] = [
    Case { name: "least", budget: 4 * MIB, times: 8, slack: 8 * MIB },
    Case { name: "small", budget: 16 * MIB, times: 4, slack: 8 * MIB },
    Case { name: "large", budget: 64 * MIB, times: 2, slack: 8 * MIB },
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

/// The part of the others that has a process of its own; without a case there is nothing to
/// measure.
#[test]
fn child() {
    let Some(name) = resident::case() else { return };
    let case = CASES.into_iter().find(|case| case.name == name).expect("a case of that name");
    // As every program of ours does that has a store.
    arena::bound_heaps();
    let directory = tempfile::tempdir().expect("a directory");
    let pairs = Pairs {
        count: case.times * case.budget / 408,
        threads: 2,
        key: |number| codec::hash64(7, &number.to_le_bytes()).to_be_bytes().to_vec(),
        value_bytes: 400,
    };
    let open = |host| Store::open(host, Options::default());
    let mut watched = Watched::new(case, directory.path(), 2, open);
    if case.name == "churn" {
        return churn(watched, case.budget);
    }
    pairs.write(&watched, 1, 1);
    watched.resident.end_phase("loaded");
    pairs.write(&watched, 1, 2);
    watched.resident.end_phase("updated and collected");
    pairs.read(&watched, 5);
    watched.resident.end_phase("read");
    pairs.write(&watched, 3, 3);
    watched.resident.end_phase("written to after reading");
    pairs.walk(&watched);
    watched.resident.end_phase("walked over");
    watched.reopen();
    pairs.read(&watched, 5);
    watched.resident.end_phase("opened and read");
    watched.end();
}

#[test]
fn a_store_of_the_least_memory_keeps_within_its_budget() {
    resident::run_alone("least");
}

#[test]
fn a_store_keeps_within_its_budget() {
    resident::run_alone("small");
}

#[test]
fn a_store_with_more_memory_keeps_within_its_budget() {
    resident::run_alone("large");
}

#[test]
fn a_store_of_short_and_long_values_keeps_within_its_budget_also_after_it_is_opened_again() {
    resident::run_alone("churn");
}
