//! Steps by updates that are put.

use environment::Environment;
use workers::{Group, Order, Pool};

use super::{BEFORE, BEHIND, CommitSteps, STEPS};

fn group() -> Group {
    let telemetry = telemetry::Registry::default();
    Pool::hand_cranked(&Environment::real(), &telemetry, Order::InOrder).0.group("test")
}

/// Bytes of a step, updates of one, and those of all steps that go by updates.
const STEP: u64 = 100;
const UPDATES: u64 = 7;
const BETWEEN: u64 = STEPS - BEFORE - BEHIND;

#[test]
fn room_comes_step_by_step_and_all_of_it_at_the_end() {
    let (steps, group) = (CommitSteps::default(), group());
    assert_eq!(steps.allowed(), u64::MAX);
    let stepping = steps.begin(&group, BETWEEN * UPDATES, 1000, 1000 + STEPS * STEP);
    assert_eq!(steps.allowed(), 1000 + BEFORE * STEP);
    for step in 1..BETWEEN {
        steps.advance(&group, UPDATES - 1);
        assert_eq!(steps.allowed(), 1000 + (BEFORE + step - 1) * STEP, "step {step}");
        steps.advance(&group, 1);
        assert_eq!(steps.allowed(), 1000 + (BEFORE + step) * STEP, "step {step}");
    }
    steps.advance(&group, UPDATES);
    assert_eq!(steps.allowed(), 1000 + STEPS * STEP);
    drop(stepping);
    assert_eq!(steps.allowed(), u64::MAX);
}

/// After a commit that put half of its versions, the next one advances as far with half the
/// updates.
#[test]
fn a_commit_is_expected_to_put_as_much_as_the_last_one() {
    let (steps, group) = (CommitSteps::default(), group());
    let versions = 2 * BETWEEN * UPDATES;
    for updates in [2 * UPDATES, UPDATES, UPDATES] {
        let stepping = steps.begin(&group, versions, 0, STEPS * STEP);
        steps.advance(&group, updates);
        assert_eq!(steps.allowed(), (BEFORE + 1) * STEP);
        steps.advance(&group, versions / 2 - updates);
        steps.note_all_put(&group);
        assert_eq!(steps.allowed(), STEPS * STEP);
        drop(stepping);
    }
}

#[test]
fn a_commit_that_is_broken_off_limits_no_writer() {
    let (steps, group) = (CommitSteps::default(), group());
    drop(steps.begin(&group, 100, 0, 100));
    assert_eq!(steps.allowed(), u64::MAX);
    // Nor does one that has nothing to put, or finds no room left.
    let stepping = steps.begin(&group, 0, 200, 100);
    assert_eq!(steps.allowed(), 200);
    steps.note_all_put(&group);
    assert_eq!(steps.allowed(), 200);
    drop(stepping);
    assert_eq!(steps.allowed(), u64::MAX);
}
