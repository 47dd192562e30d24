//! How the suite opens a `flexdb` store and checks its files.
//!
//! The crash harness of the crate `conformance` has this file too.

use std::sync::Arc;

use device::Device;
use engine::{Engine, Error, Host, Result};

use crate::crates::flexdb_store::{Options, Store, check};
use crate::crates::suite::Fixture;

pub(crate) struct FlexDbFixture;

impl Fixture for FlexDbFixture {
    fn name(&self) -> &'static str {
        "flexdb"
    }

    // So that intervals are split, and segments come and go.
    fn long_life_writes(&self) -> usize {
        400
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        // Small parts, so that the few data of the suite take many commits and intervals, each of
        // them in every way.
        let options = Options {
            memtable_bytes_max: 4 << 10,
            interval_pairs: 4,
            interval_bytes: 1 << 10,
            tail_pairs_max: 3,
            fragments_max: 5,
            segment_bytes_max: 16 << 10,
            stored_intervals_min: 1,
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
