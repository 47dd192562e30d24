//! Flushes, merges and compactions for the sake of deletes (`engine::reclaim`), after each look of
//! `idle`.
//!
//! 1. If the deletes in memtables cover much in tables, these memtables are flushed, and everything
//!    up to their writes is persisted, so that the journal can be trimmed. `plan_tombstones` finds
//!    the tables then.
//! 2. A memtable that is mostly tombstones is sealed once the store is quiet. If it is of a queue,
//!    where a put and its delete are in memory, the merge keeps nothing (`merge_memtables`, H1).
//! 3. If a scan steps over many dead entries, memtables with many tombstones are sealed, to be
//!    merged. Merged memtables that still have many, over pairs in tables, are flushed at the next
//!    look, if scans still meet them.
//! 4. If the store is quiet and a snapshot was released, there is another plan: tombstones that it
//!    held may be dropped.

use std::sync::Arc;

use engine::{Look, WaitingDeletes, has_many_tombstones, is_long_run};

use crate::admission::FLUSH;
use crate::memtable::Memtable;
use crate::state::State;
use crate::store::Shared;
use lsm_tree::version::LEVELS;

/// Tombstones of a memtable from which on it is sealed in a quiet store, if they are half of it.
const IDLE_TOMBSTONES_MIN: u64 = 64;

impl Shared {
    /// Whether the deletes in memtables are worth a flush.
    pub(super) fn are_deletes_worth_a_flush(&self) -> bool {
        waiting_deletes(&self.state.load()).are_worth_a_flush()
    }

    /// Does the work of a look.
    pub(super) fn reclaim(self: &Arc<Self>, look: Look) {
        let is_reported = self.background.dead_runs.take_report();
        let is_pausing = self.admission.errors.pausing(FLUSH, &self.host.environment).is_some();
        if is_pausing || self.health.check_writable().is_err() {
            return;
        }
        if look.is_flush_due {
            self.flush_tombstones(&|memtable| memtable.tombstones() > 0);
        } else if is_reported && self.state.load().sealed.iter().any(|sealed| has_many(sealed)) {
            self.flush_tombstones(&has_many);
        } else if is_reported {
            self.seal_where(&has_many);
        } else if look.is_quiet {
            self.seal_where(&|active| {
                let tombstones = active.tombstones();
                tombstones >= IDLE_TOMBSTONES_MIN && 2 * tombstones >= active.len() as u64
            });
        }
        let version = self.state.load().version.number();
        if look.is_quiet && self.background.note_planned(version, self.host.sequence.horizon()) {
            self.schedule_compactions();
        }
    }

    /// Notes that a scan has stepped over `steps` dead entries to reach its next pair.
    pub(crate) fn note_dead_run(self: &Arc<Self>, steps: u64) {
        if self.background.dead_runs.note(steps) {
            self.seal_where(&has_many);
        }
        if is_long_run(steps) {
            self.wake_looks_unnumbered();
        }
    }

    /// Has all sealed memtables flushed, and the wanted ones of the others, if there is a wanted
    /// one.
    fn flush_tombstones(self: &Arc<Self>, is_wanted: &dyn Fn(&Memtable) -> bool) {
        if self.state.load().memtables().any(|memtable| is_wanted(memtable)) {
            self.background.flush_requests.request_tombstones();
            self.seal_where(is_wanted);
            self.schedule_flush();
        }
    }
}

fn has_many(memtable: &Memtable) -> bool {
    has_many_tombstones(memtable.tombstones(), memtable.len() as u64)
}

/// Estimates the deletes in memtables, and the bytes that a flush of these memtables writes.
fn waiting_deletes(state: &State) -> WaitingDeletes {
    let version = &state.version;
    let stored_bytes = (0..LEVELS).map(|level| version.level_bytes(level)).sum();
    let mut all = WaitingDeletes { stored_bytes, ..WaitingDeletes::default() };
    for memtable in state.memtables().filter(|memtable| memtable.tombstones() > 0) {
        let bounds = memtable.bounds();
        let covered = version.covered_bytes(0, memtable.tombstones(), &|summary| {
            let properties = &summary.properties;
            bounds.is_before_end(&properties.smallest) && bounds.start <= properties.largest
        });
        all.covered_bytes += covered;
        all.flush_bytes += memtable.bytes();
    }
    all.covered_bytes = all.covered_bytes.min(stored_bytes);
    all
}
