//! Bugs that power cuts over several keyspaces find.

use thermocline::planted::{Planted, must_be_found};

use super::{
    every_power_cut_leaves_a_prefix_and_whole_batches as of_one_engine,
    every_power_cut_leaves_batches_over_engines_whole as of_each_engine, power_cuts_over_memory,
};

/// Part of the message of a run of power cuts that has found something.
const CUT: &str = "power cut after operation";

#[test]
fn a_record_that_lacks_keyspaces_is_found() {
    must_be_found(Planted::PartsUnrecorded, "", of_one_engine);
}

#[test]
fn a_batch_of_several_records_is_found() {
    // In few runs a power cut falls between the records of a batch. The first such run ends the
    // search.
    must_be_found(Planted::RecordOfEachPart, CUT, || power_cuts_over_memory(1, 60));
}

#[test]
fn a_record_that_is_applied_again_in_part_is_found() {
    must_be_found(Planted::ReplayedInPart, "", of_one_engine);
}

#[test]
fn a_write_that_is_acknowledged_too_early_is_found() {
    must_be_found(Planted::AcknowledgedEarly, CUT, of_one_engine);
}

#[test]
fn files_ahead_of_the_journal_are_found() {
    must_be_found(Planted::BarrierUnasked, CUT, of_one_engine);
    must_be_found(Planted::BarrierUnasked, CUT, of_each_engine);
}

#[test]
fn a_catalog_that_is_not_synced_is_found() {
    must_be_found(Planted::CatalogUnsynced, CUT, of_one_engine);
}

#[test]
fn a_catalog_whose_name_is_lost_is_found() {
    must_be_found(Planted::CatalogUnnamed, CUT, of_one_engine);
}

#[test]
fn a_keyspace_whose_directory_is_lost_is_found() {
    must_be_found(Planted::KeyspaceUnnamed, "", of_one_engine);
}

#[test]
fn files_that_go_before_the_catalog_says_so_are_found() {
    must_be_found(Planted::FilesRemovedEarly, "", of_one_engine);
}

#[test]
fn a_change_of_the_catalog_ahead_of_older_writes_is_found() {
    must_be_found(Planted::OlderUnsettled, CUT, of_one_engine);
}
