//! How the suite opens a `hashkv` store and checks its files. The crash harness of the crate
//! `conformance` has this file too.

use std::sync::Arc;

use device::Device;
use engine::{Engine, Error, Host, Result};

use crate::crates::hashkv_store::{Options, Store, check};
use crate::crates::suite::Fixture;

pub(crate) struct HashKvFixture;

/// Small parts, so that the little data of the suite takes many segments, has pairs on both sides
/// of the separation, and fills the reserve for garbage.
pub(crate) fn options() -> Options {
    Options {
        separation_bytes: 24,
        segment_bytes_max: 8 << 10,
        groups_max: 4,
        buffer_bytes_max: 64 << 10,
        reserve_percent: 0,
        table_bytes: 1 << 10,
        ..Options::default()
    }
}

/// An index whose tables and memtables are small, too.
pub(crate) fn index_options() -> lsm::Options {
    lsm::Options {
        memtable_bytes_max: 4 << 10,
        lookup_index_bytes_max: 16 << 10,
        table_bytes: 2 << 10,
        block_bytes: 512,
        level0_tables: 2,
        level0_tables_slow: 6,
        level1_bytes: 8 << 10,
        level_ratio: 2,
        manifest_bytes: 1 << 10,
        ..lsm::Options::default()
    }
}

impl Fixture for HashKvFixture {
    fn name(&self) -> &'static str {
        "hashkv"
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Store::open_with(host, options(), index_options())?))
    }

    fn check(&self, device: &Arc<dyn Device>) -> Result<()> {
        match check(device)?.damage.into_iter().next() {
            Some(damage) => Err(Error::Corruption(damage)),
            None => Ok(()),
        }
    }
}
