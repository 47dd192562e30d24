//! A gate that holds periodic tasks back until their owner may begin to work by itself.
//!
//! A host opens many engines, and each begins its periodic tasks. Until all are open the host may
//! have to stop, and then no task must have changed anything. So the host makes the groups of each
//! engine behind a gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire};

use crate::runner::Runner;

/// Names a gate within its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GateId(pub(crate) u64);

/// Holds back the periodic tasks of the groups behind it ([`crate::Pool::behind_gate`]).
///
/// A gate that is dropped before it was opened drops the tasks that it holds. Stop its groups
/// first.
#[derive(Debug)]
pub struct Gate {
    runner: Arc<Runner>,
    id: GateId,
    is_open: AtomicBool,
}

impl Gate {
    pub(crate) fn closed(runner: &Arc<Runner>) -> (GateId, Self) {
        let id = runner.state.lock().add_gate();
        (id, Self { runner: Arc::clone(runner), id, is_open: AtomicBool::new(false) })
    }

    /// Lets the periodic tasks run when they are due, from now on. Costs a load if it is open.
    pub fn open(&self) {
        if self.is_open.load(Acquire) || self.is_open.swap(true, AcqRel) {
            return;
        }
        self.runner.state.lock().open_gate(self.id);
        self.runner.work.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if !*self.is_open.get_mut() {
            let held = self.runner.state.lock().remove_gate(self.id);
            self.runner.discard(held);
        }
    }
}
