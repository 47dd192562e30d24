//! Steps by updates that are put, and the writers that wait for them.

use super::{BEFORE, BEHIND, Pace, STEPS};

/// Bytes of a step, updates of one, and those of all steps that go by updates.
const STEP: u64 = 100;
const UPDATES: u64 = 7;
const BETWEEN: u64 = STEPS - BEFORE - BEHIND;

#[test]
fn room_comes_step_by_step_and_all_of_it_at_the_end() {
    let pace = Pace::default();
    assert_eq!(pace.allowed(), u64::MAX);
    let pacing = pace.begin(BETWEEN * UPDATES, 1000, 1000 + STEPS * STEP);
    assert_eq!(pace.allowed(), 1000 + BEFORE * STEP);
    for step in 1..BETWEEN {
        pace.advance(UPDATES - 1);
        assert_eq!(pace.allowed(), 1000 + (BEFORE + step - 1) * STEP, "step {step}");
        pace.advance(1);
        assert_eq!(pace.allowed(), 1000 + (BEFORE + step) * STEP, "step {step}");
    }
    pace.advance(UPDATES);
    assert_eq!(pace.allowed(), 1000 + STEPS * STEP);
    drop(pacing);
    assert_eq!(pace.allowed(), u64::MAX);
}

/// After a commit that put half of its versions, the next one advances as far with half the
/// updates.
#[test]
fn what_the_last_commit_put_is_what_the_next_one_is_measured_by() {
    let pace = Pace::default();
    let versions = 2 * BETWEEN * UPDATES;
    for updates in [2 * UPDATES, UPDATES, UPDATES] {
        let pacing = pace.begin(versions, 0, STEPS * STEP);
        pace.advance(updates);
        assert_eq!(pace.allowed(), (BEFORE + 1) * STEP);
        pace.advance(versions / 2 - updates);
        pace.note_all_put();
        assert_eq!(pace.allowed(), STEPS * STEP);
        drop(pacing);
    }
}

#[test]
fn a_commit_that_is_broken_off_holds_nobody_up_any_more() {
    let pace = Pace::default();
    drop(pace.begin(100, 0, 100));
    assert_eq!(pace.allowed(), u64::MAX);
    // Nor does one that has nothing to put, or finds no room left.
    let pacing = pace.begin(0, 200, 100);
    assert_eq!(pace.allowed(), 200);
    pace.note_all_put();
    assert_eq!(pace.allowed(), 200);
    drop(pacing);
    assert_eq!(pace.allowed(), u64::MAX);
}

/// A writer that waits continues with the step that it needs, even if others come first.
#[test]
fn whoever_waits_goes_on_with_its_step() {
    let pace = Pace::default();
    let pacing = pace.begin(BETWEEN, 0, STEPS * STEP);
    std::thread::scope(|scope| {
        for step in 1..BETWEEN {
            let pace = &pace;
            scope.spawn(move || pace.wait(|| pace.allowed() >= (BEFORE + step) * STEP));
        }
        for _ in 1..BETWEEN {
            pace.advance(1);
        }
    });
    drop(pacing);
}
