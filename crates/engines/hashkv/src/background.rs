//! Background work: flushes of write buffers, as tasks of the host's pool.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use workers::{Class, StopToken};

use crate::store::Shared;
use crate::values::failures::FLUSH;

/// The budget of the index follows the number of segments in steps of this part of the memory.
const FIT_PARTS: u64 = 64;

impl Shared {
    /// Has write buffers flushed, soon, if they or the entries of footers are above their mark.
    pub(crate) fn flush_if_due(self: &Arc<Self>) {
        let split = self.memory_split();
        let is_due = self.values.buffered() > split.flush_bytes
            || self.values.entry_bytes() > split.entry_bytes;
        if is_due {
            self.schedule_flush();
        }
    }

    /// Has write buffers flushed down to half of their mark, soon, unless a flush has failed just
    /// now. One task is queued or running at a time.
    pub(crate) fn schedule_flush(self: &Arc<Self>) {
        // A writer that waits looks again after the pause.
        let is_pausing = self.values.failures.pausing(FLUSH).is_some();
        if is_pausing || self.admission.is_flush_queued.swap(true, SeqCst) {
            return;
        }
        let shared = Arc::downgrade(self);
        let task = move |_stop: &StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            let number = shared.admission.flushes.begin();
            let split = shared.memory_split();
            // Below both marks a writer waits for more memory than is left.
            let is_above = shared.values.buffered() > split.flush_bytes
                || shared.values.entry_bytes() > split.entry_bytes;
            let kept = if is_above { split.flush_bytes / 2 } else { 0 };
            let before = shared.values.entry_bytes();
            let flushed = shared.values.flush_down_to(kept, split.entry_bytes / 2);
            shared.values.failures.note(FLUSH, &flushed);
            shared.admission.flushes.end(number, &flushed);
            // A writer that filled buffers before this line found this task, and queued none.
            shared.admission.is_flush_queued.store(false, SeqCst);
            if flushed.is_ok() {
                // The maps of segments have grown.
                shared.fit_index(shared.host.memory.limit() / FIT_PARTS);
                shared.fit_cache();
                let is_stuck = shared.values.entry_bytes() >= before.max(split.entry_bytes);
                match is_stuck && shared.values.buffered() <= split.flush_bytes {
                    // No segment can end before another one has space.
                    true => shared.schedule_collect_for_writers(),
                    false => shared.flush_if_due(),
                }
                shared.collect_if_due();
            }
        };
        // A pool that is stopping runs nothing more, and no thread waits for it.
        if self.group.submit(Class::Flush, "flush_buffers", task).is_err() {
            self.admission.is_flush_queued.store(false, SeqCst);
        }
    }
}
