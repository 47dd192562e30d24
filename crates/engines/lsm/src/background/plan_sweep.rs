//! What range deletes make possible: a pure function of the version, of them, and of what is under
//! way.
//!
//! A table that one of them hides whole only has to go. Where it hides a part, the part goes with
//! the next compaction; if too many wait for that, the table that most of them wait for is written
//! anew, in its place.
//!
//! Neither is done for what a snapshot shows: nothing would come of it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use codec::SeqNo;

use super::plan_compaction::{Claim, Job, groups};
use crate::range_deletes::{RangeDeletes, Sweep};
use crate::table::Table;
use crate::version::{LEVELS, Version};

/// Whether a snapshot may show the first number, the second being its successor.
type IsSeen<'a> = dyn Fn(SeqNo, SeqNo) -> bool + 'a;

/// The jobs that only take tables away. Each is of tables that lie beside each other in a level, or
/// of Level 0; their claims are added to `claims`.
pub(super) fn plan_drops(
    version: &Version,
    deletes: &RangeDeletes,
    is_seen: &IsSeen<'_>,
    claims: &mut Vec<Claim>,
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

/// The job that writes the table anew that most range deletes wait for. In Level 0, where older
/// tables may lie beneath it, it is that of its group. A table that is written now is swept up to
/// where `sweep` says or further: for others it would be written again and again.
pub(super) fn plan_sweep(
    version: &Version,
    sweep: &Sweep,
    is_seen: &IsSeen<'_>,
    claims: &[Claim],
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
