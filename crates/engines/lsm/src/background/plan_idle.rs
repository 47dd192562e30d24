//! What to compact of Level 0 while nobody writes: a pure function of the version and of what is under way.
//!
//! Each group of Level 0 that is read beside other tables of the same keys, in Level 0 or Level 1, is a
//! job, with what it overlaps with in Level 1 (`plan_compaction`). Who reads finds one run of tables in the
//! place of all these; so those come first that write the least for each run less.

#[cfg(test)]
mod tests;

use super::plan_compaction::{Claim, Job, free_groups};
use crate::version::Version;

/// The jobs that are worth it and meet none of `claims`, the best first. Any one of them may be done, and after
/// that there is to be another plan.
pub(super) fn plan_idle(version: &Version, claims: &[Claim]) -> Vec<Job> {
    let groups = free_groups(version, claims);
    let job = |group: &Vec<_>| {
        let job = Job { gives_way: true, ..Job::of_group(version, group.clone(), &groups) };
        let runs = group.len() + usize::from(!job.lower.is_empty());
        (runs as u64 - 1, job)
    };
    let meets = |job: &Job| claims.iter().any(|claim| claim.meets(&job.claim()));
    let mut wanted: Vec<_> = groups.iter().map(job).collect();
    wanted.retain(|(spared, job)| *spared > 0 && !meets(job));
    wanted.sort_by_key(|(spared, job)| job.bytes() / spared);
    wanted.into_iter().map(|(_, job)| job).collect()
}
