//! Work of a store that only one thread does at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use sync::{Mutex, MutexGuard};

use super::Segment;
use crate::examine::Examined;

/// Work that only one thread does at a time.
#[derive(Default)]
pub(crate) struct Gates {
    /// Held by the thread that writes buffers, or that commits an exchange of a job.
    pub(crate) flusher: Mutex<()>,
    /// Held by a job, a compaction, a checkpoint while it copies segments, and the end of a close.
    pub(crate) exchanges: Mutex<()>,
    /// Checkpoints and compactions that hold it for longer than a job, or wait for it.
    holders: AtomicU64,
    /// The outcome of the opening's examination, until it is carried out.
    pub(crate) examined: Mutex<Option<Examined>>,
    /// Whether a task reads the footers of a group, for its directory or its filter.
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
    gate: Option<MutexGuard<'g, ()>>,
}

impl Gates {
    /// Keeps jobs from being scheduled, and waits for a job that runs. The result holds the gate.
    pub(crate) fn hold_exchanges(&self) -> HeldExchanges<'_> {
        self.holders.fetch_add(1, SeqCst);
        HeldExchanges { gates: self, gate: Some(self.exchanges.lock()) }
    }

    /// The same, if no other thread holds the gate.
    pub(crate) fn try_hold_exchanges(&self) -> Option<HeldExchanges<'_>> {
        let gate = self.exchanges.try_lock()?;
        self.holders.fetch_add(1, SeqCst);
        Some(HeldExchanges { gates: self, gate: Some(gate) })
    }

    /// Returns whether jobs have to wait for a checkpoint or a compaction.
    pub(crate) fn are_exchanges_held(&self) -> bool {
        self.holders.load(SeqCst) > 0
    }
}

impl Drop for HeldExchanges<'_> {
    fn drop(&mut self) {
        // A job that is scheduled from now on finds the gate free.
        self.gate = None;
        self.gates.holders.fetch_sub(1, SeqCst);
    }
}
