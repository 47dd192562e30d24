//! Range deletes in the background: the manifest gets them, and the space of the versions that they
//! hide is reclaimed.
//!
//! 1. *Persisting*: pending range deletes go to the manifest, once the journal has them (law L3).
//!    Each flush begins with that. A range delete that hides whole tables causes it too, and so do
//!    range deletes that are many, or long.
//! 2. Tables that are hidden whole, and that no snapshot shows, are dropped without being read
//!    (`plan_sweep`). Flushes and compactions leave out the hidden versions of other tables.
//! 3. If there are too many range deletes, or they take more than half of their share of the
//!    memory, the table that keeps most of them from ending is rewritten.
//! 4. If one is refused because of the others, the memtables that keep those are flushed.

use std::sync::Arc;

use codec::SeqNo;
use engine::Result;

use crate::store::Shared;
use lsm_tree::range_deletes::{Deletes, Sweep};
use lsm_tree::table::TableOptions;
use lsm_tree::version::Change;

impl Shared {
    /// Returns how tables of a level are built now, and which versions are left out.
    pub(crate) fn table_options(&self, level: usize) -> TableOptions {
        let tally = Arc::clone(&self.background.tally);
        let options = self.options.tables(&self.memory_split(), level);
        TableOptions { sweep: self.sweep(), tally, ..options }
    }

    /// Returns the range deletes that may be applied to versions that are written (G2 and G3 of
    /// `range_deletes`).
    pub(crate) fn sweep(&self) -> Sweep {
        // Loaded before the state, which so has every finished write. In a replay only applied
        // writes are in it.
        let finished = self.host.sequence.visible().min(self.memtables.applied());
        let persisted = self.manifest.persisted();
        let state = self.state.load();
        let Deletes { durable, pending, .. } = &*state.deletes;
        let pending = pending.iter().map(|delete| delete.seqno.get() - 1).min();
        let known = finished.max(persisted).min(pending.map_or(SeqNo::MAX, SeqNo::new));
        // The journal has the range deletes of the manifest, and nothing above is known to be there
        // after a crash.
        Sweep { deletes: durable.clone(), upto: known.min(durable.last().max(persisted)) }
    }

    /// Has the manifest get all range deletes that it does not have.
    pub(crate) fn persist_range_deletes(&self) -> Result<()> {
        let newest = self.state.load().deletes.pending.iter().map(|delete| delete.seqno).max();
        let Some(newest) = newest else { return Ok(()) };
        self.host.barrier.reach(newest)?;
        self.commit_with(Change::default(), &[], SeqNo::ZERO, newest)
    }

    /// Does the same in the background; then schedules compactions that drop tables hidden whole.
    pub(super) fn persist_range_deletes_in_background(self: &Arc<Self>) -> Result<()> {
        self.stopping(self.persist_range_deletes())?;
        self.schedule_compactions();
        Ok(())
    }
}
