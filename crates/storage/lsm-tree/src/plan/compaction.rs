//! The plan of compactions: a pure function of the version and of the jobs under way.
//!
//! 1. Level 0 consists of groups of tables that overlap, directly or through others. A group is a
//!    job, together with the tables of Level 1 that it overlaps. A group that is too large leaves
//!    its youngest tables out. A full group is due once it is as large as the data below that it
//!    would rewrite. Half of a full group is due once reads have searched its tables in vain for
//!    that number of bytes. A group of many tables is always due, and all groups are due if Level 0
//!    has too many bytes or tables. Other groups whose keys are within those of the job join it:
//!    the tables of Level 1 that they overlap are rewritten anyway.
//! 2. A level's pressure is the ratio of its content to its target (`targets`): tables of a group
//!    or bytes in Level 0, bytes in the other levels. Levels above their target are served, the
//!    most pressed first. If Level 0 slows writers down, one job is always for Level 0. Level 1
//!    should hold at least the bytes of Level 0. In the end a level is merged with all of the next
//!    one, and two levels of equal size cost the least.
//! 3. In another level, the job takes the table that overlaps the least data below for its size.
//! 4. A job whose levels and keys meet those of a job under way has to wait.
//!
//! # Invariants
//! - P1. Of two tables of Level 0 that overlap, the older one is in every job that the younger one
//!   is in (V3).
//! - P2. No two jobs share a level and a key: each key of a job is between its bounds, which cover
//!   all of its tables, those below included.

#[cfg(all(test, not(shuttle)))]
mod tests;

use std::ops::RangeInclusive;
use std::sync::Arc;

use codec::SeqNo;

use super::targets::Targets;
use crate::shape::Shape;
use crate::table::Table;
use crate::version::Version;

/// Tables of Level 0 in one job, at most: a merge opens all of them at the same time.
const LEVEL0_JOB_TABLES_MAX: usize = 24;
/// Full groups' worth of tables above which all of Level 0 is due, however few each group has.
const LEVEL0_GROUPS_MAX: usize = 64;
/// Full groups' worth of tables from which on a group is due, however much it would rewrite below.
const LEVEL0_GROUP_TIMES: usize = 4;
/// Tables of a group that reads may make due, at least; it is half of a full group if that is more.
const LEVEL0_READ_MIN: usize = 2;

/// Tables to be merged into a level.
#[derive(Debug)]
pub struct Job {
    /// The level of the upper tables.
    pub from: usize,
    /// The level that the new tables go to.
    pub to: usize,
    /// Tables of the upper level.
    pub upper: Vec<Arc<Table>>,
    /// Tables of the lower level that they overlap.
    pub lower: Vec<Arc<Table>>,
    /// Whether range deletes hide all of it, so that the tables only go.
    pub drops: bool,
    /// Whether it is only done while there are no writes (`idle`).
    pub yields: bool,
}

/// The levels and keys that a job works on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionClaim {
    from: usize,
    to: usize,
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl CompactionClaim {
    /// The keys from `smallest` to `largest` in the levels `from` to `to`.
    pub fn of(levels: RangeInclusive<usize>, smallest: &[u8], largest: &[u8]) -> Self {
        let (from, to) = levels.into_inner();
        Self { from, to, smallest: smallest.to_vec(), largest: largest.to_vec() }
    }

    /// Returns the smallest key.
    pub fn smallest(&self) -> &[u8] {
        &self.smallest
    }

    /// Returns the largest key.
    pub fn largest(&self) -> &[u8] {
        &self.largest
    }

    /// P2.
    pub fn meets(&self, other: &Self) -> bool {
        self.from <= other.to
            && other.from <= self.to
            && self.smallest <= other.largest
            && other.smallest <= self.largest
    }
}

impl Job {
    /// Returns the job that merges these tables of a level with the tables that they overlap below.
    pub fn new(version: &Version, from: usize, upper: Vec<Arc<Table>>) -> Self {
        let (smallest, largest) = bounds(upper.iter());
        let lower = version.overlapping(from + 1, &smallest, &largest);
        Self { from, to: from + 1, upper, lower, drops: false, yields: false }
    }

    /// Returns the same for a group of Level 0, with all of `others` whose keys are within its
    /// keys. They add no tables of Level 1: its tables do not overlap each other, and those between
    /// the job's bounds are already in the job.
    pub fn of_group(version: &Version, group: Vec<Arc<Table>>, others: &[Vec<Arc<Table>>]) -> Self {
        let mut job = Self::new(version, 0, group);
        let (smallest, largest) = bounds(job.tables());
        for other in others {
            let (first, last) = bounds(other.iter());
            let is_within = smallest <= first && last <= largest;
            let is_new = !other.iter().any(|one| job.upper.iter().any(|of| Arc::ptr_eq(of, one)));
            if is_within && is_new && job.upper.len() + other.len() <= LEVEL0_JOB_TABLES_MAX {
                job.upper.extend(other.iter().cloned());
            }
        }
        job
    }

    /// Returns the job that works on these tables of a level alone: it rewrites them in their
    /// place, or `drops` them.
    pub fn within(level: usize, tables: Vec<Arc<Table>>, drops: bool) -> Self {
        let lower = Vec::new();
        Self { from: level, to: level, upper: tables, lower, drops, yields: false }
    }

    /// All of its tables.
    fn tables(&self) -> impl Iterator<Item = &Arc<Table>> + Clone {
        self.upper.iter().chain(&self.lower)
    }

    /// Returns the greatest number of a version in its tables.
    pub fn newest(&self) -> SeqNo {
        let newest = |table: &Arc<Table>| table.summary().properties.newest;
        self.tables().map(newest).fold(SeqNo::ZERO, SeqNo::max)
    }

    /// Returns the levels and keys that it works on.
    pub fn claim(&self) -> CompactionClaim {
        let (smallest, largest) = bounds(self.tables());
        CompactionClaim { from: self.from, to: self.to, smallest, largest }
    }

    /// Level and number of each of its tables.
    pub fn removed(&self) -> Vec<(usize, u64)> {
        let number = |table: &Arc<Table>| table.summary().id.number;
        let upper = self.upper.iter().map(|table| (self.from, number(table)));
        upper.chain(self.lower.iter().map(|table| (self.to, number(table)))).collect()
    }

    /// The table that only has to move. One with tombstones is rewritten, so that they go in the
    /// end.
    pub fn moves(&self) -> Option<Arc<Table>> {
        match (self.upper.as_slice(), self.lower.as_slice()) {
            ([table], []) if self.from != self.to && table.summary().properties.tombstones == 0 => {
                Some(Arc::clone(table))
            }
            _ => None,
        }
    }

    /// The ids of the memtables that its entries came from.
    pub fn memtables(&self) -> (u64, u64) {
        let properties = || self.tables().map(|table| &table.summary().properties);
        let first = properties().map(|properties| properties.first_memtable).min();
        let last = properties().map(|properties| properties.last_memtable).max();
        (first.unwrap_or(0), last.unwrap_or(0))
    }

    /// Bytes of its tables.
    pub fn bytes(&self) -> u64 {
        self.tables().map(|table| table.summary().stored_bytes).sum()
    }
}

/// The smallest and the largest key of some tables.
pub fn bounds<'a>(tables: impl Iterator<Item = &'a Arc<Table>> + Clone) -> (Vec<u8>, Vec<u8>) {
    let properties = |table: &'a Arc<Table>| &table.summary().properties;
    let smallest = tables.clone().map(|table| &properties(table).smallest).min();
    let largest = tables.map(|table| &properties(table).largest).max();
    (smallest.cloned().unwrap_or_default(), largest.cloned().unwrap_or_default())
}

/// Returns the jobs to begin now, at most `jobs_max`, in addition to the jobs that hold `claims`.
/// All of Level 0 is due above `level0_bytes`.
pub fn plan(
    version: &Version,
    shape: &Shape,
    level0_bytes: u64,
    claims: &[CompactionClaim],
    jobs_max: usize,
) -> Vec<Job> {
    let groups = free_groups(version, claims);
    let due = due_groups(version, &groups, shape, level0_bytes);
    let level0 = level0_pressure(version, shape, level0_bytes, claims, &due);
    let targets = Targets::of(version, shape, 0);
    let mut pressed: Vec<(f64, usize)> = (1..targets.last())
        .map(|level| (pressure(version, &targets, claims, level), level))
        .filter(|(pressure, _)| *pressure >= 1.0)
        .collect();
    pressed.extend((!due.is_empty()).then_some((level0.max(1.0), 0)));
    pressed.sort_by(|a, b| b.0.total_cmp(&a.0));
    let claims_now = claims.to_vec();
    let mut begun =
        Begun { version, groups: &groups, claims: claims_now, jobs: Vec::new(), jobs_max };
    // Writers wait for Level 0 alone: above the mark one job is its, whatever the others hold.
    let mark = shape.level0_tables_slow as f64 / group_tables(shape) as f64;
    if level0 > mark && !claims.iter().any(|claim| claim.from == 0) {
        let _ = due.iter().any(|upper| begun.begin(0, upper.clone()));
    }
    for (_, level) in pressed {
        let candidates = if level == 0 { due.clone() } else { singles(version, level) };
        for upper in candidates {
            if begun.begin(level, upper) && level > 0 {
                break;
            }
        }
    }
    begun.jobs
}

/// The jobs of a plan so far.
struct Begun<'a> {
    version: &'a Version,
    /// The groups of Level 0 that no job works on.
    groups: &'a [Vec<Arc<Table>>],
    claims: Vec<CompactionClaim>,
    jobs: Vec<Job>,
    jobs_max: usize,
}

impl Begun<'_> {
    /// Adds the job of these tables, if it meets no other job and there is room for one more.
    /// Returns whether it was added.
    fn begin(&mut self, level: usize, upper: Vec<Arc<Table>>) -> bool {
        let job = match level {
            0 => Job::of_group(self.version, upper, self.groups),
            _ => Job::new(self.version, level, upper),
        };
        let claim = job.claim();
        let meets = self.claims.iter().any(|other| other.meets(&claim));
        if self.jobs.len() >= self.jobs_max || meets {
            return false;
        }
        self.claims.push(claim);
        self.jobs.push(job);
        true
    }
}

/// Tables that make a group of Level 0 due: no more than writers are slowed down for, or they would
/// wait for ever.
pub fn group_tables(shape: &Shape) -> usize {
    shape.level0_tables.min(shape.level0_tables_slow).max(1)
}

/// The same as [`pressure`] of Level 0, in which these groups are due: by the tables of the largest
/// of them, or by the bytes of all.
fn level0_pressure(
    version: &Version,
    shape: &Shape,
    level0_bytes: u64,
    claims: &[CompactionClaim],
    due: &[Vec<Arc<Table>>],
) -> f64 {
    let tables = due.first().map_or(0, Vec::len) as f64 / group_tables(shape) as f64;
    let free = version.level(0).iter().filter(|table| is_free(table, claims, 0));
    let bytes: u64 = free.map(|table| table.summary().stored_bytes).sum();
    tables.max(bytes as f64 / level0_bytes.max(1) as f64)
}

/// Returns the groups of Level 0 that no job works on.
pub fn free_groups(version: &Version, claims: &[CompactionClaim]) -> Vec<Vec<Arc<Table>>> {
    let mut groups = groups(version);
    groups.retain(|group| group.iter().all(|table| is_free(table, claims, 0)));
    groups
}

/// Those of these groups that are to be compacted, the largest first.
fn due_groups(
    version: &Version,
    groups: &[Vec<Arc<Table>>],
    shape: &Shape,
    level0_bytes: u64,
) -> Vec<Vec<Arc<Table>>> {
    let tables = || groups.iter().flatten();
    let full = group_tables(shape);
    let all = stored_bytes(tables()) >= level0_bytes_due(shape, level0_bytes)
        || tables().count() >= LEVEL0_GROUPS_MAX * full;
    let most = (LEVEL0_GROUP_TIMES * full).min(shape.level0_tables_slow / 2).max(full);
    let read = (full / 2).max(LEVEL0_READ_MIN).min(full);
    let is_due = |group: &&Vec<Arc<Table>>| {
        let tables = group.len();
        all || tables >= most || tables >= read && is_worth_it(version, shape, group, full)
    };
    let mut due: Vec<_> = groups.iter().filter(is_due).cloned().collect();
    due.sort_by_key(|group| std::cmp::Reverse(group.len()));
    due
}

/// Returns whether a group is worth its compaction. A group of `full` tables or more is if it is as
/// large as the data of Level 1 that it would rewrite. Any group is if it has cost its readers that
/// number of bytes. To wait any longer costs more in reads than it saves in writes.
fn is_worth_it(version: &Version, shape: &Shape, group: &[Arc<Table>], full: usize) -> bool {
    let (smallest, largest) = bounds(group.iter());
    let below = stored_bytes(version.overlapping(1, &smallest, &largest).iter());
    let visits: u64 = group.iter().map(|table| table.visits()).sum();
    let is_large = group.len() >= full && stored_bytes(group.iter()) >= below;
    is_large || visits > 0 && visits * shape.block_bytes as u64 >= below
}

/// Returns the bytes of Level 0 from which on all of it is due. These are the bytes that make it
/// full, or the target of Level 1 if that is more and writers are still far from being slowed down.
fn level0_bytes_due(shape: &Shape, level0_bytes: u64) -> u64 {
    let slow =
        (level0_bytes / group_tables(shape) as u64).saturating_mul(shape.level0_tables_slow as u64);
    shape.level1_bytes.min(slow / 2).max(level0_bytes)
}

/// Bytes of tables on the device.
fn stored_bytes<'a>(tables: impl Iterator<Item = &'a Arc<Table>>) -> u64 {
    tables.map(|table| table.summary().stored_bytes).sum()
}

/// Whether no job under way takes this table of a level.
fn is_free(table: &Table, claims: &[CompactionClaim], level: usize) -> bool {
    let overlaps =
        |claim: &CompactionClaim| table.summary().overlaps(&claim.smallest, &claim.largest);
    !claims.iter().any(|claim| claim.from == level && overlaps(claim))
}

/// Returns the ratio of the bytes of a level below Level 0 that no job works on to its target.
fn pressure(version: &Version, targets: &Targets, claims: &[CompactionClaim], level: usize) -> f64 {
    let free = version.level(level).iter().filter(|table| is_free(table, claims, level));
    let bytes: u64 = free.map(|table| table.summary().stored_bytes).sum();
    let above = if level == 1 { version.level_bytes(0) as f64 } else { 0.0 };
    bytes as f64 / targets.bytes_max(level).max(above)
}

/// The tables of Level 0 in groups that do not overlap with each other, each without its youngest
/// if it is too large.
pub fn groups(version: &Version) -> Vec<Vec<Arc<Table>>> {
    let mut tables = version.level(0).to_vec();
    tables.sort_by(|a, b| smallest(a).cmp(smallest(b)));
    let mut groups: Vec<(Vec<u8>, Vec<Arc<Table>>)> = Vec::new();
    for table in tables {
        let largest = &table.summary().properties.largest;
        match groups.last_mut() {
            Some((end, group)) if smallest(&table) <= end.as_slice() => {
                if *end < *largest {
                    end.clone_from(largest);
                }
                group.push(table);
            }
            _ => groups.push((largest.clone(), vec![table])),
        }
    }
    let oldest_first = |(_, mut group): (Vec<u8>, Vec<Arc<Table>>)| {
        group.sort_by_key(|table| table.summary().properties.last_memtable);
        group.truncate(LEVEL0_JOB_TABLES_MAX);
        group
    };
    groups.into_iter().map(oldest_first).collect()
}

/// Returns the tables of a level, each alone, ordered by the data that they overlap below for their
/// size, the least first.
fn singles(version: &Version, level: usize) -> Vec<Vec<Arc<Table>>> {
    let mut tables: Vec<(f64, &Arc<Table>)> = version
        .level(level)
        .iter()
        .map(|table| {
            let properties = &table.summary().properties;
            let below = version.overlapping(level + 1, &properties.smallest, &properties.largest);
            let bytes: u64 = below.iter().map(|table| table.summary().stored_bytes).sum();
            (bytes as f64 / table.summary().stored_bytes.max(1) as f64, table)
        })
        .collect();
    tables.sort_by(|a, b| a.0.total_cmp(&b.0));
    tables.into_iter().map(|(_, table)| vec![Arc::clone(table)]).collect()
}

fn smallest(table: &Table) -> &[u8] {
    &table.summary().properties.smallest
}
