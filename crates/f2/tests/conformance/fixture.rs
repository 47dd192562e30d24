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

impl Fixture for F2Fixture {
    fn name(&self) -> &'static str {
        if self.is_adaptive { "f2-adaptive" } else { "f2" }
    }

    fn key_bytes_max(&self) -> usize {
        4000
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        // Four small pages of each log in memory, and so little disk that all of them are compacted
        // all the while.
        let options = Options {
            log_memory_bytes: Some(if self.is_adaptive { 8 } else { 5 } * 16_384),
            read_cache_bytes: (!self.is_adaptive).then_some(16_384),
            page_bytes: Some(16_384),
            segment_bytes: 32_768,
            disk_bytes_max: Some(65_536),
            cold_disk_bytes_max: Some(131_072),
            chunk_bytes: 64,
            index_bits: Some(1),
            ..Options::default()
        };
        Ok(Arc::new(Store::open(host, options)?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        match check(device)?.damage.into_iter().next() {
            Some(damage) => Err(Error::Corruption(damage)),
            None => Ok(()),
        }
    }
}
