//! Range deletes in the background: the manifest gets them, and what they hide is given back.
//!
//! 1. *Settling*: what is pending goes to the manifest, once the journal has it (law L3). Each
//!    flush begins with that; and a range delete that hides whole tables has it done for itself, and
//!    so have those that are many, or long.
//! 2. Tables that are hidden whole, and that no snapshot shows, go without being read
//!    (`plan_sweep`). Flushes and compactions leave out what is hidden of the others.
//! 3. Where there are too many range deletes, or they take more than half of their share of the
//!    memory, the table that keeps most of them from going is written anew.
//! 4. One that is refused because of the others has the memtables flushed that keep them.

use std::sync::Arc;

use codec::SeqNo;
use engine::Result;

use crate::range_deletes::{Deletes, Sweep};
use crate::store::Shared;
use crate::table::TableOptions;
use crate::version::Change;

impl Shared {
    /// How tables of a level are built now, and what is left out.
    pub(crate) fn table_options(&self, level: usize) -> TableOptions {
        let tally = Arc::clone(&self.background.tally);
        let options = self.options.tables(&self.memory_split(), level);
        TableOptions { sweep: self.sweep(), tally, ..options }
    }

    /// The range deletes that may be applied to what is written (G2 and G3 of `range_deletes`).
    pub(crate) fn sweep(&self) -> Sweep {
        // Asked before the state: what is finished is in it. In a replay only what was applied is.
        let finished = self.host.sequence.visible().min(self.family.applied());
        let persisted = self.persisted();
        let state = self.state.load();
        let Deletes { durable, pending, .. } = &*state.deletes;
        let pending = pending.iter().map(|delete| delete.seqno.get() - 1).min();
        let known = finished.max(persisted).min(pending.map_or(SeqNo::MAX, SeqNo::new));
        // What the manifest has the journal has, and nothing above is known to be there after a
        // crash.
        Sweep { deletes: durable.clone(), upto: known.min(durable.last().max(persisted)) }
    }

    /// Has the manifest get all range deletes that it does not have.
    pub(crate) fn settle_range_deletes(&self) -> Result<()> {
        let newest = self.state.load().deletes.pending.iter().map(|delete| delete.seqno).max();
        let Some(newest) = newest else { return Ok(()) };
        self.host.barrier.reach(newest)?;
        self.commit_with(Change::default(), &[], SeqNo::ZERO, newest)
    }

    /// The same in the background; then what they hide whole goes.
    pub(super) fn settle_in_background(self: &Arc<Self>) -> Result<()> {
        self.stopping(self.settle_range_deletes())?;
        self.schedule_compactions();
        Ok(())
    }
}
