//! The engine `memory` as the suite sees it.

use std::sync::Arc;

use device::Device;
use engine::{Engine, Error, Host, Result};
use thermocline_conformance::Fixture;

pub(crate) struct MemoryFixture;

impl Fixture for MemoryFixture {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(memory::Store::open(host, memory::Options::default())?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        let report = memory::check(device.as_ref())?;
        report.damage.into_iter().next().map_or(Ok(()), |damage| Err(Error::Corruption(damage)))
    }
}
