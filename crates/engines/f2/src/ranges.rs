//! Compaction on demand, and the size on the device: of the whole store, as its keys have no order.

use engine::{InOrder, KeyRange, Ranges, Result};

use crate::ops::unordered;
use crate::store::Store;

impl Ranges for Store {
    /// See [`Store::compact`].
    fn compact(&self, range: &KeyRange) -> Result<()> {
        check_whole(range)?;
        Store::compact(self)
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
