//! What is done every now and then in the background: the index grows, the log is compacted.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use workers::{Class, StopToken, Stopped};

use crate::store::{Shared, Store};

/// How often upkeep looks whether something is to be done.
const INTERVAL: Duration = Duration::from_millis(20);
/// Buckets that are split before the task looks whether it should stop.
const BUCKETS_AT_ONCE: usize = 1024;

impl Store {
    /// Begins upkeep; it ends with the group.
    pub(crate) fn start_upkeep(&self) -> Result<(), Stopped> {
        let shared = Arc::downgrade(&self.shared);
        self.shared.workers.every(Class::Compact, "grow index", INTERVAL, move |stop| {
            if let Some(shared) = shared.upgrade() {
                shared.grow_index(stop);
            }
        })?;
        let shared = Arc::downgrade(&self.shared);
        self.shared.workers.every(Class::Compact, "compact log", INTERVAL, move |stop| {
            let Some(shared) = shared.upgrade() else { return };
            // One round, so that other work of the pool has its turn. A failed write is remembered and
            // told to whoever writes next; what cannot be read is counted.
            let _: engine::Result<bool> = shared.compact_if_due(stop);
        })
    }
}

impl Shared {
    /// Bytes that the index may take: a quarter of the budget, as the log takes three.
    fn index_bytes_max(&self) -> u64 {
        let limit = self.host.memory.limit();
        if limit == u64::MAX { u64::MAX } else { limit / 4 }
    }

    /// Doubles the index while it is crowded and the budget allows it, and says when even what
    /// crowding takes has used the budget up: then no new values are taken.
    fn grow_index(&self, stop: &StopToken) {
        let max = self.index_bytes_max();
        self.is_index_full.store(self.index.figures().bytes > max, Relaxed);
        let has_room = || self.index.figures().bytes <= max / 2;
        while self.index.is_growing() || (self.index.should_grow() && has_room()) {
            self.index.grow();
            while self.index.split_some(BUCKETS_AT_ONCE) {
                if stop.is_stopping() {
                    return;
                }
            }
        }
    }
}
