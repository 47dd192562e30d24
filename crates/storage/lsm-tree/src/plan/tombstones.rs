//! Jobs for tombstones if no level is pressed: a pure function of version and jobs under way.
//!
//! The tombstones of a queue, whose keys are put in order and deleted in order, make no level too
//! large, and every scan from its beginning walks over all of them. Deletes of large values leave
//! few bytes of tombstones over many dead bytes. So tables move on for the sake of their
//! tombstones, one job at a time, as long as no other job is due. They move to the level below; if
//! there is nothing below, they are rewritten without the tombstones. A job is worth it
//! - if the tombstones hide at least a quarter of the bytes that the job reads. The estimate is
//!   their number, times the mean length of the entries below. Or
//! - if at least half of the entries are tombstones, and the job reads at most ten times their
//!   tables from the level below, as an ordinary compaction does.
//!
//! # Invariants
//! - T1. A table stays if a snapshot may be older than one of its entries: its tombstones could not
//!   be dropped, and the job would be repeated again and again.
//! - T2. Each job takes tombstones down a level or out, so there is an end to them.

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::sync::Arc;

use codec::SeqNo;

use super::compaction::{CompactionClaim, Job, bounds, groups};
use crate::table::{Summary, Table};
use crate::version::{LEVELS, Version};

/// Part of a job's bytes (one in this many) that tombstones have to hide.
const HIDDEN_PARTS: u64 = 4;
/// Bytes of the level below that a job reads for each byte of tables that are mostly tombstones.
const LOWER_TIMES: u64 = 10;

/// Returns the job that removes most tombstones, if there is one that meets none of `claims`. Every
/// snapshot sees everything up to `horizon`.
pub fn plan_tombstones(
    version: &Version,
    horizon: SeqNo,
    claims: &[CompactionClaim],
) -> Option<Job> {
    let level0 = groups(version).into_iter().map(|group| (0, group));
    let singles = (1..LEVELS).flat_map(|level| {
        version.level(level).iter().map(move |table| (level, vec![Arc::clone(table)]))
    });
    let mut wanted: Vec<_> = level0
        .chain(singles)
        .filter_map(|(level, tables)| Some((gain(&tables, horizon)?, level, tables)))
        .collect();
    wanted.sort_by_key(|(gain, level, _)| (std::cmp::Reverse(*gain), *level));
    let jobs = wanted.into_iter().map(|(gain, level, tables)| (gain, job(version, level, tables)));
    let meets = |job: &Job| claims.iter().any(|claim| claim.meets(&job.claim()));
    let mut worth = jobs.filter(|(gain, job)| is_worth_it(version, gain, job));
    worth.find(|(_, job)| !meets(job)).map(|(_, job)| job)
}

/// The gain of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Gain {
    tombstones: u64,
    /// Whether they are at least half of the entries of their tables.
    are_most: bool,
}

/// The tombstones of these tables, if there are some that may go (T1).
fn gain(tables: &[Arc<Table>], horizon: SeqNo) -> Option<Gain> {
    let properties = || tables.iter().map(|table| &table.summary().properties);
    let tombstones: u64 = properties().map(|properties| properties.tombstones).sum();
    let entries: u64 = properties().map(|properties| properties.entries).sum();
    let may_go = properties().all(|properties| properties.newest <= horizon);
    let gain = Gain { tombstones, are_most: 2 * tombstones >= entries };
    (tombstones > 0 && may_go).then_some(gain)
}

/// Whether a job is worth what it writes.
fn is_worth_it(version: &Version, gain: &Gain, job: &Job) -> bool {
    let bytes = |tables: &[Arc<Table>]| tables.iter().map(|it| it.summary().stored_bytes).sum();
    let (upper, lower): (u64, u64) = (bytes(&job.upper), bytes(&job.lower));
    if gain.are_most && lower <= LOWER_TIMES * upper {
        return true;
    }
    let (smallest, largest) = bounds(job.upper.iter());
    let is_below = |summary: &Summary| summary.overlaps(&smallest, &largest);
    let hidden = version.covered_bytes(job.from + 1, gain.tombstones, &is_below);
    hidden >= (upper + lower) / HIDDEN_PARTS
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
