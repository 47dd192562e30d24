//! What writers owe for a compaction that is behind, and when they pay.

use std::sync::atomic::Ordering::Relaxed;

use super::{Level, Pressure};

/// More than is paid at once, in three writes.
const THIRD_NANOS: u64 = 70_000;

fn behind(write_nanos: u64) -> Pressure {
    let pressure = Pressure::default();
    pressure.set(Level::Behind(write_nanos), false);
    pressure
}

fn owed(pressure: &Pressure) -> u64 {
    pressure.owed_nanos.load(Relaxed)
}

#[test]
fn a_write_owes_with_the_square_of_the_excess() {
    assert_eq!(Level::of(1.0, 1.0), Level::None);
    assert_eq!(Level::of(0.2, 1.5), Level::Behind(2_500_000));
    assert_eq!(Level::of(1.5, 0.2), Level::Behind(2_500_000));
    assert_eq!(Level::of(0.0, 2.0), Level::Behind(10_000_000));
    assert_eq!(Level::of(0.0, 9.0), Level::Behind(10_000_000), "disk is not refused here");
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

#[test]
fn what_a_batch_owes_beyond_one_wait_stays_owed_up_to_a_bound() {
    let pressure = behind(1_000_000);
    pressure.wait(12, 0).expect("is behind only");
    assert_eq!(owed(&pressure), 7_000_000, "five milliseconds were paid");
    pressure.wait(1_000_000, 0).expect("is behind only");
    assert_eq!(owed(&pressure), 95_000_000);
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

/// They would wait for hours if each waited for all that the batches owe.
#[test]
fn a_wait_has_a_bound() {
    let pressure = behind(u64::MAX / 2);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| pressure.wait(3, 0).expect("is behind only"));
        }
    });
}
