//! The models under shuttle: very many random schedules. The planted bugs that need no weak memory
//! are found.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p thermocline-arena --profile models \
//!   --test shuttle --target-dir target/shuttle
//! ```
//!
//! Each test prints its seed. The same command with `SHUTTLE_RANDOM_SEED=<seed>` and the test's
//! name replays it.
#![cfg(all(shuttle, not(loom)))]

mod kept;
mod models;

use sync::schedules::{Schedules, finds};
use thermocline_arena::Planted;

const SCHEDULES: Schedules = Schedules::new(20_000);

#[test]
fn many_writers_of_a_skip_list() {
    SCHEDULES.check("many_writers_of_a_skip_list", models::skip_list::many_writers);
}

#[test]
fn two_writers_of_a_skip_list_in_memory_that_was_left() {
    let name = "two_writers_of_a_skip_list_in_memory_that_was_left";
    SCHEDULES.check(name, models::skip_list::two_writers_in_memory_that_was_left);
}

#[test]
fn a_reader_of_a_skip_list_beside_a_writer() {
    let name = "a_reader_of_a_skip_list_beside_a_writer";
    SCHEDULES.check(name, models::skip_list::a_reader_beside_a_writer);
}

#[test]
fn a_value_apart_from_its_node() {
    let name = "a_value_apart_from_its_node";
    SCHEDULES.check(name, models::skip_list::a_value_apart_from_its_node);
}

#[test]
fn with_the_top_linked_first() {
    finds(Planted::TopLinkedFirst, "", models::skip_list::a_reader_beside_a_writer);
}

#[test]
fn with_links_that_are_stored() {
    finds(Planted::LinkStored, "", models::skip_list::many_writers);
}

#[test]
fn with_a_link_that_is_not_set_again() {
    finds(Planted::LinkNotSetAgain, "", models::skip_list::many_writers);
}

#[test]
fn with_the_same_not_seen() {
    finds(Planted::SameNotSeen, "", models::skip_list::two_writers_of_the_same);
}

#[test]
fn pieces_go_while_others_are_taken() {
    let name = "pieces_go_while_others_are_taken";
    SCHEDULES.check(name, models::pieces::pieces_go_while_others_are_taken);
}

#[test]
fn pages_are_given_back_while_pieces_are_taken() {
    let name = "pages_are_given_back_while_pieces_are_taken";
    SCHEDULES.check(name, models::pieces::pages_are_given_back_while_pieces_are_taken);
}

#[test]
fn with_pieces_that_are_left_late() {
    finds(Planted::PieceLeftLate, "", models::pieces::pieces_go_while_others_are_taken);
}

#[test]
fn a_reader_beside_one_who_puts_longer() {
    let name = "a_reader_beside_one_who_puts_longer";
    SCHEDULES.check(name, models::skip_list::a_reader_beside_one_who_puts_longer);
}

#[test]
fn a_reader_beside_two_who_put() {
    SCHEDULES.check("a_reader_beside_two_who_put", models::skip_list::a_reader_beside_two_who_put);
}

#[test]
fn without_a_second_look() {
    finds(Planted::NotLookedAgain, "", models::skip_list::a_reader_beside_two_who_put);
}
