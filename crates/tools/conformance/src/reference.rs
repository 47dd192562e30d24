//! A small, slow, correct engine, which tests the suite and is the base of the broken engines.
//!
//! 1. Every version of every key is in a map in memory. A version is dropped once no view can see
//!    it.
//! 2. A flush writes all pairs of one moment to a new snapshot file, syncs it and its name, and
//!    then commits it by a slot of the superblock. The snapshot before it is removed last.
//! 3. Opening takes the newest whole superblock slot and the snapshot that it names.
//! 4. The lookup of a pair that the snapshot has is pending, as if the pair were on disk alone.
//!
//! # Invariants
//! - R1. The superblock never names a snapshot that is not whole and durable.
//! - R2. A snapshot holds no effect of a write that the barrier was not asked for.
//! - R3. A tombstone stays until a snapshot covers it, so that replay cannot bring its key back.

mod check;
mod driver;
mod pending;
mod snapshot;
mod store;
mod superblock;
mod versions;

pub use check::check;
pub use driver::DRIVER;
pub use store::Reference;

use std::sync::Arc;

use engine::{Engine, Host, Result};

/// The reference engine as the suite sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceFixture;

impl crate::Fixture for ReferenceFixture {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn open(&self, host: Host) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Reference::open(host)?))
    }

    fn check(&self, device: &Arc<dyn device::Device>) -> Result<()> {
        check(device)
    }
}
