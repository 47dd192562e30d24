//! The models under loom.
//!
//! They run every execution that the memory model allows, within a bound on how often a thread is
//! interrupted; and every planted bug is found.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p thermocline-sync --profile models --test loom \
//!     --target-dir target/loom
//! ```
//!
//! There is nothing random here. A failure is seen again by the same command with
//! `LOOM_CHECKPOINT_FILE=loom.json` (twice: to record, and to run only the failing execution) and
//! `LOOM_LOG=trace`.
#![cfg(loom)]

mod models;

use models::locks::Broken;
use thermocline_sync::Planted;
use thermocline_sync::planted::model_must_find;

/// Explores `model` with at most `interruptions` switches away from a thread that could continue.
/// Two or three are where bugs of this kind show; the models of two threads can afford more.
fn check(interruptions: usize, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.check(model);
}

/// How loom says that a page was written while a reader may have looked.
const RACE: &str = "Causality violation";
/// How a model says that an action was forgotten.
const FORGOTTEN: &str = "the action ran 0 times";

/// The model fails in the expected way with the bug planted.
fn must_be_found(bug: Planted, how: &str, interruptions: usize, model: fn()) {
    model_must_find(bug, how, || check(interruptions, model));
}

#[test]
fn protect_against_bump() {
    check(5, models::protect_against_bump);
}

#[test]
fn leaving_and_coming_back() {
    check(4, models::leaving_and_coming_back);
}

#[test]
fn refreshing_and_nesting() {
    check(4, models::refreshing_and_nesting);
}

#[test]
fn threads_come_and_go() {
    check(2, models::threads_come_and_go);
}

#[test]
fn two_bumps() {
    check(2, models::two_bumps);
}

#[test]
fn drain_list_full() {
    check(3, models::drain_list_full);
}

#[test]
fn bump_under_protection() {
    check(4, models::bump_under_protection);
}

#[test]
fn without_the_fence_in_protect() {
    must_be_found(Planted::NoFenceInProtect, RACE, 3, models::protect_against_bump);
}

#[test]
fn without_the_fence_in_scan() {
    must_be_found(Planted::NoFenceInScan, RACE, 3, models::protect_against_bump);
}

#[test]
fn with_a_relaxed_enter() {
    must_be_found(Planted::RelaxedEnter, RACE, 3, models::leaving_and_coming_back);
}

#[test]
fn with_a_relaxed_leave() {
    must_be_found(Planted::RelaxedLeave, RACE, 3, models::protect_against_bump);
}

#[test]
fn with_a_relaxed_epoch() {
    must_be_found(Planted::RelaxedEpoch, RACE, 3, models::protect_against_bump);
}

#[test]
fn with_a_relaxed_claim() {
    must_be_found(Planted::RelaxedClaim, RACE, 3, models::threads_come_and_go);
}

#[test]
fn without_the_baton() {
    must_be_found(Planted::NoBaton, FORGOTTEN, 3, models::protect_against_bump);
}

#[test]
fn with_a_relaxed_baton() {
    must_be_found(Planted::RelaxedBaton, FORGOTTEN, 3, models::protect_against_bump);
}

#[test]
fn with_a_baton_for_the_first_action_only() {
    must_be_found(Planted::SharedBaton, FORGOTTEN, 3, models::drain_list_full);
}

#[test]
fn with_an_unbounded_horizon() {
    must_be_found(Planted::UnboundedHorizon, RACE, 2, models::two_bumps);
}

/// How loom says that a thread sleeps forever.
const ASLEEP: &str = "deadlock";

#[test]
fn mutexes() {
    check(3, models::locks::mutex_of_two);
    check(2, models::locks::mutex_of_three);
    check(3, models::locks::mutex_handed_over);
    check(2, models::locks::mutex_handed_over_of_three);
    check(2, models::locks::mutex_with_timeout);
}

#[test]
fn reader_writer_locks() {
    check(3, models::locks::rwlock_of_writers);
    check(3, models::locks::rwlock_of_writer_and_reader);
    check(2, models::locks::rwlock_of_three);
    check(2, models::locks::rwlock_of_two_writers_and_reader);
    check(3, models::locks::rwlock_with_timeout);
    check(3, models::locks::rwlock_writer_with_timeout);
}

#[test]
fn condition_variables() {
    check(3, models::locks::condvar_notified_under_lock);
    check(3, models::locks::condvar_notified_after);
    check(2, models::locks::condvar_of_three);
}

/// A lock over a broken word fails in the expected way.
fn broken(bug: Broken, how: &str, model: fn()) {
    model_must_find(bug, how, || check(3, model));
}

#[test]
fn locks_over_a_broken_word() {
    broken(Broken::RelaxedTake, RACE, models::locks::mutex_of_two);
    broken(Broken::RelaxedTake, RACE, models::locks::rwlock_of_writer_and_reader);
    broken(Broken::RelaxedUnlock, RACE, models::locks::mutex_of_two);
    broken(Broken::RelaxedUnlock, RACE, models::locks::rwlock_of_writer_and_reader);
    broken(Broken::ValueNotCompared, ASLEEP, models::locks::mutex_of_two);
    broken(Broken::ValueNotCompared, ASLEEP, models::locks::rwlock_of_writers);
    broken(Broken::ValueNotCompared, ASLEEP, models::locks::condvar_notified_after);
    broken(Broken::NotMarked, ASLEEP, models::locks::mutex_of_two);
    broken(Broken::NotTakenBack, "nobody holds it", models::locks::mutex_handed_over);
    broken(Broken::NoSecondWake, ASLEEP, models::locks::mutex_handed_over);
    broken(Broken::NotWoken, ASLEEP, models::locks::rwlock_of_writers);
    broken(Broken::LeftClosed, "nobody holds it", models::locks::rwlock_writer_with_timeout);
    broken(Broken::NotAdded, ASLEEP, models::locks::condvar_notified_after);
}
