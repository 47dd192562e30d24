//! How the suite opens an `f2` store and checks its files. The crash harness of the crate
//! `conformance` has this file too.

use std::sync::Arc;

use device::Device;
use engine::{Engine, Error, Host, Result};

use crate::crates::store::{Options, Store, check};
use crate::crates::suite::Fixture;

/// A store whose memory is split once and for all, or as it is by default: hot log and read cache take it from
/// each other, and what they leave is lent to digests of chunks.
pub(crate) struct F2Fixture {
    pub(crate) is_adaptive: bool,
}

impl F2Fixture {
    /// Four small pages of each log in memory, and so little disk that all of them are compacted
    /// all the while. Where memory moves: enough pages for a cache beside them, of the shortest, so that the
    /// hot log still has little disk.
    fn options(&self) -> Options {
        let (pages, page_bytes) = if self.is_adaptive { (20, 4096) } else { (5, 16_384) };
        Options {
            log_memory_bytes: Some(pages * page_bytes),
            read_cache_bytes: (!self.is_adaptive).then_some(page_bytes),
            page_bytes: Some(page_bytes),
            segment_bytes: 2 * page_bytes,
            disk_bytes_max: Some(4 * page_bytes),
            cold_disk_bytes_max: Some(8 * page_bytes),
            chunk_bytes: 64,
            index_bits: Some(1),
            ..Options::default()
        }
    }
}

impl Fixture for F2Fixture {
    fn name(&self) -> &'static str {
        if self.is_adaptive { "f2-adaptive" } else { "f2" }
    }

    // A record fits a page, some of whose values were appended to one another.
    fn key_bytes_max(&self) -> usize {
        if self.is_adaptive { 900 } else { 4000 }
    }

    fn value_bytes_max(&self) -> usize {
        if self.is_adaptive { 700 } else { 6000 }
    }

    // So that records become cold, and memory moves.
    fn long_life_writes(&self) -> usize {
        if self.is_adaptive { 800 } else { 0 }
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
