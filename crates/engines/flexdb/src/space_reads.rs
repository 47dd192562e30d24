//! The reads of the space that a store's lookups, scans and commits do.

use std::sync::Arc;

use device::Device;
use engine::{DeviceReads, ReadSource, Result};
use flexspace::space::Reading;
use memory_budget::MemoryBudget;
use reads::{Batch, RangeReader, ReadPool};

use crate::space_read::SpaceRead;

/// The device of the space, and the drivers of its reads.
pub(crate) struct SpaceReads {
    /// The device, which the reads of pending lookups are done by.
    source: Arc<dyn ReadSource>,
    /// The drivers of the reads of scans and commits.
    pool: ReadPool,
}

impl SpaceReads {
    pub(crate) fn new(device: &Arc<dyn Device>, budget: &Arc<MemoryBudget>) -> Self {
        let source = Arc::new(DeviceReads(Arc::clone(device)));
        Self { source, pool: ReadPool::new(budget) }
    }

    /// Takes a read of which at least one run is missing.
    pub(crate) fn read(&self, reading: Reading) -> SpaceRead {
        SpaceRead::new(reading, &self.source, self.pool.budget())
    }

    /// Does the reads of a scan or a commit, and waits for them ([`ReadPool::read_batch`]).
    pub(crate) fn read_batch<P>(
        &self,
        batch: Batch,
        reader: &mut dyn RangeReader<P>,
    ) -> Result<()> {
        self.pool.read_batch(&self.source, batch, reader)
    }

    /// Frees the drivers that are kept for later reads.
    pub(crate) fn close(&self) {
        self.pool.close();
    }
}
