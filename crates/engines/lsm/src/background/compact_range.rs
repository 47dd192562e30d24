//! The compaction of a range on demand, and its size.
//!
//! 1. All memtables are flushed.
//! 2. From Level 0 on, each table that overlaps with the range is merged with the next level, one
//!    job at a time, as long as there is anything of its keys in deeper levels.
//! 3. A table with nothing below it is rewritten in its place, unless this call has written it.
//!
//! A job runs on the caller's thread, under a claim as those of the plan
//! (`lsm_tree::plan::compaction`, P2). If its keys are in a job of the plan, the caller waits for
//! that one.
//!
//! # Invariants
//! - J1. The call visits each level once, and only tables that are there when it begins with the
//!   level. So writers do not keep it from its end.

use std::sync::Arc;

use engine::{Error, KeyRange, Result};

use super::Claims;
use crate::store::Shared;
use lsm_tree::entry::Target;
use lsm_tree::plan::compaction::{CompactionClaim, Job, groups};
use lsm_tree::range_deletes::RangeDelete;
use lsm_tree::table::Table;
use lsm_tree::version::{LEVELS, Version};

/// The next step in a level.
enum Step {
    Run(Job),
    /// Another job has its keys.
    Wait(CompactionClaim),
    Done,
}

impl Shared {
    /// Leaves nothing on the device that is deleted or overwritten in `range`, unless a snapshot
    /// shows it.
    pub(crate) fn compact_range(self: &Arc<Self>, range: &KeyRange) -> Result<()> {
        self.flush()?;
        let Some(keys) = in_range(range) else { return Ok(()) };
        let begun = self.tables.next_number();
        for level in 0..LEVELS {
            let upto = self.tables.next_number();
            loop {
                self.health.check_writable()?;
                match self.next_step(level, &keys, begun, upto)? {
                    Step::Run(job) => self.run_claimed(job)?,
                    Step::Wait(claim) => self.wait_for_others(&claim)?,
                    Step::Done => break,
                }
            }
        }
        self.schedule_compactions();
        Ok(())
    }

    /// The next job of a level; its claim is held from now on.
    fn next_step(&self, level: usize, keys: &RangeDelete, begun: u64, upto: u64) -> Result<Step> {
        let mut claims = self.background.claims.lock();
        let version = Arc::clone(&self.state.load().version);
        let mut tables = version.in_range(level, keys);
        let Some(job) = tables.find_map(|table| job_of(&version, level, table, begun, upto)) else {
            return Ok(Step::Done);
        };
        let claim = job.claim();
        if claims.failed.iter().any(|other| other.meets(&claim)) {
            return Err(claims.failure.clone().unwrap_or(Error::Closed));
        }
        if is_met(&claims, &claim) {
            return Ok(Step::Wait(claim));
        }
        claims.under_way.push(claim);
        Ok(Step::Run(job))
    }

    fn run_claimed(self: &Arc<Self>, job: Job) -> Result<()> {
        let (claim, number) = (job.claim(), self.admission.compactions.begin());
        let done = self.compact(job, &self.background.group.token());
        self.end_job(claim, number, done.clone());
        done
    }

    fn wait_for_others(&self, claim: &CompactionClaim) -> Result<()> {
        let is_free = || {
            let claims = self.background.claims.lock();
            !is_met(&claims, claim) || self.health.check_open().is_err()
        };
        match self.background.group.wait_until(is_free) {
            Ok(()) => Ok(()),
            Err(workers::WaitError::Panicked(panic)) => Err(panic.into()),
            Err(workers::WaitError::Stopped(_)) => Err(Error::Closed),
        }
    }

    /// Estimates the bytes of `range` in tables. Of a table at an end of the range its index says
    /// how much.
    pub(crate) fn approximate_bytes(&self, range: &KeyRange) -> Result<u64> {
        let version = Arc::clone(&self.open_state()?.version);
        let Some(keys) = in_range(range) else { return Ok(0) };
        let mut bytes = 0;
        for level in 0..LEVELS {
            for table in version.in_range(level, &keys) {
                let properties = &table.summary().properties;
                let is_whole =
                    keys.covers(&properties.smallest) && keys.covers(&properties.largest);
                bytes += match is_whole {
                    true => table.summary().stored_bytes,
                    false => part_of(table, &keys)?,
                };
            }
        }
        Ok(bytes)
    }
}

/// The bytes of data that a table has from the beginning of a range to its end.
fn part_of(table: &Table, keys: &RangeDelete) -> Result<u64> {
    let metadata = table.metadata()?;
    let before = |key: &[u8]| -> Result<u64> {
        let fragments = &table.summary().properties.fragments;
        let Some(index) = table.index_at(&metadata, Target::first_of(key))? else {
            return Ok(fragments.iter().sum());
        };
        let handle = table.handle(&index)?;
        let whole = fragments.iter().take(handle.fragment as usize).sum::<u64>();
        Ok(whole + handle.offset)
    };
    let begin = before(&keys.start)?;
    let end = match &keys.end {
        Some(end) => before(end)?,
        None => table.summary().properties.fragments.iter().sum(),
    };
    Ok(end.saturating_sub(begin))
}

/// Returns the keys of a range in the form of a range delete; `None` if the range can hold no key.
fn in_range(range: &KeyRange) -> Option<RangeDelete> {
    let (start, end) = range.half_open()?;
    Some(RangeDelete { seqno: codec::SeqNo::MAX, start, end })
}

/// Whether a job that is queued or running, or an ingestion, has some of these keys.
fn is_met(claims: &Claims, claim: &CompactionClaim) -> bool {
    claims.under_way.iter().chain(&claims.reserved).any(|other| other.meets(claim))
}

/// Returns the job of a table of a level, if it needs one.
fn job_of(
    version: &Version,
    level: usize,
    table: &Arc<Table>,
    begun: u64,
    upto: u64,
) -> Option<Job> {
    let summary = table.summary();
    if summary.id.number >= upto {
        return None;
    }
    if level == 0 {
        let has_it = |group: &Vec<Arc<Table>>| group.iter().any(|one| Arc::ptr_eq(one, table));
        let group = groups(version).into_iter().find(has_it)?;
        return Some(Job::new(version, 0, group));
    }
    let (smallest, largest) = (&summary.properties.smallest, &summary.properties.largest);
    let is_below = |below| !version.overlapping(below, smallest, largest).is_empty();
    let tables = vec![Arc::clone(table)];
    if (level + 1..LEVELS).any(is_below) {
        return Some(Job::new(version, level, tables));
    }
    (summary.id.number < begun).then(|| Job::within(level, tables, false))
}
