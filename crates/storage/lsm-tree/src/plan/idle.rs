//! The plan of compactions of Level 0 while there are no writes.
//!
//! The plan is a pure function of the version and of the jobs under way. A group of Level 0 is a
//! job if it is read together with other tables of the same keys, in Level 0 or Level 1. The job
//! includes the tables of Level 1 that the group overlaps (`plan::compaction`). After the job a
//! reader finds one run of tables in the place of all these. So the jobs that write the least for
//! each run they spare come first.

#[cfg(all(test, not(shuttle)))]
mod tests;

use super::compaction::{CompactionClaim, Job, free_groups};
use crate::version::Version;

/// Returns the jobs that are worth it and meet none of `claims`, the best first. The caller may do
/// any one of them, and then has to plan again.
pub fn plan_idle(version: &Version, claims: &[CompactionClaim]) -> Vec<Job> {
    let groups = free_groups(version, claims);
    let job = |group: &Vec<_>| {
        let job = Job { yields: true, ..Job::of_group(version, group.clone(), &groups) };
        let runs = group.len() + usize::from(!job.lower.is_empty());
        (runs as u64 - 1, job)
    };
    let meets = |job: &Job| claims.iter().any(|claim| claim.meets(&job.claim()));
    let mut wanted: Vec<_> = groups.iter().map(job).collect();
    wanted.retain(|(spared, job)| *spared > 0 && !meets(job));
    wanted.sort_by_key(|(spared, job)| job.bytes() / spared);
    wanted.into_iter().map(|(_, job)| job).collect()
}
