//! What is done every now and then in the background: the index grows, the log is compacted.

use std::sync::Arc;
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
        self.group.every(Class::Compact, "grow index", INTERVAL, move |stop| {
            if let Some(shared) = shared.upgrade() {
                shared.grow_index(stop);
            }
        })?;
        let shared = Arc::downgrade(&self.shared);
        self.group.every(Class::Compact, "compact log", INTERVAL, move |stop| {
            let Some(shared) = shared.upgrade() else { return };
            // One round, so that other work of the pool has its turn. A failed write is remembered and
            // told to whoever writes next; what cannot be read is counted.
            let _: engine::Result<bool> = shared.compact_if_due(stop);
        })
    }
}

impl Shared {
    fn grow_index(&self, stop: &StopToken) {
        while self.index.should_grow() || self.index.is_growing() {
            self.index.grow();
            while self.index.split_some(BUCKETS_AT_ONCE) {
                if stop.is_stopping() {
                    return;
                }
            }
        }
    }
}
