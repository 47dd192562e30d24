//! Commits for the sake of deletes (`engine::reclaim`), after each look of `collect`.
//!
//! 1. If the deletes in memtables cover much of the space, all memtables are committed. The
//!    intervals of a sample of the deleted keys say how much: the index has their lengths and the
//!    number of their pairs, so nothing is read. The collector finds the segments that are dead
//!    then.
//! 2. A memtable that is mostly tombstones is committed once the store is quiet.
//! 3. If a scan steps over many dead entries, memtables with many tombstones are committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use codec::SeqNo;
use engine::{DeadRuns, IdleLooks, WaitingDeletes, has_many_tombstones, is_long_run};
use sync::locks::Mutex;
use workers::Class;

use crate::background_errors::COMMIT;
use crate::memtable::Memtable;
use crate::state::State;
use crate::store::Shared;

/// Entries of a memtable that an estimate looks at, about.
const SAMPLE_ENTRIES: usize = 512;
/// Looks for which an estimate is used again in a store that is written to.
const ESTIMATE_LOOKS: u32 = 5;
/// Tombstones of a memtable from which on it is committed in a quiet store, if they are half of it.
const IDLE_TOMBSTONES_MIN: u64 = 64;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    pub(crate) dead_runs: DeadRuns,
    looks: IdleLooks,
    estimate: Mutex<Estimate>,
    is_queued: AtomicBool,
}

/// The last estimate.
#[derive(Debug, Default)]
struct Estimate {
    deletes: WaitingDeletes,
    /// The newest write at that moment.
    newest: SeqNo,
    /// Looks since.
    age: u32,
}

impl Shared {
    /// A second has passed. Returns whether memtables are to be committed.
    pub(crate) fn reclaim(self: &Arc<Self>) -> bool {
        let Some(state) = self.state.load_full() else { return false };
        let newest = self.writes.memtables.applied();
        let are_worth = || self.waiting_deletes(&state, newest).are_worth_a_flush();
        let look = self.background.reclaim.looks.look(newest, are_worth);
        let is_reported = self.background.reclaim.dead_runs.take_report();
        let is_idle_work =
            || look.is_quiet && state.memtables().any(|memtable| are_most_tombstones(memtable));
        let is_due = look.is_flush_due || is_reported && has_many(&state) || is_idle_work();
        if is_due {
            self.schedule_commit_of_deletes();
        }
        is_due
    }

    /// Whether the last look found that nothing was written for a while, and nothing was since.
    pub(crate) fn is_quiet(&self) -> bool {
        self.background.reclaim.looks.is_quiet(self.writes.memtables.applied())
            && !self.background.reclaim.is_queued.load(SeqCst)
    }

    /// A scan has stepped over `steps` dead entries in a row.
    pub(crate) fn note_dead_run(self: &Arc<Self>, steps: u64) {
        if self.background.reclaim.dead_runs.note(steps)
            && self.state.load().as_ref().is_some_and(|state| has_many(state))
        {
            self.schedule_commit_of_deletes();
        }
        if is_long_run(steps) {
            self.wake_looks_unnumbered();
        }
    }

    /// Schedules a commit of all memtables.
    fn schedule_commit_of_deletes(self: &Arc<Self>) {
        let is_writable = self.health.check_writable().is_ok();
        if !is_writable || self.background.reclaim.is_queued.swap(true, SeqCst) {
            return;
        }
        let shared = Arc::downgrade(self);
        let task = move |_stop: &workers::StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            shared.background.reclaim.is_queued.store(false, SeqCst);
            if let Err(failure) = shared.flush() {
                shared.note_ended(COMMIT, Err(failure));
            }
        };
        // A pool that is stopping runs nothing more.
        if self.background.group.submit(Class::Flush, "flexdb deletes", task).is_err() {
            self.background.reclaim.is_queued.store(false, SeqCst);
        }
    }

    /// Returns the deletes in memtables, now or some checks ago.
    fn waiting_deletes(&self, state: &State, newest: SeqNo) -> WaitingDeletes {
        let mut estimate = self.background.reclaim.estimate.lock();
        estimate.age += 1;
        if estimate.age > ESTIMATE_LOOKS || estimate.newest != newest && estimate.age > 1 {
            let deletes = self.estimate_deletes(state);
            *estimate = Estimate { deletes, newest, age: 0 };
        }
        estimate.deletes
    }

    fn estimate_deletes(&self, state: &State) -> WaitingDeletes {
        let usual = self.interval_limits().pairs / 2;
        let stored_bytes = self.space.len();
        let mut covered_bytes = 0;
        for memtable in state.memtables().filter(|memtable| memtable.tombstones() > 0) {
            let stride = (memtable.len() / SAMPLE_ENTRIES).max(1);
            let mut bytes = 0;
            memtable.sample_tombstones(stride, &mut |key| {
                let Some(found) = state.base.interval_of(key) else { return };
                let pairs = found.entry.head().map_or(usual, |head| head.lie.pairs_or(usual));
                bytes += u64::from(found.length) / pairs.max(1) as u64;
            });
            covered_bytes += bytes * stride as u64;
        }
        let covered_bytes = covered_bytes.min(stored_bytes);
        WaitingDeletes { covered_bytes, flush_bytes: self.writes.memory_bytes(), stored_bytes }
    }
}

fn are_most_tombstones(memtable: &Memtable) -> bool {
    let tombstones = memtable.tombstones();
    tombstones >= IDLE_TOMBSTONES_MIN && 2 * tombstones >= memtable.len() as u64
}

fn has_many(state: &State) -> bool {
    let mut memtables = state.memtables();
    memtables.any(|memtable| has_many_tombstones(memtable.tombstones(), memtable.len() as u64))
}
