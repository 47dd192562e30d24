//! Bugs of checkpoints, of backups, and of restored databases.

use thermocline::planted::{Planted, must_be_found};

use super::crashes::{
    a_power_cut_leaves_a_whole_checkpoint_or_none,
    a_power_cut_leaves_a_whole_restored_database_or_none,
    a_power_cut_leaves_each_backup_whole_or_refused,
};
use super::failures::what_is_damaged_where_it_was_restored_to_is_no_database;
use super::making::{
    a_batch_between_two_copies_is_whole,
    every_engine_comes_back_as_it_was_when_each_backup_was_made,
    the_journal_of_a_backup_is_not_trimmed_meanwhile,
};

#[test]
fn a_copy_that_begins_with_the_newest_moment_is_found() {
    let test = a_batch_between_two_copies_is_whole;
    must_be_found(Planted::CopiedFromNewest, "", test);
}

#[test]
fn a_journal_that_is_trimmed_meanwhile_is_found() {
    let test = the_journal_of_a_backup_is_not_trimmed_meanwhile;
    must_be_found(Planted::TrimmedMeanwhile, "", test);
}

#[test]
fn a_checkpoint_whose_directories_are_lost_is_found() {
    let test = a_power_cut_leaves_a_whole_checkpoint_or_none;
    must_be_found(Planted::CheckpointUnnamed, "missing", test);
}

#[test]
fn a_backup_that_is_not_synced_is_found() {
    let test = a_power_cut_leaves_each_backup_whole_or_refused;
    must_be_found(Planted::BackupUnsynced, "", test);
}

#[test]
fn a_manifest_that_is_not_synced_is_found() {
    let test = a_power_cut_leaves_each_backup_whole_or_refused;
    must_be_found(Planted::ManifestUnsynced, "", test);
}

#[test]
fn a_manifest_whose_name_is_lost_is_found() {
    let test = a_power_cut_leaves_each_backup_whole_or_refused;
    must_be_found(Planted::ManifestUnnamed, "", test);
}

#[test]
fn files_that_are_shared_by_their_names_are_found() {
    let test = every_engine_comes_back_as_it_was_when_each_backup_was_made;
    must_be_found(Planted::SharedByName, "checksum", test);
}

#[test]
fn what_is_restored_and_not_synced_is_found() {
    let test = a_power_cut_leaves_a_whole_restored_database_or_none;
    must_be_found(Planted::RestoredUnsynced, "0 bytes long", test);
}

#[test]
fn what_is_restored_and_loses_its_directories_is_found() {
    let test = a_power_cut_leaves_a_whole_restored_database_or_none;
    must_be_found(Planted::RestoredUnnamed, "is not there", test);
}

#[test]
fn a_restored_database_before_it_is_verified_is_found() {
    let test = what_is_damaged_where_it_was_restored_to_is_no_database;
    must_be_found(Planted::RestoredUnverified, "it is a database already", test);
}
