//! Requests to the flush task, of which one is queued or running at a time.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Whether a flush task is queued, and the work of the next one apart from memtables that wait.
#[derive(Debug, Default)]
pub(crate) struct FlushRequests {
    is_task_queued: AtomicBool,
    /// Whether the next flush task has the manifest get the range deletes, if it has nothing else
    /// to do.
    is_persist_due: AtomicBool,
    /// Whether the next flush task flushes all sealed memtables, for the sake of deletes.
    are_tombstones_due: AtomicBool,
}

impl FlushRequests {
    /// Returns whether the next task has work apart from memtables that wait.
    pub(super) fn is_any_due(&self) -> bool {
        self.is_persist_due.load(SeqCst) || self.are_tombstones_due.load(SeqCst)
    }

    /// Notes that a task is queued. Returns whether none was.
    pub(super) fn try_queue(&self) -> bool {
        !self.is_task_queued.swap(true, SeqCst)
    }

    /// Notes that the task has ended, or was not queued.
    pub(super) fn end_task(&self) {
        self.is_task_queued.store(false, SeqCst);
    }

    /// Has the next task persist the range deletes.
    pub(super) fn request_persist(&self) {
        self.is_persist_due.store(true, SeqCst);
    }

    /// Returns whether the task is to persist the range deletes, and ends the request.
    pub(super) fn take_persist(&self) -> bool {
        self.is_persist_due.swap(false, SeqCst)
    }

    /// Has the next task flush all sealed memtables.
    pub(super) fn request_tombstones(&self) {
        self.are_tombstones_due.store(true, SeqCst);
    }

    /// Returns whether the task is to flush all sealed memtables, and ends the request.
    pub(super) fn take_tombstones(&self) -> bool {
        self.are_tombstones_due.swap(false, SeqCst)
    }
}
