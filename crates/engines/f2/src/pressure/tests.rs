//! The debt of writers to a compaction that is behind, and the time at which they pay.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use environment::{Environment, Monotonic};

use super::{Level, Pressure};

/// More than is worth a wait, in three writes.
const THIRD_NANOS: u64 = 70_000;

fn behind(unit_nanos: u64) -> Pressure {
    let pressure = Pressure::default();
    pressure.set(Level::Behind(unit_nanos), false);
    pressure
}

/// A clock, and the time by it.
fn clock() -> (Environment, Monotonic) {
    let clock = Environment::real();
    let begun = clock.now();
    (clock, begun)
}

fn owed(pressure: &Pressure) -> u64 {
    pressure.owed_nanos.load(Relaxed)
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
    let pressure = behind(THIRD_NANOS);
    for writes in [1, 2] {
        pressure.wait(1, 0).expect("is behind only");
        assert_eq!(owed(&pressure), writes * THIRD_NANOS);
    }
    pressure.wait(1, 0).expect("is behind only");
    assert_eq!(owed(&pressure), 0, "it was paid");
    pressure.wait(2, 0).expect("is behind only");
    assert_eq!(owed(&pressure), 2 * THIRD_NANOS, "a batch owes for each of its writes");
}

/// However many writers there are: they pay sequentially. (A wait is no shorter than the debt; the
/// test does not check how much longer it is.)
#[test]
fn many_writers_are_no_faster_than_one() {
    const OWED: Duration = Duration::from_millis(2);
    let pressure = behind(OWED.as_nanos() as u64);
    let (clock, begun) = clock();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| pressure.wait(1, 0).expect("is behind only"));
        }
    });
    // Some pay for another writer, whose turn comes with nothing left to pay, or leave it to the
    // next one.
    let elapsed = clock.now() - begun + Duration::from_nanos(owed(&pressure));
    assert!(elapsed >= 32 * OWED, "{elapsed:?}");
}

#[test]
fn a_long_write_owes_for_its_length() {
    let pressure = behind(1_000_000);
    let (clock, begun) = clock();
    pressure.wait(20, 0).expect("is behind only");
    let elapsed = clock.now() - begun;
    assert!(elapsed >= Duration::from_millis(10), "{elapsed:?}");
    assert_eq!(owed(&pressure), 10_000_000, "the rest is left to who comes next");
    pressure.wait(0, 0).expect("is behind only");
    assert_eq!(owed(&pressure), 0);
}

/// Debt that a writer does not pay is not forgiven, and does not grow without end.
#[test]
fn who_does_not_get_the_turn_leaves_what_is_owed() {
    let pressure = behind(THIRD_NANOS);
    let somebody = pressure.turn.lock();
    pressure.wait(3, 0).expect("is behind only");
    assert_eq!(owed(&pressure), 3 * THIRD_NANOS);
    pressure.set(Level::Behind(u64::MAX / 2), false);
    for _ in 0..3 {
        pressure.wait(1, 0).expect("is behind only");
        assert_eq!(owed(&pressure), 1_000_000_000);
    }
    drop(somebody);
    pressure.wait(0, 0).expect("is behind only");
    assert_eq!(owed(&pressure), 990_000_000, "a hundredth of a second was paid");
}

#[test]
fn nothing_is_owed_once_compaction_has_caught_up() {
    let pressure = behind(THIRD_NANOS);
    pressure.wait(2, 0).expect("is behind only");
    pressure.set(Level::Behind(THIRD_NANOS), false);
    assert_eq!(owed(&pressure), 2 * THIRD_NANOS, "it is behind still");
    pressure.set(Level::None, false);
    assert_eq!(owed(&pressure), 0);
    pressure.wait(3, 0).expect("nothing is behind");
    assert_eq!(owed(&pressure), 0);
}

#[test]
fn nobody_owes_for_what_is_not_coming() {
    let pressure = behind(THIRD_NANOS);
    pressure.set(Level::Behind(THIRD_NANOS), true);
    pressure.wait(2, 0).expect("is behind only");
    assert_eq!(owed(&pressure), 0);
}
