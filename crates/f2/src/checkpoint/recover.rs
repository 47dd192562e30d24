//! Rebuilding the index from the log.
//!
//! Records are visited in the order of their addresses, and the entry of each one's chain is set
//! to it: along a chain addresses fall [H7 of the log], so the last one is the chain's head.

use engine::Result;

use crate::address::LogAddress;
use crate::hash_index::HashIndex;
use crate::hybrid_log::{Geometry, Segments, stretches};
use crate::key_hash::KeyHash;

/// Reads and verifies the log from `begin` to `end` and enters every record into `index`.
///
/// # Errors
/// Damage with its place; the storage's.
pub(crate) fn rebuild(
    index: &HashIndex,
    hash_seed: u64,
    segments: &Segments,
    geometry: &Geometry,
    begin: LogAddress,
    end: LogAddress,
) -> Result<()> {
    stretches(segments, geometry, begin, end, &mut |stretch| {
        stretch.records(&mut |address, stored| {
            if !stored.header.is_invalid() {
                index.restore(KeyHash::of(stored.key, hash_seed), address);
            }
            Ok(())
        })?;
        while index.should_grow() || index.is_growing() {
            index.grow();
            index.split_some(usize::MAX);
        }
        Ok(())
    })
}
