//! Background work: flushes and compactions, submitted to the pool that the store was handed.
//!
//! One flush task is queued at a time; it flushes all memtables that wait. A compaction task does
//! one job of the plan, and plans anew when it is done. Jobs that run at once are disjoint
//! (`plan_compaction`).

pub(crate) mod compaction;
pub(crate) mod flush;
pub(crate) mod plan_compaction;
pub(crate) mod retention;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use engine::Error;
use parking_lot::Mutex;
use workers::Class;

use crate::store::{Shared, stops_writes};
use plan_compaction::{Claim, Job, plan};

/// What is under way, and what was done.
#[derive(Debug, Default)]
pub(crate) struct Background {
    is_flush_queued: AtomicBool,
    /// What the jobs that are queued or running work on.
    claims: Mutex<Vec<Claim>>,
    /// Why there are no more compactions: a table could not be read. What it has stays where it is,
    /// and nothing else is in danger, so writes go on until Level 0 is full.
    halted: OnceLock<Error>,
    pub(crate) flushes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compacted_read_bytes: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) moves: AtomicU64,
}

impl Shared {
    /// Has the memtables that wait flushed, soon.
    pub(crate) fn schedule_flush(self: &Arc<Self>) {
        let is_due = self.state.load().sealed() > 0;
        if !is_due || self.background.is_flush_queued.swap(true, SeqCst) {
            return;
        }
        let shared = Arc::downgrade(self);
        let task = move |_stop: &workers::StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            // From here on a memtable that is sealed has another task queued for it.
            shared.background.is_flush_queued.store(false, SeqCst);
            if let Err(error) = shared.flush_sealed() {
                shared.pressure.fail(error);
            }
        };
        // A pool that is stopping runs nothing more, and nobody waits for it.
        if self.group.submit(Class::Flush, "flush", task).is_err() {
            self.background.is_flush_queued.store(false, SeqCst);
        }
    }

    /// Has done what the plan says, soon.
    pub(crate) fn schedule_compactions(self: &Arc<Self>) {
        if self.background.halted.get().is_some() {
            return;
        }
        let mut claims = self.background.claims.lock();
        let version = Arc::clone(&self.state.load().version);
        for job in plan(&version, &self.options, &claims) {
            let claim = job.claim();
            let shared = Arc::downgrade(self);
            let task = move |stop: &workers::StopToken| {
                if let Some(shared) = shared.upgrade() {
                    shared.run_job(job, stop);
                }
            };
            if self.group.submit(Class::Compact, "compact", task).is_err() {
                return;
            }
            claims.push(claim);
        }
    }

    fn run_job(self: &Arc<Self>, job: Job, stop: &workers::StopToken) {
        let claim = job.claim();
        let done = self.health.check_writable().and_then(|()| self.compact(job, stop));
        self.background.claims.lock().retain(|other| *other != claim);
        match done {
            Ok(()) => self.schedule_compactions(),
            Err(error) if is_of_reading(&error) => {
                let _ = self.background.halted.set(error);
            }
            Err(error) if stops_writes(&error) => self.health.fail(&error),
            Err(_) => {}
        }
        self.pressure.relieve();
    }

    /// Why there are no more compactions, if there are none.
    pub(crate) fn compactions_halted(&self) -> Option<Error> {
        self.background.halted.get().cloned()
    }

    /// Jobs that are queued or running.
    pub(crate) fn compactions_under_way(&self) -> usize {
        self.background.claims.lock().len()
    }

    /// Counts bytes.
    pub(crate) fn count(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Relaxed);
    }
}

/// Whether something could not be read, rather than written.
fn is_of_reading(error: &Error) -> bool {
    match error {
        Error::Corruption(_) | Error::Device(device::Error::UnexpectedEnd { .. }) => true,
        Error::Device(device::Error::Io { operation, .. }) => {
            *operation == device::FailedOperation::Read
        }
        _ => false,
    }
}
