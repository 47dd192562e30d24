//! The models under shuttle: very many random schedules, and the planted bugs that need no weak
//! memory found.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-f2 --profile models --lib \
//!     --target-dir target/shuttle hash_index
//! ```
//!
//! Each test prints its seed. The same command with `SHUTTLE_RANDOM_SEED=<seed>` and the test's
//! name replays it.

use super::models;
use crate::checkers::{self, Order};
use crate::planted::Planted;

fn check(name: &str, model: fn(Order)) {
    checkers::explore_orders(name, 0, model);
}

fn must_be_found(bug: Planted, model: fn(Order)) {
    checkers::must_be_found(bug, "", || check(&format!("{bug:?}"), model));
}

#[test]
fn twins() {
    check("twins", models::twins);
}

#[test]
fn twins_in_different_slots() {
    check("twins_in_different_slots", models::twins_in_different_slots);
}

#[test]
fn twins_that_overflow() {
    check("twins_that_overflow", models::twins_that_overflow);
}

#[test]
fn insert_beside_split() {
    check("insert_beside_split", models::insert_beside_split);
}

#[test]
fn twins_beside_split() {
    check("twins_beside_split", models::twins_beside_split);
}

#[test]
fn find_beside_split() {
    check("find_beside_split", models::find_beside_split);
}

#[test]
fn find_beside_two_splits() {
    check("find_beside_two_splits", models::find_beside_two_splits);
}

#[test]
fn compare_exchange_beside_split() {
    check("compare_exchange_beside_split", models::compare_exchange_beside_split);
}

#[test]
fn no_step_back_beside_split() {
    check("no_step_back_beside_split", models::no_step_back_beside_split);
}

#[test]
fn two_splitters() {
    check("two_splitters", models::two_splitters);
}

#[test]
fn retire_beside_split() {
    check("retire_beside_split", models::retire_beside_split);
}

#[test]
fn scrub_beside_split() {
    check("scrub_beside_split", models::scrub_beside_split);
}

#[test]
fn record_behind_entry() {
    check("record_behind_entry", models::record_behind_entry);
}

#[test]
fn record_behind_moved_entry() {
    check("record_behind_moved_entry", models::record_behind_moved_entry);
}

#[test]
fn walk_beside_split() {
    check("walk_beside_split", models::walk_beside_split);
}

#[test]
fn crowd() {
    check("crowd", models::crowd);
}

#[test]
fn pool() {
    check("pool", models::pool);
}

#[test]
fn insert_beside_trim() {
    check("insert_beside_trim", models::insert_beside_trim);
}

#[test]
fn append_beside_trim() {
    check("append_beside_trim", models::append_beside_trim);
}

#[test]
fn find_beside_trim() {
    check("find_beside_trim", models::find_beside_trim);
}

#[test]
fn trim_beside_split() {
    check("trim_beside_split", models::trim_beside_split);
}

#[test]
fn with_one_phase() {
    must_be_found(Planted::SinglePhase, models::twins_in_different_slots);
}

#[test]
fn without_the_second_look() {
    must_be_found(Planted::NoSecondLook, models::insert_beside_split);
}

#[test]
fn without_the_wait_for_tentative() {
    must_be_found(Planted::NoWaitForTentative, models::insert_beside_split);
}

#[test]
fn without_the_freeze() {
    must_be_found(Planted::NoFreeze, models::compare_exchange_beside_split);
}

#[test]
fn with_absence_unchecked() {
    must_be_found(Planted::AbsenceUnchecked, models::find_beside_split);
}

#[test]
fn with_a_level_published_early() {
    must_be_found(Planted::PublishedEarly, models::find_beside_split);
}

#[test]
fn with_trims_uncounted() {
    must_be_found(Planted::TrimsUncounted, models::insert_beside_trim);
}

#[test]
fn with_a_line_left_open() {
    must_be_found(Planted::LeftOpen, models::append_beside_trim);
}

#[test]
fn with_lines_used_early() {
    must_be_found(Planted::ReusedEarly, models::find_beside_trim);
}
