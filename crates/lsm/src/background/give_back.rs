//! Has the allocator give back to the system what the cache has freed of it: what it knows of a piece. (Pieces, and
//! memtables, have memory of their own.)
//!
//! That goes in another order than it came. So what is free lies between what stays, and is resident all the same,
//! uncounted. Whoever flushes or compacts gives it back when done; a task does where only reads come.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use engine::MemoryBudget;
use workers::Class;

use crate::store::Shared;

/// It is done once so much of the budget was freed: as much may be resident that is not counted.
const PARTS: u64 = 16;

/// Has a task do it.
type Schedule = Box<dyn Fn() + Send + Sync>;

/// What was freed since it was given back.
pub(crate) struct Freed {
    bytes: AtomicU64,
    is_task_queued: AtomicBool,
    schedule: OnceLock<Schedule>,
    budget: Arc<MemoryBudget>,
}

impl Freed {
    /// Nothing was freed.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self {
            bytes: AtomicU64::new(0),
            is_task_queued: AtomicBool::new(false),
            schedule: OnceLock::new(),
            budget: Arc::clone(budget),
        })
    }

    /// So many bytes were freed, in small pieces.
    pub(crate) fn note(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Has it given back, soon, if it is much: for whoever has others wait.
    pub(crate) fn give_back_soon(&self) {
        if let Some(schedule) = self.schedule.get().filter(|_| self.is_much()) {
            schedule();
        }
    }

    fn is_much(&self) -> bool {
        self.bytes.load(Relaxed) > self.budget.limit() / PARTS
    }

    /// Gives it back if it is much.
    pub(crate) fn give_back(&self) {
        if self.is_much() {
            self.bytes.store(0, Relaxed);
            sync::give_back_heaps();
        }
    }
}

impl fmt::Debug for Freed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Freed").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Shared {
    /// Has tasks of this store give back what readers have freed.
    pub(crate) fn give_back_on_tasks(self: &Arc<Self>) {
        let shared = Arc::downgrade(self);
        let schedule = move || {
            if let Some(shared) = shared.upgrade() {
                shared.schedule_giving_back();
            }
        };
        let _ = self.cache.freed().schedule.set(Box::new(schedule));
    }

    fn schedule_giving_back(&self) {
        let freed = Arc::clone(self.cache.freed());
        if freed.is_task_queued.swap(true, SeqCst) {
            return;
        }
        let task = move |_: &workers::StopToken| {
            freed.is_task_queued.store(false, SeqCst);
            freed.give_back();
        };
        // A pool that is stopping has other worries.
        let _ = self.group.submit(Class::Collect, "lsm give back", task);
    }
}
