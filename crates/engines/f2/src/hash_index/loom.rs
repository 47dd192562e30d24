//! The models under loom: every execution that the memory model allows, within a bound on how often
//! a thread is interrupted; and every planted bug found.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p thermocline-f2 --profile models --lib \
//!     --target-dir target/loom hash_index
//! ```
//!
//! There is nothing random here. A failure is seen again by the same command with
//! `LOOM_CHECKPOINT_FILE=loom.json` (twice: to record, and to run only the failing execution) and
//! `LOOM_LOG=trace`.

use super::models;
use crate::checkers::{self, Order};
use crate::planted::Planted;

/// Explores `model` with at most `interruptions` switches away from a thread that could continue.
fn check(interruptions: usize, model: fn(Order)) {
    checkers::explore_orders("hash index", interruptions, model);
}

/// The model fails in the expected way with the bug planted.
fn must_be_found(bug: Planted, how: &str, interruptions: usize, model: fn(Order)) {
    checkers::must_be_found(bug, how, || check(interruptions, model));
}

/// How a model says that entries were lost, doubled or changed wrongly.
const ENTRIES: &str = "the entries differ from the inserted ones";
/// How a model says that a chain was not found.
const LOST: &str = "the chain was there all the while";
/// How a model says that an overflow bucket is in no chain and not free.
const LINES: &str = "overflow buckets are lost";
/// Loom's message if a thread uses a bucket and cannot know that it was made.
const UNMADE: &str = "Causality violation";
/// How a model says that a record was found before it could be read.
const TORN: &str = "the record is not whole";

#[test]
fn twins() {
    check(6, models::twins);
}

#[test]
fn twins_in_different_slots() {
    check(3, models::twins_in_different_slots);
}

#[test]
fn twins_that_overflow() {
    check(4, models::twins_that_overflow);
}

#[test]
fn insert_beside_split() {
    check(4, models::insert_beside_split);
}

#[test]
fn twins_beside_split() {
    check(1, models::twins_beside_split);
}

#[test]
fn find_beside_split() {
    check(4, models::find_beside_split);
}

#[test]
fn find_beside_two_splits() {
    check(3, models::find_beside_two_splits);
}

#[test]
fn compare_exchange_beside_split() {
    check(4, models::compare_exchange_beside_split);
}

#[test]
fn no_step_back_beside_split() {
    check(1, models::no_step_back_beside_split);
}

#[test]
fn retire_beside_split() {
    check(4, models::retire_beside_split);
}

#[test]
fn scrub_beside_split() {
    check(3, models::scrub_beside_split);
}

#[test]
fn record_behind_entry() {
    check(4, models::record_behind_entry);
}

#[test]
fn record_behind_moved_entry() {
    check(4, models::record_behind_moved_entry);
}

#[test]
fn walk_beside_split() {
    check(3, models::walk_beside_split);
}

#[test]
fn pool() {
    check(3, models::pool);
}

#[test]
fn insert_beside_trim() {
    check(3, models::insert_beside_trim);
}

#[test]
fn append_beside_trim() {
    check(3, models::append_beside_trim);
}

#[test]
fn find_beside_trim() {
    check(3, models::find_beside_trim);
}

#[test]
fn trim_beside_split() {
    check(3, models::trim_beside_split);
}

#[test]
fn with_one_phase() {
    must_be_found(Planted::SinglePhase, ENTRIES, 3, models::twins_in_different_slots);
}

#[test]
fn without_the_fence_in_insert() {
    must_be_found(Planted::NoFenceInInsert, ENTRIES, 3, models::twins_in_different_slots);
}

#[test]
fn without_the_fence_in_insert_beside_split() {
    must_be_found(Planted::NoFenceInInsert, LOST, 3, models::insert_beside_split);
}

#[test]
fn without_the_fence_in_split() {
    must_be_found(Planted::NoFenceInSplit, LOST, 3, models::insert_beside_split);
}

#[test]
fn without_the_second_look() {
    must_be_found(Planted::NoSecondLook, LOST, 3, models::insert_beside_split);
}

#[test]
fn without_the_wait_for_tentative() {
    must_be_found(Planted::NoWaitForTentative, LOST, 3, models::insert_beside_split);
}

#[test]
fn without_the_freeze() {
    must_be_found(Planted::NoFreeze, ENTRIES, 3, models::compare_exchange_beside_split);
}

#[test]
fn with_absence_unchecked() {
    must_be_found(Planted::AbsenceUnchecked, LOST, 3, models::find_beside_split);
}

#[test]
fn with_a_level_published_early() {
    must_be_found(Planted::PublishedEarly, LOST, 3, models::find_beside_split);
}

#[test]
fn with_a_relaxed_link() {
    must_be_found(Planted::RelaxedLink, TORN, 3, models::record_behind_entry);
    must_be_found(Planted::RelaxedLink, TORN, 3, models::record_behind_moved_entry);
}

#[test]
fn with_a_relaxed_birth() {
    must_be_found(Planted::RelaxedBirth, LOST, 3, models::find_beside_split);
}

#[test]
fn with_a_relaxed_free() {
    must_be_found(Planted::RelaxedFree, LOST, 3, models::find_beside_split);
}

#[test]
fn with_a_relaxed_failure() {
    must_be_found(Planted::RelaxedFailure, ENTRIES, 3, models::scrub_beside_split);
}

#[test]
fn with_a_relaxed_level() {
    must_be_found(Planted::RelaxedLevel, UNMADE, 3, models::find_beside_split);
}

#[test]
fn with_trims_uncounted() {
    must_be_found(Planted::TrimsUncounted, ENTRIES, 3, models::insert_beside_trim);
}

#[test]
fn without_the_fence_in_trim() {
    must_be_found(Planted::NoFenceInTrim, ENTRIES, 3, models::insert_beside_trim);
}

#[test]
fn with_a_line_left_open() {
    must_be_found(Planted::LeftOpen, LINES, 3, models::append_beside_trim);
}

#[test]
fn with_lines_used_early() {
    must_be_found(Planted::ReusedEarly, LOST, 3, models::find_beside_trim);
}
