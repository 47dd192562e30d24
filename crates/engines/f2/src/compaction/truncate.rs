//! The log begins further on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use workers::Class;

use crate::address::LogAddress;
use crate::planted::{Planted, is_planted};
use crate::store::Shared;

/// Buckets that are scrubbed before the task looks whether it should stop.
const BUCKETS_AT_ONCE: usize = 4096;

impl Shared {
    /// Drops everything below `to`, and has the entries that lead there freed in a while.
    pub(crate) fn truncate(self: &Arc<Self>, to: LogAddress) {
        // Counted before it moves: a thread that sees the new beginning sees the new count [O3 of
        // `ops`].
        if is_planted(Planted::BegunUncounted) {
            self.log.shift_begin(to);
        }
        self.truncations.fetch_add(1, Ordering::AcqRel);
        self.log.shift_begin(to);
        self.scrubs.fetch_add(1, Ordering::AcqRel);
        let shared = Arc::clone(self);
        // [C3]
        let scrub = move || shared.queue_scrub(to);
        if is_planted(Planted::ScrubbedEarly) { scrub() } else { self.epochs.bump_with(scrub) }
    }

    fn queue_scrub(self: &Arc<Self>, begin: LogAddress) {
        let shared = Arc::downgrade(self);
        // A pool that is stopping scrubs no more; entries below the beginning are harmless.
        let _ = self.workers.submit(Class::Compact, "scrub index", move |stop| {
            let Some(shared) = shared.upgrade() else { return };
            let mut from = Some(0);
            while let Some(bucket) = from.filter(|_| !stop.is_stopping()) {
                let _guard = shared.epochs.protect();
                from = shared.index.scrub(begin, bucket, BUCKETS_AT_ONCE);
            }
            shared.scrubs.fetch_sub(1, Ordering::AcqRel);
            shared.update_level();
        });
    }
}
