//! The models under shuttle: very many random schedules, and the planted bugs that need no weak
//! memory found.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-sync --release --test shuttle --target-dir target/shuttle
//! ```
//!
//! Each test prints its seed. The same command with `SHUTTLE_RANDOM_SEED=<seed>` and the test's
//! name replays it.
#![cfg(all(shuttle, not(loom)))]

mod kept;
mod models;

use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use thermocline_sync::{Planted, with_planted};

const SCHEDULES: usize = 20_000;
/// PCT finds bugs of up to this many ordering constraints with a known chance a schedule.
const PCT_DEPTH: usize = 3;

fn check(name: &str, model: fn()) {
    let seed = RandomState::new().hash_one(name);
    println!("{name}: seed {seed}; to replay, SHUTTLE_RANDOM_SEED={seed} and this test's name");
    let config = || {
        let mut config = Config::new();
        config.silence_warnings = true;
        config
    };
    Runner::new(RandomScheduler::new_from_seed(seed, SCHEDULES), config()).run(model);
    Runner::new(PctScheduler::new_from_seed(seed, PCT_DEPTH, SCHEDULES), config()).run(model);
}

fn must_be_found(bug: Planted, model: fn()) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        with_planted(bug, || check(&format!("{bug:?}"), model));
    }));
    assert!(outcome.is_err(), "{bug:?} was not found");
}

#[test]
fn protect_against_bump() {
    check("protect_against_bump", models::protect_against_bump);
}

#[test]
fn leaving_and_coming_back() {
    check("leaving_and_coming_back", models::leaving_and_coming_back);
}

#[test]
fn refreshing_and_nesting() {
    check("refreshing_and_nesting", models::refreshing_and_nesting);
}

#[test]
fn threads_come_and_go() {
    check("threads_come_and_go", models::threads_come_and_go);
}

#[test]
fn two_bumps() {
    check("two_bumps", models::two_bumps);
}

#[test]
fn drain_list_full() {
    check("drain_list_full", models::drain_list_full);
}

#[test]
fn bump_under_protection() {
    check("bump_under_protection", models::bump_under_protection);
}

#[test]
fn without_the_baton() {
    must_be_found(Planted::NoBaton, models::protect_against_bump);
}

#[test]
fn with_an_unbounded_horizon() {
    must_be_found(Planted::UnboundedHorizon, models::two_bumps);
}

#[test]
fn many_writers_of_a_skip_list() {
    check("many_writers_of_a_skip_list", models::skip_list::many_writers);
}

#[test]
fn two_writers_of_a_skip_list_in_memory_that_was_left() {
    let name = "two_writers_of_a_skip_list_in_memory_that_was_left";
    check(name, models::skip_list::two_writers_in_memory_that_was_left);
}

#[test]
fn a_reader_of_a_skip_list_beside_a_writer() {
    let name = "a_reader_of_a_skip_list_beside_a_writer";
    check(name, models::skip_list::a_reader_beside_a_writer);
}

#[test]
fn with_the_top_linked_first() {
    must_be_found(Planted::TopLinkedFirst, models::skip_list::a_reader_beside_a_writer);
}

#[test]
fn with_links_that_are_stored() {
    must_be_found(Planted::LinkStored, models::skip_list::many_writers);
}

#[test]
fn with_a_link_that_is_not_set_again() {
    must_be_found(Planted::LinkNotSetAgain, models::skip_list::many_writers);
}

#[test]
fn with_the_same_not_seen() {
    must_be_found(Planted::SameNotSeen, models::skip_list::two_writers_of_the_same);
}

#[test]
fn pieces_go_while_others_are_taken() {
    let name = "pieces_go_while_others_are_taken";
    check(name, models::pieces::pieces_go_while_others_are_taken);
}

#[test]
fn pages_are_given_back_while_pieces_are_taken() {
    let name = "pages_are_given_back_while_pieces_are_taken";
    check(name, models::pieces::pages_are_given_back_while_pieces_are_taken);
}

#[test]
fn with_pieces_that_are_left_late() {
    must_be_found(Planted::PieceLeftLate, models::pieces::pieces_go_while_others_are_taken);
}

#[test]
fn a_reader_beside_one_who_puts_longer() {
    let name = "a_reader_beside_one_who_puts_longer";
    check(name, models::skip_list::a_reader_beside_one_who_puts_longer);
}

#[test]
fn a_reader_beside_two_who_put() {
    check("a_reader_beside_two_who_put", models::skip_list::a_reader_beside_two_who_put);
}

#[test]
fn without_a_second_look() {
    must_be_found(Planted::NotLookedAgain, models::skip_list::a_reader_beside_two_who_put);
}
