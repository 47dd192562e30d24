//! Bugs planted in a space, each with the test that finds it (`docs/reliability/planted-flex.md`).

use sync::planted::page::{must_have_every_bug, must_name_what_finds_each};

use super::crash::{crashes_of_many_seeds, synced_blocks_outlive_overwriting_without_a_sync};
use super::damage::a_block_of_an_earlier_life_of_its_segment_is_not_served;
use super::errors::every_operation_that_fails_is_told_and_loses_nothing;
use super::snapshots::a_snapshot_holds_the_segments_that_it_can_reach;
use crate::planted::{Planted, must_be_found};

const FILES: [(&str, &str); 4] = [
    ("data/buffer/models.rs", include_str!("../../data/buffer/models.rs")),
    ("space/collect/tests.rs", include_str!("../collect/tests.rs")),
    ("space/models.rs", include_str!("../models.rs")),
    ("space/tests/planted.rs", include_str!("planted.rs")),
];

#[test]
fn the_page_has_every_planted_bug_and_what_finds_it() {
    let page = include_str!("../../../../../../docs/reliability/planted-flex.md");
    let (_, page) = page.split_once("## flexspace").expect("the section");
    let (page, _) = page.split_once("## flexdb").expect("the next");
    must_have_every_bug(page, include_str!("../../planted.rs"));
    must_name_what_finds_each(page, &FILES);
}

#[test]
fn segments_that_are_free_before_that_is_durable_are_found() {
    let test = synced_blocks_outlive_overwriting_without_a_sync;
    must_be_found(Planted::FreedEarly, "", test);
}

#[test]
fn segments_that_are_filled_under_a_snapshot_are_found() {
    let test = a_snapshot_holds_the_segments_that_it_can_reach;
    must_be_found(Planted::ReusedUnderSnapshot, "", test);
}

#[test]
fn a_frame_before_its_data_is_found() {
    must_be_found(Planted::FrameBeforeData, "a synced space", || crashes_of_many_seeds(200));
}

#[test]
fn a_log_whose_name_is_lost_is_found() {
    must_be_found(Planted::LogUnnamed, "a synced space", || crashes_of_many_seeds(200));
}

#[test]
fn a_frame_that_is_not_synced_is_found() {
    must_be_found(Planted::FrameUnsynced, "a synced space", || crashes_of_many_seeds(200));
}

#[test]
fn nodes_that_are_not_synced_are_found() {
    must_be_found(Planted::NodesUnsynced, "seed ", || crashes_of_many_seeds(200));
}

#[test]
fn files_that_are_not_synced_before_a_life_are_found() {
    must_be_found(Planted::FoundUnsynced, "seed ", || crashes_of_many_seeds(200));
}

#[test]
fn slots_that_are_written_over_too_early_are_found() {
    must_be_found(Planted::SlotsFreedEarly, "seed ", || crashes_of_many_seeds(200));
}

#[test]
fn a_space_that_goes_on_after_a_failed_write_is_found() {
    let test = every_operation_that_fails_is_told_and_loses_nothing;
    must_be_found(Planted::FailurePassed, "", test);
}

#[test]
fn blocks_that_do_not_say_which_life_they_are_of_are_found() {
    let test = a_block_of_an_earlier_life_of_its_segment_is_not_served;
    must_be_found(Planted::GenerationLeftOut, "", test);
}
