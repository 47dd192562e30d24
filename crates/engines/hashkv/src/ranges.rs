//! Calls for ranges of keys: compactions on demand, and sizes.
//!
//! The values of a range are in segments of all groups, among those of other keys. So a compaction
//! of a range compacts that range of the index, and collects the garbage of every group. The size
//! of a range is estimated by the part of the index that it takes.

use std::sync::Arc;

use engine::{Error, KeyRange, Ranges, Result};

use crate::contract::Store;
use crate::driver::CAPABILITIES;
use crate::key_index::of_index;
use crate::store::Shared;

impl Ranges for Store {
    fn compact(&self, range: &KeyRange) -> Result<()> {
        self.shared.compact(range)
    }

    fn approximate_bytes(&self, range: &KeyRange) -> Result<u64> {
        self.shared.approximate_bytes(range)
    }
}

impl Shared {
    fn index_ranges(&self) -> Result<&dyn Ranges> {
        self.index.ranges().ok_or(Error::NoRanges { engine: CAPABILITIES.name })
    }

    /// Compacts the range in the index, and collects all garbage.
    fn compact(self: &Arc<Self>, range: &KeyRange) -> Result<()> {
        self.health.check_writable()?;
        let placed = |error| self.values.failures.placed(error);
        self.index_ranges()?.compact(range).map_err(placed)?;
        // The segments that are open have garbage, too.
        self.values.flush_down_to(0, 0)?;
        self.collect_all()
    }

    /// Estimates the bytes of a range in the index, and of its values.
    fn approximate_bytes(&self, range: &KeyRange) -> Result<u64> {
        let index = self.index_ranges()?;
        let part = index.approximate_bytes(range).map_err(of_index)?;
        let all = index.approximate_bytes(&KeyRange::all()).map_err(of_index)?;
        let values = u128::from(self.values.records_on_device().0);
        let values = values * u128::from(part) / u128::from(all.max(1));
        Ok(part + values as u64)
    }
}
