//! Work of a store that only one thread does at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use sync::{Mutex, MutexGuard};

use super::Segment;
use crate::examine::Examined;

/// Work that only one thread does at a time.
#[derive(Default)]
pub(crate) struct Gates {
    /// Held by the thread that writes buffers, or that commits an exchange of a job.
    pub(crate) flusher: Mutex<()>,
    /// Held by a job, and by a checkpoint while it copies segments.
    pub(crate) exchanges: Mutex<()>,
    /// Whether a checkpoint or a compaction holds it: for longer than a job.
    is_exchanges_held: AtomicBool,
    /// The outcome of the opening's examination, until it is carried out.
    pub(crate) examined: Mutex<Option<Examined>>,
    /// Whether a task reads the directory of a group.
    pub(crate) is_loading: AtomicBool,
    /// Whether the places that the table has not named at the opening were returned to the device.
    pub(super) has_discarded: AtomicBool,
    /// Removed segments whose room the device still has.
    pub(super) unreleased: Mutex<Vec<Arc<Segment>>>,
}

/// The gate of exchanges, held for longer than a job. Meanwhile no job is scheduled: it would end
/// without work.
pub(crate) struct HeldExchanges<'g> {
    gates: &'g Gates,
    _gate: MutexGuard<'g, ()>,
}

impl Gates {
    /// Keeps jobs from being scheduled until the result is dropped.
    pub(crate) fn hold_exchanges<'g>(&'g self, gate: MutexGuard<'g, ()>) -> HeldExchanges<'g> {
        self.is_exchanges_held.store(true, SeqCst);
        HeldExchanges { gates: self, _gate: gate }
    }

    /// Returns whether jobs have to wait for a checkpoint or a compaction.
    pub(crate) fn are_exchanges_held(&self) -> bool {
        self.is_exchanges_held.load(SeqCst)
    }
}

impl Drop for HeldExchanges<'_> {
    fn drop(&mut self) {
        self.gates.is_exchanges_held.store(false, SeqCst);
    }
}
