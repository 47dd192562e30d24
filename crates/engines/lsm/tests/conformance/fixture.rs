//! How the suite opens an `lsm` store and checks its files. The crash harness of the crate
//! `conformance` has this file too.

use std::sync::Arc;

use device::Device;
use engine::{Engine, Error, Host, Result};

use crate::crates::lsm_store::{Options, Store, check};
use crate::crates::suite::Fixture;

pub(crate) struct LsmFixture;

/// Small parts, so that what little the suite writes takes many memtables, tables and levels.
pub(crate) fn options() -> Options {
    Options {
        memtable_bytes_max: 4 << 10,
        slots_max: 6,
        lookup_index_bytes_max: 16 << 10,
        table_bytes: 2 << 10,
        block_bytes: 512,
        level0_tables: 2,
        level0_tables_slow: 6,
        level1_bytes: 8 << 10,
        level_ratio: 2,
        manifest_bytes: 1 << 10,
        ..Options::default()
    }
}

impl Fixture for LsmFixture {
    fn name(&self) -> &'static str {
        "lsm"
    }

    fn flushes_keys_apart(&self) -> bool {
        true
    }

    // So that tables come down the levels.
    fn long_life_writes(&self) -> usize {
        400
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Store::open(host, options())?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        match check(device)?.damage.into_iter().next() {
            Some(damage) => Err(Error::Corruption(damage)),
            None => Ok(()),
        }
    }
}
