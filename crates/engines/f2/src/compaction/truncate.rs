//! The log begins further on.

use std::sync::Arc;

use workers::Class;

use crate::address::LogAddress;
use crate::planted::{Planted, mutant};
use crate::store::Shared;

/// Buckets that are scrubbed before the task looks whether it should stop.
const BUCKETS_PER_TURN: usize = 4096;

impl Shared {
    /// Drops everything below `to`, and has the entries that lead there freed in a while.
    pub(crate) fn truncate(self: &Arc<Self>, to: LogAddress) {
        self.hot.shift_begin(to);
        let shared = Arc::clone(self);
        // [C3]
        let scrub = move || shared.queue_scrub(to);
        mutant!(Planted::ScrubbedEarly, self.epochs.bump_with(scrub), scrub());
    }

    fn queue_scrub(self: &Arc<Self>, begin: LogAddress) {
        let shared = Arc::downgrade(self);
        // A pool that is stopping scrubs no more; entries below the beginning are harmless.
        let _ = self.background.workers.submit(Class::Compact, "scrub index", move |stop| {
            let Some(shared) = shared.upgrade() else { return };
            let mut from = Some(0);
            while let Some(bucket) = from.filter(|_| !stop.is_stopping()) {
                let _guard = shared.epochs.protect();
                from = shared.hot.index.scrub(begin, bucket, BUCKETS_PER_TURN);
            }
            shared.hot.end_scrub();
            shared.update_level();
        });
    }
}
