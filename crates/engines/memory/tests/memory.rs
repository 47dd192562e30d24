//! Memory that a store really takes ([`resident`]), under writes at its limit.
//!
//! It is also measured after the store is opened again.

use conformance::resident::{self, Case, Churn, Watched};
use thermocline_memory::{Options, Store};

const MIB: u64 = 1 << 20;
const BUDGET: u64 = 64 * MIB;
/// Slack: a twentieth of the budget; and thread stacks, the snapshot's buffers, and the program.
const CASE: Case = Case { name: "churn", budget: BUDGET, times: 1, slack: BUDGET / 20 + 16 * MIB };

/// The part of the others that has a process of its own; does nothing without a case.
#[test]
fn child() {
    if resident::case().is_none() {
        return;
    }
    arena::bound_heaps();
    let directory = tempfile::tempdir().expect("a directory");
    // A program that is started again has a heap without free pieces.
    let open = |host| {
        arena::trim_heaps();
        Store::open(host, Options::default())
    };
    let mut watched = Watched::new(CASE, directory.path(), 2, open);
    let churn = Churn { keys: BUDGET / 256, threads: 2, bytes: 3 * BUDGET };
    churn.run(&watched, 1);
    watched.resident.end_phase("written");
    for round in 2..4 {
        watched.reopen();
        watched.resident.end_phase("opened again");
        churn.run(&watched, round);
        watched.resident.end_phase("written again");
    }
    watched.end();
}

#[test]
fn a_store_at_its_limit_keeps_within_its_budget_also_after_it_is_opened_again() {
    resident::run_alone(CASE.name);
}
