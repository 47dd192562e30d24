//! Collection as far as possible: on demand, and of an idle store.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::Result;

use crate::store::Shared;
use crate::values::gates::HeldExchanges;
use crate::values::ledger::Space;

/// Jobs of one group at most. The second one drops tombstones and markers whose older records the
/// first one has dropped.
const JOBS_MAX: usize = 3;

impl Shared {
    /// Collects each group until no record can be dropped that was superseded before the call.
    /// Waits for a job or a checkpoint that runs.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn collect_all(self: &Arc<Self>) -> Result<()> {
        self.collect_behind(self.values.gates.hold_exchanges(), &|_| true)
    }

    /// Collects each group that `is_wanted` chooses by its bytes in the same way. Returns `false`
    /// if a job or a checkpoint runs. A task must not wait for them: they may wait for tasks.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn try_collect(
        self: &Arc<Self>,
        is_wanted: &dyn Fn(&Space) -> bool,
    ) -> Result<bool> {
        let Some(held) = self.values.gates.try_hold_exchanges() else { return Ok(false) };
        self.collect_behind(held, is_wanted).map(|()| true)
    }

    fn collect_behind(
        self: &Arc<Self>,
        held: HeldExchanges<'_>,
        is_wanted: &dyn Fn(&Space) -> bool,
    ) -> Result<()> {
        let collected = self.collect_groups(is_wanted);
        drop(held);
        self.set_pace();
        // A writer may wait for space, or for a job that has found the gate taken.
        self.group.note_progress();
        self.collect_if_due();
        collected
    }

    /// The same. The caller has the gate.
    fn collect_groups(&self, is_wanted: &dyn Fn(&Space) -> bool) -> Result<()> {
        self.health.check_writable()?;
        if !self.prepare_job()? {
            return Ok(());
        }
        let stop = self.group.token();
        // A writer may need the garbage that the last job has left.
        self.admission.is_futile.store(false, Relaxed);
        for group in &self.values.groups {
            // Writers that wait for space look again after each group.
            self.group.note_progress();
            for _ in 0..JOBS_MAX {
                let moment = self.moment();
                let state = group.state.lock();
                let (is_barred, space) = (state.is_barred, state.ledger.space(&moment));
                drop(state);
                let has_garbage = space.garbage + space.found > 0;
                if stop.is_stopping() || is_barred || !has_garbage || !is_wanted(&space) {
                    break;
                }
                if self.collect_group(group, &moment, (&|_| 0, 0), &stop)? == 0 {
                    break;
                }
            }
        }
        self.health.check_writable()
    }
}
