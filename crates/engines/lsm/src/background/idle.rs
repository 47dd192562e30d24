//! Compactions of Level 0 in a quiet store, and the checks ("looks") of each second, after which
//! deletes have their turn (`reclaim`).
//!
//! A group of Level 0 waits until its compaction is worth the bytes that it writes
//! (`lsm_tree::plan::compaction`), and readers pay for that meanwhile. If there are no writes and
//! no other work, it need not wait.
//!
//! 1. The store looks each second. Once two looks have found no write since the one before, it is
//!    idle until the next write.
//! 2. While it is idle, and no job is due or under way, the plan is one job of
//!    `lsm_tree::plan::idle`; when that is done the next plan is made.
//! 3. Such a job yields: once a memtable waits for its flush, or was flushed, it ends, and the
//!    tables that it has written are removed. It keeps no other job waiting for longer than that.
//!
//! # Invariants
//! - W1. These jobs write, in vain or not, at most twice the bytes that flushes and ingestions have
//!   written since the store was opened, and twice the bytes that Level 0 had then. A job is as
//!   long as all of its tables.
//! - W2. They end if Level 0 gets no new tables: each leaves fewer there, and writes to Level 1
//!   alone.
//! - W3. Once there is nothing left for them to do, the rest of their allowance is forfeited. So
//!   later tables have to grow, each time, to the bytes that their compaction would rewrite below.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::{Error, IdleLooks, Result, Rounds};
use sync::locks::Mutex;
use workers::{Class, Next, Stopped};

use crate::admission::FLUSH;
use crate::store::Shared;
use lsm_tree::plan::compaction::{CompactionClaim, Job};
use lsm_tree::plan::idle::plan_idle;
use lsm_tree::version::Version;

/// Time between two looks of the store.
const INTERVAL: Duration = Duration::from_secs(1);
/// Bytes that may be written for each byte that is added to Level 0: one for that byte, which has
/// to move down some time, and one for a byte that it is merged with.
const BYTES_A_BYTE: u64 = 2;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Idle {
    looks: IdleLooks,
    rounds: Rounds,
    allowance: Mutex<Allowance>,
    /// The number of a version in which there was no job that was allowed.
    done_with: AtomicU64,
    /// Jobs that ended with their work done.
    pub(crate) compactions: AtomicU64,
    /// Bytes that all of them have written.
    pub(crate) bytes: AtomicU64,
}

/// W1.
#[derive(Debug)]
struct Allowance {
    bytes: u64,
    /// Bytes added to Level 0 for which bytes were granted.
    granted: u64,
}

impl Idle {
    /// Makes the state of a store with `level0_bytes` bytes in Level 0.
    pub(crate) fn new(level0_bytes: u64) -> Self {
        let allowance = Allowance { bytes: level0_bytes * BYTES_A_BYTE, granted: 0 };
        Self {
            looks: IdleLooks::default(),
            rounds: Rounds::default(),
            allowance: Mutex::new(allowance),
            done_with: AtomicU64::new(u64::MAX),
            compactions: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Notes that a job, whose whole length was allowed, yielded after it had written `written`
    /// bytes.
    fn note_yielded(&self, job: &Job, written: u64) {
        self.bytes.fetch_add(written, Relaxed);
        self.allowance.lock().bytes += job.bytes().saturating_sub(written);
    }
}

impl Allowance {
    /// Grants for `came` bytes that were added to Level 0 since the store was opened.
    fn grant(&mut self, came: u64) {
        self.bytes += BYTES_A_BYTE * (came - self.granted);
        self.granted = came;
    }
}

impl Shared {
    /// Begins compactions that are due, and looks as long as the store is open. Both are periodic
    /// tasks, which a host may hold back until it has opened all stores.
    pub(crate) fn begin_looking_around(self: &Arc<Self>) -> Result<()> {
        let weak = Arc::downgrade(self);
        let plan = move |_: &workers::StopToken| {
            if let Some(shared) = weak.upgrade() {
                shared.schedule_compactions();
            }
            Next::Never
        };
        let group = &self.background.group;
        let begun = group.repeat(Class::Compact, "lsm first plan", Duration::ZERO, plan);
        begun.map_err(|_| Error::Closed)?;
        self.look_around().map_err(|_| Error::Closed)
    }

    /// Looks each second until nothing is left to do ([`engine::Rounds`]).
    fn look_around(self: &Arc<Self>) -> std::result::Result<(), Stopped> {
        let weak = Arc::downgrade(self);
        let look = move |_: &workers::StopToken| {
            let Some(shared) = weak.upgrade() else { return Next::Never };
            shared.background.idle.rounds.run(&shared.host.sequence, || {
                let version = shared.state.load().version.number();
                shared.compact_if_idle();
                shared.has_nothing_left(version)
            })
        };
        self.background.group.repeat(Class::Collect, "lsm look around", INTERVAL, look)
    }

    /// Returns whether looks find nothing to do until the next write or scan; the last one began at
    /// `version`.
    fn has_nothing_left(&self, version: u64) -> bool {
        if self.health.check_writable().is_err() {
            return true;
        }
        let (state, idle) = (self.state.load(), &self.background.idle);
        let is_done =
            || idle.done_with.load(Relaxed) == version || !self.options.compacts_when_idle;
        idle.looks.is_quiet(self.memtables.applied())
            && state.version.number() == version
            && state.due() == 0
            && is_done()
            && self.background.claims.lock().under_way.is_empty()
            && !self.admission.errors.is_failing(FLUSH)
            // A snapshot may hold tombstones, which are dropped after it.
            && self.host.sequence.oldest_pin().is_none()
            && !self.are_deletes_worth_a_flush()
    }

    /// A write, whose number is not over yet, may have left something to do.
    #[inline]
    pub(crate) fn wake_looks(self: &Arc<Self>) {
        self.background.idle.rounds.wake(|| self.look_around_again());
    }

    /// Something without a number may have left something to do.
    pub(crate) fn wake_looks_unnumbered(self: &Arc<Self>) {
        self.background.idle.rounds.wake_unnumbered(|| self.look_around_again());
    }

    #[cold]
    fn look_around_again(self: &Arc<Self>) {
        // A pool that is stopping looks no more.
        let _: std::result::Result<(), Stopped> = self.look_around();
    }

    /// A second has passed.
    pub(crate) fn compact_if_idle(self: &Arc<Self>) {
        let idle = &self.background.idle;
        let look = idle.looks.look(self.memtables.applied(), || self.are_deletes_worth_a_flush());
        if look.is_quiet {
            self.memtables.memory().shrink_spare(0);
        }
        self.reclaim(look);
        let version = self.state.load().version.number();
        if self.is_idle() && idle.done_with.load(Relaxed) != version {
            self.schedule_compactions();
        }
    }

    /// Returns whether there was no write for a while, and no memtable waits for its flush.
    pub(super) fn is_idle(&self) -> bool {
        let is_quiet = self.background.idle.looks.is_quiet(self.memtables.applied());
        is_quiet && self.options.compacts_when_idle && self.state.load().due() == 0
    }

    /// Returns the job to do if there is no other work, if there is one that is allowed.
    pub(crate) fn idle_job(&self, version: &Version, claims: &[CompactionClaim]) -> Option<Job> {
        let background = &self.background;
        let (wanted, mut allowance) =
            (plan_idle(version, claims), background.idle.allowance.lock());
        allowance.grant(background.counts.added_bytes());
        if wanted.is_empty() {
            allowance.bytes = 0;
        }
        let job = wanted.into_iter().find(|job| job.bytes() <= allowance.bytes);
        match &job {
            Some(job) => allowance.bytes -= job.bytes(),
            None => background.idle.done_with.store(version.number(), Relaxed),
        }
        job
    }

    /// Returns whether a job has to yield: a memtable waits for its flush, or was flushed since the
    /// count was `gone`.
    pub(super) fn has_to_yield(&self, gone: u64) -> bool {
        let state = self.state.load();
        state.due() > 0 || state.gone != gone
    }

    /// Notes that an idle job has ended, or has yielded, after it had written `written` bytes.
    pub(crate) fn note_idle_job(&self, job: &Job, written: u64, is_done: bool) {
        let idle = &self.background.idle;
        if is_done {
            idle.compactions.fetch_add(1, Relaxed);
            idle.bytes.fetch_add(written, Relaxed);
        } else {
            idle.note_yielded(job, written);
        }
    }
}
