//! Bugs that ordinary runs find.

use thermocline::planted::{Planted, again_and_again, must_be_found};

use super::{
    an_unjournaled_keyspace_lasts_through_a_clean_close, snapshots_never_show_half_a_batch,
    what_is_not_flushed_stays_in_the_journal_whatever_others_flush,
};

#[test]
fn half_a_batch_that_shows_is_found() {
    let test = again_and_again(snapshots_never_show_half_a_batch);
    must_be_found(Planted::VisibleEarly, "left == right", test);
}

#[test]
fn a_close_that_flushes_nothing_is_found() {
    let test = an_unjournaled_keyspace_lasts_through_a_clean_close;
    must_be_found(Planted::ClosedUnflushed, "left == right", test);
}

#[test]
fn an_engine_that_asks_for_older_journal_is_found() {
    let test = what_is_not_flushed_stays_in_the_journal_whatever_others_flush;
    must_be_found(Planted::BegunAtNothing, "", test);
}

#[test]
fn a_journal_that_one_keyspace_still_needs_is_found() {
    let test = what_is_not_flushed_stays_in_the_journal_whatever_others_flush;
    must_be_found(Planted::TrimmedToNewest, "", test);
}
