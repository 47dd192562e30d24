//! What tombstones make worth while where nothing is pressed: a pure function of the version and of what
//! is under way.
//!
//! A queue, whose keys are put in order and deleted in order, leaves tombstones that no level is ever too
//! large for, and every scan from its beginning walks over all of them. So tables that are tombstones for
//! the most part go on, one job at a time, as long as no other one is due: to the level below, and where
//! nothing lies below they are written anew without them.
//!
//! # Invariants
//! - T1. What a snapshot may be older than stays: its tombstones could not go, and the job would be done
//!   again and again.
//! - T2. Each job takes tombstones down a level or out, so there is an end to them.

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::Arc;

use codec::SeqNo;

use super::plan_compaction::{Claim, Job, groups};
use crate::table::Table;
use crate::version::{LEVELS, Version};

/// The job that takes most tombstones away, if there is one that meets none of `claims`. Everything up to
/// `horizon` every snapshot sees.
pub(super) fn plan_tombstones(version: &Version, horizon: SeqNo, claims: &[Claim]) -> Option<Job> {
    let level0 = groups(version).into_iter().map(|group| (0, group));
    let singles = (1..LEVELS).flat_map(|level| {
        version.level(level).iter().map(move |table| (level, vec![Arc::clone(table)]))
    });
    let mut wanted: Vec<_> = level0
        .chain(singles)
        .filter_map(|(level, tables)| Some((gain(&tables, horizon)?, level, tables)))
        .collect();
    wanted.sort_by_key(|(gain, level, _)| (std::cmp::Reverse(*gain), *level));
    let jobs = wanted.into_iter().map(|(_, level, tables)| job(version, level, tables));
    let meets = |job: &Job| claims.iter().any(|claim| claim.meets(&job.claim()));
    jobs.into_iter().find(|job| !meets(job))
}

/// Tombstones of these tables, if they are at least half of what they hold, and may go (T1).
fn gain(tables: &[Arc<Table>], horizon: SeqNo) -> Option<u64> {
    let properties = || tables.iter().map(|table| &table.summary().properties);
    let tombstones: u64 = properties().map(|properties| properties.tombstones).sum();
    let entries: u64 = properties().map(|properties| properties.entries).sum();
    let may_go = properties().all(|properties| properties.newest <= horizon);
    (tombstones > 0 && 2 * tombstones >= entries && may_go).then_some(tombstones)
}

fn job(version: &Version, level: usize, tables: Vec<Arc<Table>>) -> Job {
    let is_over_something = |table: &Arc<Table>| {
        let properties = &table.summary().properties;
        (level + 1..LEVELS).any(|below| {
            !version.overlapping(below, &properties.smallest, &properties.largest).is_empty()
        })
    };
    match level == 0 || tables.iter().any(is_over_something) {
        true => Job::new(version, level, tables),
        false => Job::within(level, tables, false),
    }
}
