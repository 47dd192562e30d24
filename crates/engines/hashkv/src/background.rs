//! Background work: flushes of write buffers, as tasks of the host's pool.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use workers::{Class, StopToken};

use crate::admission::FLUSH;
use crate::store::Shared;

impl Shared {
    /// Has write buffers flushed, soon, if they are above their mark.
    pub(crate) fn flush_if_due(self: &Arc<Self>) {
        if self.values.buffered() > self.memory_split().flush_bytes {
            self.schedule_flush();
        }
    }

    /// Has write buffers flushed down to half of their mark, soon. One task is queued or running at
    /// a time.
    pub(crate) fn schedule_flush(self: &Arc<Self>) {
        if self.admission.is_flush_queued.swap(true, SeqCst) {
            return;
        }
        let shared = Arc::downgrade(self);
        let task = move |_stop: &StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            let number = shared.admission.flushes.begin();
            let mark = shared.memory_split().flush_bytes;
            // Below the mark a writer waits for more memory than is left.
            let kept = if shared.values.buffered() > mark { mark / 2 } else { 0 };
            let flushed = shared.values.flush_down_to(kept);
            shared.admission.errors.note(FLUSH, &flushed, &shared.host.environment);
            shared.admission.flushes.end(number, &flushed);
            // A writer that filled buffers before this line found this task, and queued none.
            shared.admission.is_flush_queued.store(false, SeqCst);
            if flushed.is_ok() {
                shared.flush_if_due();
            }
        };
        // A pool that is stopping runs nothing more, and no thread waits for it.
        if self.group.submit(Class::Flush, "flush_buffers", task).is_err() {
            self.admission.is_flush_queued.store(false, SeqCst);
        }
    }
}
