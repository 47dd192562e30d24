//! A piece of work that a task of the store does for threads that must not do it themselves.
//!
//! Any number of requests before the task begins cause one run of it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};

use workers::Class;

use crate::store::Shared;

/// See the file's head.
pub(crate) struct OnDemandTask {
    name: &'static str,
    work: fn(&Shared),
    store: OnceLock<Weak<Shared>>,
    is_queued: AtomicBool,
}

impl OnDemandTask {
    /// Makes work that has no store to run it yet.
    pub(crate) const fn new(name: &'static str, work: fn(&Shared)) -> Self {
        Self { name, work, store: OnceLock::new(), is_queued: AtomicBool::new(false) }
    }

    /// Has tasks of this store do the work from now on.
    pub(crate) fn begin(&self, store: &Arc<Shared>) {
        let _ = self.store.set(Arc::downgrade(store));
    }

    /// Requests the work. Returns whether a task will do it: a store that is not open yet, or is
    /// closed, has no tasks.
    pub(crate) fn ask(self: &Arc<Self>) -> bool {
        let Some(store) = self.store.get().and_then(Weak::upgrade) else { return false };
        if self.is_queued.swap(true, SeqCst) {
            return true;
        }
        let this = Arc::clone(self);
        let task = move |_: &workers::StopToken| {
            // A request after this line queues another task.
            this.is_queued.store(false, SeqCst);
            if let Some(store) = this.store.get().and_then(Weak::upgrade) {
                (this.work)(&store);
            }
        };
        let is_accepted = store.background.group.submit(Class::Collect, self.name, task).is_ok();
        if !is_accepted {
            self.is_queued.store(false, SeqCst);
        }
        is_accepted
    }
}

impl fmt::Debug for OnDemandTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnDemandTask").field("name", &self.name).finish_non_exhaustive()
    }
}
