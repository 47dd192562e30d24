//! The state of the work that keeps the journal short.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use engine::BackgroundErrors;
use journal::Journal;
use workers::{Class, StopToken};

use super::Background;
use crate::flush::JournalLooks;
use crate::trim_holds::TrimHolds;

/// Share of the journal by which it grows before another try to free some, after one that freed
/// nothing: a try asks every engine for its figures.
const RETRY_PARTS: u64 = 8;

/// Maintenance of the journal, as a task that runs soon after the journal has grown by a segment.
type Task = Arc<dyn Fn() + Send + Sync>;

/// Requests to maintain the journal soon after it has grown by a segment, and the state of this
/// maintenance. Requests that arrive while the task waits for its turn share one run.
#[derive(Default)]
pub(crate) struct Upkeep {
    /// Segments begun when a writer last looked.
    seen: AtomicU64,
    is_queued: AtomicBool,
    /// Bytes of the journal below which nothing is tried, since the last try freed nothing.
    retry_at: AtomicU64,
    /// Maintenance that is under way: flushes that make a part of the journal free.
    running: AtomicU64,
    /// Bytes of the journal above which writers wait for it.
    writers_wait_at: AtomicU64,
    task: OnceLock<Task>,
    pub(crate) trim_holds: TrimHolds,
    /// Flushes in the background that fail for a reason that may pass.
    pub(crate) errors: BackgroundErrors,
    pub(crate) looks: JournalLooks,
}

/// Maintenance of the journal that is under way.
pub(super) struct Running<'a>(&'a AtomicU64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Upkeep {
    /// Sets the task that [`Upkeep::request`] runs, once. It calls [`Upkeep::note_begun`] first.
    pub(super) fn set_task(&self, task: Task) {
        let _ = self.task.set(task);
    }

    /// Returns whether the journal has begun a segment since the last call. Costs two loads.
    #[inline]
    pub(super) fn sees_new_segment(&self, journal: &Journal) -> bool {
        let begun = journal.segments_begun();
        let is_new = begun != self.seen.load(Relaxed);
        if is_new {
            self.seen.store(begun, Relaxed);
        }
        is_new
    }

    /// Has the task run soon, if the journal has more than `bytes_max` bytes.
    #[cold]
    pub(super) fn request(&self, journal: &Journal, bytes_max: u64, background: &Background) {
        let least = bytes_max.max(self.retry_at.load(Relaxed));
        if journal.bytes() <= least || self.is_queued.swap(true, SeqCst) {
            return;
        }
        let task = self.task.get().cloned();
        let work = move |_: &StopToken| {
            if let Some(task) = task {
                task();
            }
        };
        if background.group.submit(Class::Collect, "journal upkeep", work).is_err() {
            self.is_queued.store(false, SeqCst);
        }
    }

    /// Notes that the task has begun: a segment that is begun from here on requests it again.
    pub(super) fn note_begun(&self) {
        self.is_queued.store(false, SeqCst);
    }

    /// Begins maintenance, which ends when the returned guard is dropped. `writers_wait_at` returns
    /// the bytes of the journal above which writers wait for it.
    pub(super) fn begin(&self, writers_wait_at: impl FnOnce() -> u64) -> Running<'_> {
        if self.running.load(SeqCst) == 0 {
            // Not again while a flush runs: the journal is longer during it.
            self.writers_wait_at.store(writers_wait_at(), Relaxed);
        }
        self.running.fetch_add(1, SeqCst);
        Running(&self.running)
    }

    /// Returns whether maintenance is under way. Costs one load.
    #[inline]
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Relaxed) > 0
    }

    /// Returns whether no maintenance is under way for which a writer has to wait.
    pub(super) fn is_short(&self, journal: &Journal) -> bool {
        self.running.load(SeqCst) == 0 || journal.bytes() <= self.writers_wait_at.load(Relaxed)
    }

    /// Notes the end of a try to free a part of the journal, which has `bytes` now. Nothing is
    /// tried for some time if it `must_grow` first.
    pub(super) fn note_try(&self, bytes: u64, must_grow: bool) {
        let retry_at = if must_grow { bytes + bytes / RETRY_PARTS } else { 0 };
        self.retry_at.store(retry_at, Relaxed);
    }
}

#[cfg(test)]
impl Upkeep {
    /// Begins maintenance of a journal that is far too long, whatever its length is.
    pub(crate) fn begin_for_test(&self) {
        self.writers_wait_at.store(0, SeqCst);
        self.running.fetch_add(1, SeqCst);
    }

    /// Ends it.
    pub(crate) fn end_for_test(&self) {
        self.running.fetch_sub(1, SeqCst);
    }
}
