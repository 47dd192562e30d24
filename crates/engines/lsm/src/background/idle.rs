//! Compactions of Level 0 in a quiet store, and the looks of each second, after which deletes have
//! their turn (`reclaim`).
//!
//! A group of Level 0 waits until its compaction is worth what it writes (`plan_compaction`), and whoever
//! reads pays for that meanwhile. Where nobody writes and nothing else is to be done, it need not wait.
//!
//! 1. The store looks around each second. Once two looks have found no write since the one before, it is
//!    idle until the next write comes.
//! 2. While it is idle, and no job is due or under way, the plan is one job of `plan_idle`; when that is
//!    done the next plan is made.
//! 3. Such a job gives way: once a memtable waits for its flush, or was flushed, it ends, and what it has
//!    written is removed. It keeps no other job waiting for longer than that.
//!
//! # Invariants
//! - W1. What these jobs write, be it in vain, is at most twice what flushes and ingestions have written
//!   since the store was opened, and twice what Level 0 had then. A job is as long as all of its tables.
//! - W2. There is an end to them without new tables in Level 0: each leaves fewer there, and writes to
//!   Level 1 alone.
//! - W3. Once there is nothing left for them to do, what they were still allowed to write is forfeited. So
//!   what comes later has to have grown to as much as it would write anew below, each time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::{Error, IdleLooks, Result, Rounds};
use sync::locks::Mutex;
use workers::{Class, Next, Stopped};

use super::plan_compaction::{Claim, Job};
use super::plan_idle::plan_idle;
use crate::pressure::FLUSH;
use crate::store::Shared;
use crate::version::Version;

/// How often the store looks around.
const INTERVAL: Duration = Duration::from_secs(1);
/// Bytes that may be written for each that came to Level 0: once what goes down, which has to some time,
/// and once as much of what it is merged with.
const BYTES_A_BYTE: u64 = 2;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Idle {
    looks: IdleLooks,
    rounds: Rounds,
    allowance: Mutex<Allowance>,
    /// The number of a version in which there was nothing to do that was allowed.
    done_with: AtomicU64,
    /// Jobs that came to their end.
    pub(crate) compactions: AtomicU64,
    /// What all of them have written.
    pub(crate) bytes: AtomicU64,
}

/// W1.
#[derive(Debug)]
struct Allowance {
    bytes: u64,
    /// Bytes that came to Level 0 and were granted for.
    granted: u64,
}

impl Idle {
    /// Of a store with so many bytes in Level 0.
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

    /// A job has written so many bytes and gave way, for which all of it was allowed.
    fn gave_way(&self, job: &Job, written: u64) {
        self.bytes.fetch_add(written, Relaxed);
        self.allowance.lock().bytes += job.bytes().saturating_sub(written);
    }
}

impl Allowance {
    /// So many bytes have come to Level 0 since the store was opened.
    fn grant(&mut self, came: u64) {
        self.bytes += BYTES_A_BYTE * (came - self.granted);
        self.granted = came;
    }
}

impl Shared {
    /// Begins compactions that are due, and looks around as long as the store is open. Both are periodic tasks,
    /// which a host may hold back until it has opened all stores.
    pub(crate) fn begin_looking_around(self: &Arc<Self>) -> Result<()> {
        let weak = Arc::downgrade(self);
        let plan = move |_: &workers::StopToken| {
            if let Some(shared) = weak.upgrade() {
                shared.schedule_compactions();
            }
            Next::Never
        };
        let begun = self.group.repeat(Class::Compact, "lsm first plan", Duration::ZERO, plan);
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
        self.group.repeat(Class::Collect, "lsm look around", INTERVAL, look)
    }

    /// Returns whether looks find nothing to do until the next write or scan; the last one began at `version`.
    fn has_nothing_left(&self, version: u64) -> bool {
        if self.health.check_writable().is_err() {
            return true;
        }
        let (state, idle) = (self.state.load(), &self.background.idle);
        let is_done = || idle.done_with.load(Relaxed) == version || !self.options.tidies_when_idle;
        idle.looks.is_quiet(self.family.applied())
            && state.version.number() == version
            && state.due() == 0
            && is_done()
            && self.background.claims.lock().under_way.is_empty()
            && !self.pressure.errors.is_failing(FLUSH)
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
        let look = idle.looks.look(self.family.applied(), || self.are_deletes_worth_a_flush());
        if look.is_quiet {
            self.family.shrink_spare(0);
        }
        self.reclaim(look);
        let version = self.state.load().version.number();
        if self.is_idle() && idle.done_with.load(Relaxed) != version {
            self.schedule_compactions();
        }
    }

    /// Whether nobody has written for a while, and nothing waits for its flush.
    pub(super) fn is_idle(&self) -> bool {
        let is_quiet = self.background.idle.looks.is_quiet(self.family.applied());
        is_quiet && self.options.tidies_when_idle && self.state.load().due() == 0
    }

    /// The job to be done where nothing else is, if there is one that is allowed.
    pub(crate) fn idle_job(&self, version: &Version, claims: &[Claim]) -> Option<Job> {
        let background = &self.background;
        let (wanted, mut allowance) =
            (plan_idle(version, claims), background.idle.allowance.lock());
        let (flushed, ingested) = (&background.flushed_bytes, &background.ingested_bytes);
        allowance.grant(flushed.load(Relaxed) + ingested.load(Relaxed));
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

    /// Whether a job has to give way: a memtable waits for its flush, or has gone since so many had.
    pub(super) fn has_to_give_way(&self, gone: u64) -> bool {
        let state = self.state.load();
        state.due() > 0 || state.gone != gone
    }

    /// An idle job has ended, with so many bytes written, or gave way before.
    pub(crate) fn note_idle_job(&self, job: &Job, written: u64, is_done: bool) {
        let idle = &self.background.idle;
        if is_done {
            idle.compactions.fetch_add(1, Relaxed);
            idle.bytes.fetch_add(written, Relaxed);
        } else {
            idle.gave_way(job, written);
        }
    }
}
