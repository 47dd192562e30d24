//! The conformance suite, held against the engine `f2`.

use std::sync::Arc;

use device::Device;
use engine::{Engine, Error, Host, Result};
use thermocline_f2::{Options, Store, check};

struct F2;

impl conformance::Fixture for F2 {
    fn name(&self) -> &'static str {
        "f2"
    }

    fn key_bytes_max(&self) -> usize {
        4000
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        // Logs of four small pages, so that what little the suite writes goes through all regions and
        // soon to the cold log, a read cache of four pages of 4 KiB, and an index of two buckets.
        let options = Options {
            log_memory_bytes: Some(5 * 16384),
            read_cache_bytes: Some(16384),
            page_bytes: Some(16384),
            segment_bytes: 32768,
            index_bits: Some(1),
            disk_bytes_max: Some(65_536),
            cold_disk_bytes_max: Some(131_072),
            chunk_bytes: 64,
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

conformance::suite!(F2);
