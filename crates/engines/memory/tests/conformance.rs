//! The conformance suite, held against the engine `memory`.

use std::sync::Arc;

use device::Device;
use engine::{Engine, Error, Host, Result};
use thermocline_memory::{Options, Store, check};

struct Memory;

impl conformance::Fixture for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        // Small blocks, so that what little the suite writes takes many of them.
        let options = Options { snapshot_block_bytes: 1024 };
        Ok(Arc::new(Store::open(host, options)?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        match check(&**device)?.damage.into_iter().next() {
            Some(damage) => Err(Error::Corruption(damage)),
            None => Ok(()),
        }
    }
}

conformance::suite!(Memory);
