//! Bugs planted in a store, each with the test that finds it (`docs/reliability/planted-flex.md`).

use sync::planted::page::{must_have_every_bug, must_name_what_finds_each};

use super::coarsen_index::an_index_that_is_only_added_to_keeps_near_its_share;
use super::commit_steps::writers_get_in_with_each_step_of_a_commit;
use super::commits::{
    a_change_that_finds_no_room_in_its_middle_is_gone_on_with,
    a_failure_of_before_refuses_no_write, a_store_is_a_map_however_its_intervals_change,
    a_view_that_holds_all_room_stops_writes_only_while_it_is_held,
    deletes_give_room_where_a_commit_was_refused,
    what_is_replaced_is_not_committed_once_the_journal_has_what_replaces_it,
};
use super::contract::a_scan_is_of_one_moment_whatever_is_written_while_it_goes_on;
use super::crash::crashes_of_a_seed;
use super::every_io::scenarios::{
    a_checkpoint, a_close_that_stores_the_index, a_commit_in_place, a_join,
};
use super::fragmented_queue::an_interval_that_was_changed_since_it_was_read_keeps_its_changes;
use super::pairs::a_commit_forgets_what_it_changes;
use super::parts::{
    a_tombstone_hides_the_pair_whatever_is_read_first,
    keys_that_are_alike_are_not_taken_for_one_another,
};
use super::recovery::an_update_of_intervals_that_were_taken_as_one_is_found_whatever_is_taken_as_one_next;
use crate::commit::an_interval_that_is_changed_while_it_is_read_keeps_its_changes;
use crate::planted::{Planted, must_be_found};
use crate::stored_index::tests::an_index_of_a_life_before_is_not_believed_where_the_space_looks_the_same;

const FILES: [(&str, &str); 3] = [
    ("tests/models.rs", include_str!("models.rs")),
    ("tests/models/reserve.rs", include_str!("models/reserve.rs")),
    ("tests/planted.rs", include_str!("planted.rs")),
];

#[test]
fn the_page_has_every_planted_bug_and_what_finds_it() {
    let page = include_str!("../../../../../docs/reliability/planted-flex.md");
    let (_, page) = page.split_once("## flexdb").expect("the section");
    must_have_every_bug(page, include_str!("../planted.rs"));
    must_name_what_finds_each(page, &FILES);
}

/// Bugs of the space under a store are also found by a store's crashes, if they concern the parts
/// that commits, frames of the log and checkpoints need. The space's other bugs concern snapshots
/// and collections concurrent with writers, and failures.
#[test]
fn crashes_of_a_store_find_what_the_space_under_it_does_wrong() {
    use flexspace::planted::{Planted, must_be_found};
    for bug in [
        Planted::FreedEarly,
        Planted::FrameBeforeData,
        Planted::FrameUnsynced,
        Planted::LogUnnamed,
        Planted::SlotsFreedEarly,
        Planted::NodesUnsynced,
    ] {
        let crashes = || (1..=5).for_each(|seed| _ = crashes_of_a_seed(seed));
        must_be_found(bug, "power cut after operation", crashes);
    }
    for bug in [Planted::LogUnnamed, Planted::SlotsFreedEarly, Planted::NodesUnsynced] {
        must_be_found(bug, "power cut after operation", a_checkpoint);
    }
}

#[test]
fn what_is_left_out_too_early_is_found() {
    let test = what_is_replaced_is_not_committed_once_the_journal_has_what_replaces_it;
    must_be_found(Planted::LeftOutUnreached, "", test);
}

#[test]
fn a_number_that_is_durable_before_its_writes_is_found() {
    must_be_found(Planted::PersistedEarly, "operation", || _ = crashes_of_a_seed(1));
    must_be_found(Planted::PersistedEarly, "what is persisted", a_commit_in_place);
}

#[test]
fn a_commit_that_passes_a_pin_is_found() {
    let test = a_view_that_holds_all_room_stops_writes_only_while_it_is_held;
    must_be_found(Planted::PinPassed, "", test);
}

#[test]
fn a_change_that_was_broken_off_and_is_not_noted_is_found() {
    let test = a_change_that_finds_no_room_in_its_middle_is_gone_on_with;
    must_be_found(Planted::BrokenOffUnnoted, "", test);
}

#[test]
fn deletes_that_take_from_pins_are_found() {
    must_be_found(Planted::RelievedUnpinned, "", deletes_give_room_where_a_commit_was_refused);
}

#[test]
fn keys_in_front_that_are_put_behind_are_found() {
    // Other random steps each time.
    let test = || (0..7).for_each(|_| a_store_is_a_map_however_its_intervals_change());
    must_be_found(Planted::FrontBehind, "", test);
}

#[test]
fn tags_that_stay_within_an_interval_are_found() {
    let test = an_update_of_intervals_that_were_taken_as_one_is_found_whatever_is_taken_as_one_next;
    must_be_found(Planted::InnerTagsLeft, "", test);
    must_be_found(Planted::InnerTagsLeft, "power cut", a_join);
}

#[test]
fn a_tombstone_without_its_pair_is_found() {
    must_be_found(Planted::TombstoneAlone, "", a_tombstone_hides_the_pair_whatever_is_read_first);
}

#[test]
fn keys_that_are_taken_for_one_another_are_found() {
    must_be_found(Planted::AlikeBelieved, "", keys_that_are_alike_are_not_taken_for_one_another);
}

#[test]
fn an_old_failure_that_refuses_a_write_is_found() {
    must_be_found(Planted::OldFailureReported, "", a_failure_of_before_refuses_no_write);
}

#[test]
fn writers_that_keep_no_pace_are_found() {
    let test = writers_get_in_with_each_step_of_a_commit;
    must_be_found(Planted::Unpaced, "no write got in at a step", test);
}

#[test]
fn neighbours_that_are_not_joined_are_found() {
    let test = an_index_that_is_only_added_to_keeps_near_its_share;
    must_be_found(Planted::NeighboursLeft, "intervals of old pairs", test);
}

#[test]
fn a_commit_that_is_not_synced_is_found() {
    must_be_found(Planted::CommitUnsynced, "durable", a_checkpoint);
}

#[test]
fn an_index_that_is_not_synced_is_found() {
    must_be_found(Planted::IndexUnsynced, "before it is opened", a_close_that_stores_the_index);
}

#[test]
fn a_pair_that_a_commit_leaves_is_found() {
    must_be_found(Planted::PairLeft, "", a_commit_forgets_what_it_changes);
}

#[test]
fn a_block_that_a_commit_leaves_is_found() {
    // Other random steps each time, of which more than half have it.
    let test = || (0..14).for_each(|_| a_store_is_a_map_however_its_intervals_change());
    must_be_found(Planted::BlockLeft, "", test);
}

#[test]
fn an_index_of_a_life_before_that_is_believed_is_found() {
    let test = an_index_of_a_life_before_is_not_believed_where_the_space_looks_the_same;
    must_be_found(Planted::StoredBelieved, "a key in another interval", test);
}

#[test]
fn a_scan_of_two_moments_is_found() {
    let test = a_scan_is_of_one_moment_whatever_is_written_while_it_goes_on;
    must_be_found(Planted::TwoMoments, "", test);
}

#[test]
fn what_is_written_though_it_was_changed_is_found() {
    for test in [
        an_interval_that_was_changed_since_it_was_read_keeps_its_changes as fn(),
        an_interval_that_is_changed_while_it_is_read_keeps_its_changes,
    ] {
        must_be_found(Planted::StaleWritten, "", test);
    }
}
