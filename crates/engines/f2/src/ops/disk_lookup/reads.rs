//! The device reads of lookups: their source, their drivers and their counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::{DeviceReads, Host, ReadSource};
use reads::ReadPool;

/// The means to read for lookups, and counts since the store was opened. Compared with a read of
/// the device the counts cost nothing.
pub(crate) struct LookupReads {
    /// The device, which the reads of pending lookups are done by.
    pub(crate) source: Arc<dyn ReadSource>,
    /// The drivers of lookups of a typed store, and of walks.
    pub(crate) pool: ReadPool,
    lookups: AtomicU64,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl LookupReads {
    /// Makes the means to read from the device of `host`.
    pub(crate) fn new(host: &Host) -> Self {
        let (lookups, reads, bytes) = Default::default();
        let source = Arc::new(DeviceReads(Arc::clone(&host.device)));
        Self { source, pool: ReadPool::new(&host.memory), lookups, reads, bytes }
    }

    /// Notes a read of `bytes` bytes.
    pub(crate) fn note_read(&self, bytes: usize) {
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Notes the end of a lookup that needed the device.
    pub(crate) fn note_end(&self) {
        self.lookups.fetch_add(1, Relaxed);
    }

    /// Returns the lookups that needed the device, their reads, and the bytes of these.
    pub(crate) fn get(&self) -> [u64; 3] {
        [&self.lookups, &self.reads, &self.bytes].map(|count| count.load(Relaxed))
    }
}
