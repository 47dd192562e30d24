//! Background work: flushes and compactions, submitted to the pool that the store was handed.
//!
//! One flush task is queued or running at a time, so that none waits for another and keeps a thread
//! of the pool from compactions. It reorganises the Dranges, if that is due, flushes or merges the
//! memtable that waits longest, with its Drange, and queues the next task. Writers that wait for
//! room check for it after each task. A compaction task does one job of the plan, and plans again
//! when it is done. Jobs that run at the same time are disjoint (`lsm_tree::plan::compaction`).
//!
//! A job that cannot read a table keeps its claim until the store is opened again: its tables stay
//! where they are, and nothing else is in danger. Jobs that do not meet it continue, and so do
//! writes until Level 0 is full and no job can help.

mod compact_range;
pub(crate) mod compaction;
pub(crate) mod flush;
mod flush_requests;
pub(crate) mod idle;
mod job_counts;
pub(crate) mod merge_memtables;
pub(crate) mod on_demand;
mod reclaim;
pub(crate) mod release;
pub(crate) mod remove;
pub(crate) mod reorganise;
pub(crate) mod sweep;

use std::sync::Arc;

use codec::SeqNo;
use engine::{DeadRuns, Error, Result};
use sync::Mutex;
use workers::{Class, Group};

use crate::memory_split::JOBS_MAX;
use crate::store::Shared;
use flush::Wanted;
use flush_requests::FlushRequests;
use idle::Idle;
use job_counts::JobCounts;
use lsm_tree::plan::compaction::{CompactionClaim, Job, group_tables, plan};
use lsm_tree::plan::ingest::{Place, plan_ingest};
use lsm_tree::plan::sweep::{plan_drops, plan_sweep};
use lsm_tree::plan::tombstones::plan_tombstones;
use lsm_tree::table::{Summary, Tally};
use reorganise::Reorganiser;

/// The state of background work that is under way, and counts of the work that was done.
#[derive(Debug)]
pub(crate) struct Background {
    /// One flush at a time, so that memtables reach Level 0 in their order.
    pub(crate) flusher: Mutex<()>,
    flush_requests: FlushRequests,
    pub(crate) dead_runs: DeadRuns,
    /// The version and the horizon of the last plan that was made for deletes.
    planned: Mutex<(u64, SeqNo)>,
    claims: Mutex<Claims>,
    pub(crate) counts: JobCounts,
    pub(crate) idle: Idle,
    pub(crate) reorganiser: Reorganiser,
    pub(crate) tally: Arc<Tally>,
    /// The group of the store's tasks.
    pub(crate) group: Group,
}

impl Background {
    /// Makes the state in which nothing is under way and Level 0 has `level0_bytes` bytes. The
    /// tasks are those of `group`.
    pub(crate) fn new(level0_bytes: u64, group: Group) -> Self {
        Self {
            flusher: Mutex::default(),
            flush_requests: FlushRequests::default(),
            dead_runs: DeadRuns::default(),
            planned: Mutex::default(),
            claims: Mutex::default(),
            counts: JobCounts::default(),
            idle: Idle::new(level0_bytes),
            reorganiser: Reorganiser::default(),
            tally: Arc::default(),
            group,
        }
    }

    /// Notes a version and a horizon for which there is a plan; returns whether they are new.
    fn note_planned(&self, version: u64, horizon: SeqNo) -> bool {
        let before = std::mem::replace(&mut *self.planned.lock(), (version, horizon));
        before != (version, horizon)
    }
}

/// Claims that another job must not meet.
#[derive(Debug, Default)]
struct Claims {
    /// Of the jobs that are queued or running.
    under_way: Vec<CompactionClaim>,
    /// Of the places that ingested tables are about to take.
    reserved: Vec<CompactionClaim>,
    /// Of the jobs that could not read a table, and why the first of them could not.
    failed: Vec<CompactionClaim>,
    failure: Option<Error>,
}

impl Claims {
    fn all(&self) -> Vec<CompactionClaim> {
        [self.under_way.as_slice(), &self.reserved, &self.failed].concat()
    }
}

impl Shared {
    /// Has the memtables that wait flushed, soon.
    pub(crate) fn schedule_flush(self: &Arc<Self>) {
        let requests = &self.background.flush_requests;
        let is_due = self.state.load().due() > 0 || requests.is_any_due();
        if !is_due || !requests.try_queue() {
            return;
        }
        let shared = Arc::downgrade(self);
        let task = move |_stop: &workers::StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            let requests = &shared.background.flush_requests;
            let number = shared.admission.flushes.begin();
            shared.fit_lookup_index();
            shared.fit_spare_memory();
            shared.reorganise();
            let persisted = match requests.take_persist() {
                true => shared.persist_range_deletes_in_background(),
                false => Ok(()),
            };
            if persisted.as_ref().is_err_and(engine::Error::is_retryable) {
                requests.request_persist();
            }
            // Versions in memtables may be all that keeps range deletes from ending.
            let deletes = Arc::clone(&shared.state.load().deletes);
            let are_tombstones_due = requests.take_tombstones();
            let flushed = persisted.and_then(|()| match are_tombstones_due {
                true => shared.flush_for_deletes(),
                false if deletes.are_many(shared.host.memory.limit()) => {
                    shared.flush_sealed(Wanted::Everything)
                }
                false => shared.flush_sealed(Wanted::WhatWaitsLongest),
            });
            shared.note_flush(number, &flushed);
            // A thread that sealed a memtable before this line found this task, and queued none.
            requests.end_task();
            if flushed.is_ok() {
                shared.schedule_flush();
            }
        };
        // A pool that is stopping runs nothing more, and no thread waits for it.
        if self.background.group.submit(Class::Flush, "flush", task).is_err() {
            requests.end_task();
        }
    }

    /// Has the manifest get the range deletes, soon.
    pub(crate) fn schedule_range_deletes(self: &Arc<Self>) {
        self.background.flush_requests.request_persist();
        self.schedule_flush();
    }

    /// Has done what the plan says, soon.
    pub(crate) fn schedule_compactions(self: &Arc<Self>) {
        self.schedule_beside(&mut self.background.claims.lock());
    }

    /// Schedules compactions if gets have searched tables in vain often enough that one may be due.
    pub(crate) fn compact_for_gets(self: &Arc<Self>) {
        if self.lookups.take_plan_due() {
            self.schedule_compactions();
        }
    }

    fn schedule_beside(self: &Arc<Self>, claims: &mut Claims) {
        let state = self.state.load_full();
        let version = &state.version;
        let mut claimed = claims.all();
        let is_seen = |older, newer| self.host.sequence.is_seen(older, newer);
        let durable = &state.deletes.durable;
        let mut jobs = plan_drops(version, durable, &is_seen, &mut claimed);
        let jobs_max = JOBS_MAX.saturating_sub(claims.under_way.len() + jobs.len());
        let split = self.memory_split();
        let shape = self.options.shape(&split);
        let level0_bytes = group_tables(&shape) as u64 * split.level0_unit();
        jobs.extend(plan(version, &shape, level0_bytes, &claimed, jobs_max));
        claimed.extend(jobs.iter().map(Job::claim));
        let are_many = durable.len() > self.options.range_deletes_max
            || state.deletes.are_many(self.host.memory.limit());
        if are_many && JOBS_MAX > claims.under_way.len() + jobs.len() {
            jobs.extend(plan_sweep(version, &self.sweep(), &is_seen, &claimed));
        }
        if jobs.is_empty() && claims.under_way.is_empty() {
            jobs.extend(plan_tombstones(version, self.host.sequence.horizon(), &claimed));
        }
        if jobs.is_empty() && claims.under_way.is_empty() && self.is_idle() {
            jobs.extend(self.idle_job(version, &claimed));
        }
        for job in jobs {
            let claim = job.claim();
            let shared = Arc::downgrade(self);
            let task = move |stop: &workers::StopToken| {
                if let Some(shared) = shared.upgrade() {
                    shared.run_job(job, stop);
                }
            };
            if self.background.group.submit(Class::Compact, "compact", task).is_err() {
                return;
            }
            claims.under_way.push(claim);
        }
    }

    fn run_job(self: &Arc<Self>, job: Job, stop: &workers::StopToken) {
        let (claim, number) = (job.claim(), self.admission.compactions.begin());
        let done = self.health.check_writable().and_then(|()| self.compact(job, stop));
        self.end_job(claim, number, done);
    }

    /// Ends a job, which is the try `number` of a compaction, and releases its claim.
    fn end_job(self: &Arc<Self>, claim: CompactionClaim, number: u64, done: Result<()>) {
        self.cache.freed().release();
        self.tables.obsolete.run();
        let mut claims = self.background.claims.lock();
        claims.under_way.retain(|other| *other != claim);
        // A retryable failure is tried again with the next plan, which another event causes.
        let mut passing = Ok(());
        // In the same step as the next plan: that no job is under way means that none can be.
        match done {
            Ok(()) => self.schedule_beside(&mut claims),
            Err(error) if is_of_reading(&error) => {
                claims.failed.push(claim);
                claims.failure.get_or_insert(error);
                self.schedule_beside(&mut claims);
            }
            Err(error) if error.stops_writes() => self.health.fail(&error),
            Err(error) => passing = Err(error),
        }
        drop(claims);
        self.admission.compactions.end(number, &passing);
        self.admission.writers.wake();
    }

    /// Returns the level that each of these tables is to be ingested into. No job takes these
    /// places before [`Shared::release_places`].
    pub(crate) fn reserve_places(&self, tables: &[Summary]) -> Vec<Place> {
        let mut claims = self.background.claims.lock();
        let version = Arc::clone(&self.state.load().version);
        let shape = self.options.shape(&self.memory_split());
        let places = plan_ingest(&version, &shape, &claims.all(), tables);
        claims.reserved.extend(places.iter().filter_map(|place| place.claim.clone()));
        places
    }

    /// The tables are in their places, or will never be.
    pub(crate) fn release_places(self: &Arc<Self>, places: &[Place]) {
        let mut claims = self.background.claims.lock();
        let is_released =
            |claim: &CompactionClaim| places.iter().any(|one| one.claim.as_ref() == Some(claim));
        claims.reserved.retain(|claim| !is_released(claim));
        self.schedule_beside(&mut claims);
    }

    /// Why nothing is compacted, if no job is under way and one has failed.
    pub(crate) fn compactions_halted(&self) -> Option<Error> {
        let claims = self.background.claims.lock();
        claims.failure.clone().filter(|_| claims.under_way.is_empty())
    }

    /// Jobs that could not read a table.
    pub(crate) fn compactions_failed(&self) -> usize {
        self.background.claims.lock().failed.len()
    }

    /// Jobs that are queued or running.
    pub(crate) fn compactions_under_way(&self) -> usize {
        self.background.claims.lock().under_way.len()
    }
}

/// Returns whether the error is a failure to read, rather than to write. Too many open files is
/// neither.
fn is_of_reading(error: &Error) -> bool {
    match error {
        Error::Corruption(_) | Error::Device(device::Error::UnexpectedEnd { .. }) => true,
        Error::Device(device::Error::Io { operation, .. }) => {
            *operation == device::FailedOperation::Read
        }
        _ => false,
    }
}
