//! Jobs for range deletes: a pure function of the version, range deletes and jobs under way.
//!
//! A table that a range delete hides completely only has to be removed. If it hides a part, the
//! part is dropped by the next compaction. If too many range deletes wait for that, the table that
//! most of them wait for is rewritten in its place.
//!
//! Neither is done for entries that a snapshot shows, since they would have to stay.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use codec::SeqNo;

use super::compaction::{CompactionClaim, Job, groups};
use crate::range_deletes::{RangeDeletes, Sweep};
use crate::table::Table;
use crate::version::{LEVELS, Version};

/// Returns whether a snapshot may show the first number, the second being its successor.
type IsSeen<'a> = dyn Fn(SeqNo, SeqNo) -> bool + 'a;

/// Returns the jobs that only remove tables. Each is of adjacent tables of a level, or of Level 0.
/// Their claims are added to `claims`.
pub fn plan_drops(
    version: &Version,
    deletes: &RangeDeletes,
    is_seen: &IsSeen<'_>,
    claims: &mut Vec<CompactionClaim>,
) -> Vec<Job> {
    let mut jobs = Vec::new();
    if deletes.is_empty() {
        return jobs;
    }
    for level in 0..LEVELS {
        let numbers: HashSet<u64> = deletes
            .iter()
            .flat_map(|delete| version.in_range(level, delete).map(move |table| (delete, table)))
            .filter(|(delete, table)| {
                let properties = &table.summary().properties;
                delete.hides_all_of(properties) && !is_seen(properties.oldest, delete.seqno)
            })
            .map(|(_, table)| table.summary().id.number)
            .collect();
        let is_hidden = |table: &Arc<Table>| numbers.contains(&table.summary().id.number);
        let runs = version
            .level(level)
            .chunk_by(|one, other| level == 0 || is_hidden(one) == is_hidden(other));
        for run in runs {
            let hidden: Vec<_> = run.iter().filter(|one| is_hidden(one)).cloned().collect();
            if hidden.is_empty() {
                continue;
            }
            let job = Job::within(level, hidden, true);
            let claim = job.claim();
            if !claims.iter().any(|other| other.meets(&claim)) {
                claims.push(claim);
                jobs.push(job);
            }
        }
    }
    jobs
}

/// Returns the job that rewrites the table that most range deletes wait for. In Level 0, where
/// older tables may be below it, the job is that of its group. A table that is written now is swept
/// up to the number in `sweep` or further: for later range deletes it would be rewritten again and
/// again.
pub fn plan_sweep(
    version: &Version,
    sweep: &Sweep,
    is_seen: &IsSeen<'_>,
    claims: &[CompactionClaim],
) -> Option<Job> {
    let mut waiting: HashMap<(usize, u64), (usize, &Arc<Table>)> = HashMap::new();
    for delete in sweep.deletes.iter().filter(|delete| delete.seqno <= sweep.upto) {
        for level in 0..LEVELS {
            for table in version.in_range(level, delete) {
                let properties = &table.summary().properties;
                if delete.may_hide_in(properties) && !is_seen(properties.oldest, delete.seqno) {
                    let number = table.summary().id.number;
                    waiting.entry((level, number)).or_insert((0, table)).0 += 1;
                }
            }
        }
    }
    let mut tables: Vec<_> = waiting.into_iter().collect();
    tables.sort_by_key(|(place, (count, _))| (std::cmp::Reverse(*count), *place));
    let groups = groups(version);
    let job = |level: usize, table: &Arc<Table>| {
        if level > 0 {
            return Some(Job::within(level, vec![Arc::clone(table)], false));
        }
        let has_it = |group: &&Vec<Arc<Table>>| group.iter().any(|one| Arc::ptr_eq(one, table));
        groups.iter().find(has_it).map(|group| Job::new(version, 0, group.clone()))
    };
    let mut jobs = tables.into_iter().filter_map(|((level, _), (_, table))| job(level, table));
    jobs.find(|job| {
        let claim = job.claim();
        !claims.iter().any(|other| other.meets(&claim))
    })
}
