//! The debt of writers to a compaction that is behind, and the time at which they pay.

use std::sync::Arc;
use std::time::Duration;

use device::Device;
use environment::{Environment, Monotonic};

use super::{Admission, Level};
use crate::held_room::HeldRoom;

/// More than a writer waits for, in three writes.
const THIRD_NANOS: u64 = 70_000;

fn behind(unit_nanos: u64) -> Admission {
    let device: Arc<dyn Device> = device::memory();
    let room = HeldRoom::found(&device).expect("it is made");
    let admission = Admission::new(room, &Environment::real());
    admission.set(Level::Behind(unit_nanos), false);
    admission
}

/// A clock, and the time by it.
fn clock() -> (Environment, Monotonic) {
    let clock = Environment::real();
    let begun = clock.now();
    (clock, begun)
}

fn owed(admission: &Admission) -> u64 {
    admission.writers.debt_nanos()
}

#[test]
fn a_unit_owes_with_the_square_of_the_excess() {
    assert_eq!(Level::of(1.0, 1.0), Level::None);
    assert_eq!(Level::of(0.2, 1.5), Level::Behind(2_500_000));
    assert_eq!(Level::of(1.5, 0.2), Level::Behind(2_500_000));
    assert_eq!(Level::of(0.0, 2.0), Level::Behind(10_000_000));
    assert_eq!(Level::of(0.0, 9.0), Level::Behind(640_000_000), "disk is not refused here");
    assert_eq!(Level::of(0.0, 1e9), Level::Behind(1_000_000_000), "more is not owed");
    assert_eq!(Level::of(2.1, 0.0), Level::OutOfMemory);
    let Level::Behind(tenth) = Level::of(0.0, 1.1) else { panic!("a tenth too much is behind") };
    assert!((99_999..=100_001).contains(&tenth), "{tenth}");
}

#[test]
fn writes_owe_until_it_is_worth_waiting() {
    let admission = behind(THIRD_NANOS);
    for writes in [1, 2] {
        admission.delay(1);
        assert_eq!(owed(&admission), writes * THIRD_NANOS);
    }
    admission.delay(1);
    assert_eq!(owed(&admission), 0, "it was paid");
    admission.delay(2);
    assert_eq!(owed(&admission), 2 * THIRD_NANOS, "a batch owes for each of its writes");
}

/// However many writers there are: they pay sequentially. (A wait is no shorter than the debt; the
/// test does not check how much longer it is.)
#[test]
fn many_writers_are_no_faster_than_one() {
    const OWED: Duration = Duration::from_millis(2);
    let admission = behind(OWED.as_nanos() as u64);
    let (clock, begun) = clock();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| admission.delay(1));
        }
    });
    // Some pay for another writer, whose turn comes with nothing left to pay, or leave it to the
    // next one.
    let elapsed = clock.now() - begun + Duration::from_nanos(owed(&admission));
    assert!(elapsed >= 32 * OWED, "{elapsed:?}");
}

#[test]
fn a_long_write_owes_for_its_length() {
    let admission = behind(1_000_000);
    let (clock, begun) = clock();
    admission.delay(20);
    let elapsed = clock.now() - begun;
    assert!(elapsed >= Duration::from_millis(10), "{elapsed:?}");
    assert_eq!(owed(&admission), 10_000_000, "the next writer pays the rest");
    admission.delay(0);
    assert_eq!(owed(&admission), 0);
}

#[test]
fn nothing_is_owed_once_compaction_has_caught_up() {
    let admission = behind(THIRD_NANOS);
    admission.delay(2);
    admission.set(Level::Behind(THIRD_NANOS), false);
    assert_eq!(owed(&admission), 2 * THIRD_NANOS, "it still is behind");
    admission.set(Level::None, false);
    assert_eq!(owed(&admission), 0);
    admission.delay(3);
    assert_eq!(owed(&admission), 0);
}

#[test]
fn no_writer_waits_for_a_compaction_that_fails() {
    let admission = behind(THIRD_NANOS);
    admission.set(Level::Behind(THIRD_NANOS), true);
    admission.delay(2);
    assert_eq!(owed(&admission), 0);
}
