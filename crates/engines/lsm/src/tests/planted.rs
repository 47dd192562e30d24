//! Bugs that power cuts and ordinary tests find, planted in a store
//! (`docs/reliability/planted-lsm.md`). Bugs that show only if threads meet are in
//! `models/planted.rs`.

use super::crash::crashes_of_a_seed;
use super::dranges::few_keys_are_merged_and_not_persisted;
use super::durability::the_journal_is_asked_before_and_persisted_does_not_pass_it;
use super::merges::a_flush_reaches_the_tombstones_that_merges_dropped;
use crate::planted::{Planted, must_be_found};

/// Message of a run of power cuts that has found a bug.
const CUT: &str = "power cut after operation";

/// Runs that find nothing without a bug.
fn crashes() {
    (1..=6).for_each(|seed| _ = crashes_of_a_seed(seed));
}

#[test]
fn a_table_that_is_not_synced_is_found() {
    lsm_tree::planted::must_be_found(lsm_tree::planted::Planted::TableUnsynced, CUT, crashes);
}

#[test]
fn tables_whose_names_are_lost_are_found() {
    lsm_tree::planted::must_be_found(lsm_tree::planted::Planted::NamesUnsynced, CUT, crashes);
}

#[test]
fn an_edit_that_is_not_synced_is_found() {
    edits::planted::must_be_found(edits::planted::Planted::EditUnsynced, CUT, crashes);
}

#[test]
fn a_manifest_whose_name_is_lost_is_found() {
    edits::planted::must_be_found(edits::planted::Planted::FileUnnamed, CUT, crashes);
}

#[test]
fn a_manifest_that_goes_too_early_is_found() {
    edits::planted::must_be_found(edits::planted::Planted::OldRemovedEarly, CUT, crashes);
}

#[test]
fn tables_that_go_too_early_are_found() {
    must_be_found(Planted::TablesRemovedEarly, CUT, crashes);
}

#[test]
fn a_number_that_passes_other_memtables_is_found() {
    must_be_found(Planted::PersistedEarly, CUT, crashes);
}

#[test]
fn a_merged_memtable_that_is_too_young_is_found() {
    must_be_found(Planted::MergedFloorRaised, "in no table", few_keys_are_merged_and_not_persisted);
}

#[test]
fn a_dropped_tombstone_that_the_journal_lacks_is_found() {
    let test = a_flush_reaches_the_tombstones_that_merges_dropped;
    must_be_found(Planted::MergedUnreached, "", test);
}

#[test]
fn range_deletes_that_the_manifest_lacks_are_found() {
    must_be_found(Planted::DeletesUnsettled, CUT, crashes);
}

#[test]
fn a_number_that_passes_an_ingestion_is_found() {
    must_be_found(Planted::IngestedLate, CUT, crashes);
}

/// Models find it as well, by scans.
#[test]
fn a_part_of_an_ingestion_is_found_after_a_power_cut() {
    must_be_found(Planted::IngestedByParts, CUT, crashes);
}

#[test]
fn tombstones_that_go_above_what_they_hide_are_found() {
    must_be_found(Planted::TombstonesDropped, CUT, crashes);
}

#[test]
fn tables_that_the_journal_was_not_asked_for_are_found() {
    let test = the_journal_is_asked_before_and_persisted_does_not_pass_it;
    must_be_found(Planted::JournalUnasked, "", test);
}
