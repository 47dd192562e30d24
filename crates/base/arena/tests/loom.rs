//! The models under loom.
//!
//! They run every execution that the memory model allows, within a bound on the number of
//! interruptions of a thread. Every planted bug is found.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p thermocline-arena --profile models \
//!   --test loom --target-dir target/loom
//! ```
//!
//! Nothing here is random. The same command shows a failure again, with
//! `LOOM_CHECKPOINT_FILE=loom.json` (twice: to record, and to run only the failing execution) and
//! `LOOM_LOG=trace`.
#![cfg(loom)]

mod kept;
mod models;

use sync::planted::model_must_find;
use thermocline_arena::Planted;

/// Explores `model` with at most `interruptions` switches away from a thread that could continue.
fn check(interruptions: usize, model: fn()) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions);
    builder.check(model);
}

/// Panic of a thread that follows a link of a skip list and does not see its target: it does not
/// see the chunk either.
const NOT_THERE: &str = "before the position was published";
/// How models of the skip list say that an entry is not in its place.
const LOST: &str = "lost";
/// Panic of a thread that is handed a slot of the pool of pieces that another piece has.
const TWICE: &str = "handed out twice";
/// How they say that the bytes of an entry are of two versions.
const HALF: &str = "half an entry";

/// The model fails in the expected way with the bug planted.
fn must_be_found(bug: Planted, how: &str, interruptions: usize, model: fn()) {
    model_must_find(bug, how, || check(interruptions, model));
}

#[test]
fn a_reader_of_a_skip_list_beside_a_writer() {
    check(2, models::skip_list::a_reader_beside_a_writer);
}

#[test]
fn a_value_apart_from_its_node() {
    check(3, models::skip_list::a_value_apart_from_its_node);
}

#[test]
fn two_writers_of_a_skip_list() {
    check(3, models::skip_list::two_writers);
}

#[test]
fn two_writers_of_a_skip_list_in_memory_that_was_left() {
    check(2, models::skip_list::two_writers_in_memory_that_was_left);
}

#[test]
fn two_writers_of_the_same_to_a_skip_list() {
    check(3, models::skip_list::two_writers_of_the_same);
}

#[test]
fn with_a_relaxed_link() {
    must_be_found(Planted::RelaxedLink, NOT_THERE, 2, models::skip_list::a_reader_beside_a_writer);
}

#[test]
fn with_the_top_linked_first() {
    must_be_found(Planted::TopLinkedFirst, LOST, 2, models::skip_list::a_reader_beside_a_writer);
}

#[test]
fn with_links_that_are_stored() {
    must_be_found(Planted::LinkStored, LOST, 2, models::skip_list::two_writers);
}

#[test]
fn with_a_link_that_is_not_set_again() {
    must_be_found(Planted::LinkNotSetAgain, LOST, 2, models::skip_list::two_writers);
}

#[test]
fn with_the_same_not_seen() {
    must_be_found(Planted::SameNotSeen, LOST, 2, models::skip_list::two_writers_of_the_same);
}

#[test]
fn pieces_go_while_others_are_taken() {
    check(2, models::pieces::pieces_go_while_others_are_taken);
}

#[test]
fn pages_are_given_back_while_pieces_are_taken() {
    check(3, models::pieces::pages_are_given_back_while_pieces_are_taken);
}

#[test]
fn with_pieces_that_are_left_late() {
    let model = models::pieces::pieces_go_while_others_are_taken;
    must_be_found(Planted::PieceLeftLate, TWICE, 2, model);
}

#[test]
fn a_reader_beside_one_who_replaces() {
    check(3, models::skip_list::a_reader_beside_one_who_replaces);
}

#[test]
fn a_reader_beside_one_who_puts_longer() {
    check(3, models::skip_list::a_reader_beside_one_who_puts_longer);
}

#[test]
fn without_the_fence_of_who_replaces() {
    let bug = Planted::NoFenceInReplace;
    must_be_found(bug, HALF, 2, models::skip_list::a_reader_beside_one_who_replaces);
}

#[test]
fn without_the_fence_of_who_reads() {
    let bug = Planted::NoFenceInRead;
    must_be_found(bug, HALF, 2, models::skip_list::a_reader_beside_one_who_replaces);
}

#[test]
fn without_a_second_look() {
    let bug = Planted::NotLookedAgain;
    must_be_found(bug, HALF, 2, models::skip_list::a_reader_beside_one_who_replaces);
}

#[test]
fn with_a_relaxed_end_of_replacing() {
    let bug = Planted::RelaxedReplace;
    must_be_found(bug, HALF, 2, models::skip_list::a_reader_beside_one_who_replaces);
}
