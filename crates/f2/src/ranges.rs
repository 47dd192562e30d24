//! Compaction on demand, and the size on the device: of the whole store, as its keys have no order.

use std::sync::Arc;

use engine::{InOrder, KeyRange, Ranges, Result};

use crate::ops::unordered;
use crate::store::{Shared, Store};

impl Ranges for Store {
    /// Flushes, and does the rounds of all compactions that are due.
    fn compact(&self, range: &KeyRange) -> Result<()> {
        check_whole(range)?;
        self.shared.compact_whole()
    }

    fn approximate_bytes(&self, range: &KeyRange) -> Result<u64> {
        check_whole(range)?;
        self.shared.health.check_open()?;
        Ok(self.shared.stats().disk_bytes)
    }
}

fn check_whole(range: &KeyRange) -> Result<()> {
    if range.is_all() { Ok(()) } else { Err(unordered(InOrder::PartOfKeys)) }
}

impl Shared {
    fn compact_whole(self: &Arc<Self>) -> Result<()> {
        self.flush()?;
        let stop = self.workers.token();
        while self.compact_if_due(&stop)?
            || self.compact_cold_if_due(&stop)?
            || self.compact_chunks_if_due(&stop)?
        {}
        self.flush()
    }
}
