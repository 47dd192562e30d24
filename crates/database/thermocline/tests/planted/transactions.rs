//! Bugs in the notes of transactions, found by steps of other writers between theirs.

use thermocline::planted::{Planted, must_be_found};

use super::{
    a_phantom_is_a_conflict, a_range_that_was_deleted_conflicts_with_what_was_read_in_it,
    every_way_of_writing_is_seen, what_was_absent_and_comes_is_a_conflict,
};

#[test]
fn absent_keys_that_do_not_count_are_found() {
    must_be_found(Planted::AbsentUnread, "Ok", what_was_absent_and_comes_is_a_conflict);
}

#[test]
fn ranges_that_do_not_count_are_found() {
    must_be_found(Planted::RangesUnread, "Ok", a_phantom_is_a_conflict);
}

#[test]
fn an_end_of_a_range_that_does_not_count_is_found() {
    must_be_found(Planted::EndUnread, "Ok", a_phantom_is_a_conflict);
}

#[test]
fn ranges_that_are_deleted_in_silence_are_found() {
    let test = a_range_that_was_deleted_conflicts_with_what_was_read_in_it;
    must_be_found(Planted::RangesUnnoted, "Ok", test);
}

#[test]
fn a_clearing_that_is_not_seen_is_found() {
    must_be_found(Planted::ClearedUnseen, "Ok", every_way_of_writing_is_seen);
}
