//! Bugs of this crate that ordinary tests find (`docs/reliability/planted-lsm-tree.md`).

use super::compaction::{a_snapshot_keeps_its_versions, a_tombstone_stays_above_an_older_version};
use crate::plan::compaction::tests::a_group_that_is_too_large_gives_up_its_youngest;
use crate::planted::{Planted, must_be_found};

#[test]
fn a_snapshot_that_loses_versions_is_found() {
    must_be_found(Planted::SnapshotsForgotten, "", a_snapshot_keeps_its_versions);
}

#[test]
fn a_job_that_leaves_older_tables_is_found() {
    let test = a_group_that_is_too_large_gives_up_its_youngest;
    must_be_found(Planted::OldestLeft, "", test);
}

#[test]
fn a_tombstone_that_is_dropped_early_is_found() {
    must_be_found(Planted::BelowForgotten, "", a_tombstone_stays_above_an_older_version);
}
