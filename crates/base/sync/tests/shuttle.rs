//! The models under shuttle: very many random schedules, and the planted bugs that need no weak
//! memory found.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-sync --profile models --test shuttle \
//!     --target-dir target/shuttle
//! ```
//!
//! Each test prints its seed. The same command with `SHUTTLE_RANDOM_SEED=<seed>` and the test's
//! name replays it.
#![cfg(all(shuttle, not(loom)))]

mod models;

use models::locks::Broken;
use thermocline_sync::Planted;
use thermocline_sync::planted::must_fail;
use thermocline_sync::schedules::{Schedules, finds};

const SCHEDULES: Schedules = Schedules::new(20_000);

#[test]
fn protect_against_bump() {
    SCHEDULES.check("protect_against_bump", models::protect_against_bump);
}

#[test]
fn leaving_and_coming_back() {
    SCHEDULES.check("leaving_and_coming_back", models::leaving_and_coming_back);
}

#[test]
fn refreshing_and_nesting() {
    SCHEDULES.check("refreshing_and_nesting", models::refreshing_and_nesting);
}

#[test]
fn threads_come_and_go() {
    SCHEDULES.check("threads_come_and_go", models::threads_come_and_go);
}

#[test]
fn two_bumps() {
    SCHEDULES.check("two_bumps", models::two_bumps);
}

#[test]
fn drain_list_full() {
    SCHEDULES.check("drain_list_full", models::drain_list_full);
}

#[test]
fn bump_under_protection() {
    SCHEDULES.check("bump_under_protection", models::bump_under_protection);
}

#[test]
fn without_the_baton() {
    finds(Planted::NoBaton, "", models::protect_against_bump);
}

#[test]
fn with_an_unbounded_horizon() {
    finds(Planted::UnboundedHorizon, "", models::two_bumps);
}

/// Shuttle sees no missing fence.
#[test]
fn what_a_model_does_not_find_is_reported() {
    must_fail("finding it", "NoFenceInScan was not found", || {
        finds(Planted::NoFenceInScan, "", models::two_bumps);
    });
    must_fail("another failure", "NoBaton failed in another way", || {
        finds(Planted::NoBaton, "words that it does not say", models::protect_against_bump);
    });
    must_fail("a model that fails by itself", "by itself", || {
        finds(Planted::NoBaton, "", || panic!("by itself"));
    });
}

#[test]
fn mutexes() {
    SCHEDULES.check("mutexes", models::locks::mutex_of_three);
    SCHEDULES.check("mutexes", models::locks::mutex_handed_over_of_three);
    SCHEDULES.check("mutexes", models::locks::mutex_with_timeout);
}

#[test]
fn reader_writer_locks() {
    SCHEDULES.check("reader_writer_locks", models::locks::rwlock_of_three);
    SCHEDULES.check("reader_writer_locks", models::locks::rwlock_of_two_writers_and_reader);
    SCHEDULES.check("reader_writer_locks", models::locks::rwlock_with_timeout);
    SCHEDULES.check("reader_writer_locks", models::locks::rwlock_writer_with_timeout);
}

#[test]
fn condition_variables() {
    SCHEDULES.check("condition_variables", models::locks::condvar_notified_under_lock);
    SCHEDULES.check("condition_variables", models::locks::condvar_of_three);
}

#[test]
fn locks_over_a_broken_word() {
    finds(Broken::ValueNotCompared, "deadlock", models::locks::mutex_of_three);
    finds(Broken::NotMarked, "deadlock", models::locks::mutex_of_two);
    finds(Broken::NotTakenBack, "nobody holds it", models::locks::mutex_handed_over);
    finds(Broken::NotWoken, "deadlock", models::locks::rwlock_of_two_writers_and_reader);
    finds(Broken::NotAdded, "deadlock", models::locks::condvar_notified_after);
}
