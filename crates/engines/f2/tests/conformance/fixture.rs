//! How the suite opens an `f2` store and checks its files. The crash harness of the crate
//! `conformance` has this file too.

use std::sync::Arc;

use device::Device;
use engine::{Engine, Error, Host, Result};

use crate::crates::store::{Options, Store, check};
use crate::crates::suite::Fixture;

/// A store of one of the kinds that there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum F2Fixture {
    /// The split of its memory never changes.
    Fixed,
    /// The default: hot log and read cache take memory from each other, and the rest is lent to
    /// digests of chunks.
    Adaptive,
    /// One log, compacted by lookups.
    SingleLog,
    /// One log, compacted by scans.
    Scanned,
}

impl F2Fixture {
    /// Returns options with four small pages of each log in memory, and so little disk that all
    /// logs are compacted all the time. A store whose memory moves has enough pages for a cache
    /// too. These are the shortest pages, so that the hot log still has little disk. A single log
    /// has more disk, or writers would wait because of the live records.
    fn options(self) -> Options {
        let (pages, page_bytes) = match self {
            Self::Fixed => (5, 16_384),
            Self::Adaptive => (20, 4096),
            Self::SingleLog | Self::Scanned => (6, 4096),
        };
        let single_log = matches!(self, Self::SingleLog | Self::Scanned);
        Options {
            single_log,
            scan_compaction: self == Self::Scanned,
            log_memory_bytes: Some(pages * page_bytes),
            read_cache_bytes: (self != Self::Adaptive).then_some(page_bytes),
            page_bytes: Some(page_bytes),
            segment_bytes: 2 * page_bytes,
            disk_bytes_max: Some(if single_log { 48 } else { 4 } * page_bytes),
            cold_disk_bytes_max: (!single_log).then_some(8 * page_bytes),
            chunk_bytes: 64,
            index_bits: Some(1),
            ..Options::default()
        }
    }
}

impl Fixture for F2Fixture {
    fn name(&self) -> &'static str {
        match self {
            Self::Fixed => "f2",
            Self::Adaptive => "f2-adaptive",
            Self::SingleLog => "f2-single-log",
            Self::Scanned => "f2-scanned",
        }
    }

    fn takes_memory_in_units(&self) -> bool {
        true
    }

    // A record fits a page, also if its value was made of several appended ones.
    fn key_bytes_max(&self) -> usize {
        if *self == Self::Fixed { 4000 } else { 900 }
    }

    fn value_bytes_max(&self) -> usize {
        if *self == Self::Fixed { 6000 } else { 700 }
    }

    // So that records become cold, memory moves, and a single log is compacted.
    fn long_life_writes(&self) -> usize {
        if *self == Self::Fixed { 0 } else { 800 }
    }

    // A single log is compacted by lookups or by scans, and is the same otherwise.
    fn variants(&self) -> u64 {
        if matches!(self, Self::SingleLog | Self::Scanned) { 2 } else { 1 }
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Store::open(host, self.options())?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        match check(device)?.damage.into_iter().next() {
            Some(damage) => Err(Error::Corruption(damage)),
            None => Ok(()),
        }
    }
}
