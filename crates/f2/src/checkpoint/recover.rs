//! Rebuilding the index from the log.
//!
//! Records are visited in the order of their addresses, and the entry of each one's chain is set
//! to it: along a chain addresses fall [H7 of the log], so the last one is the chain's head.

use engine::Result;

use crate::hash_index::HashIndex;
use crate::hybrid_log::stretches;
use crate::key_hash::KeyHash;
use crate::open::StoredLog;

/// Reads and verifies the log and enters every record into `index`.
///
/// # Errors
/// Damage with its place; the storage's.
pub(crate) fn rebuild(index: &HashIndex, hash_seed: u64, log: &StoredLog) -> Result<()> {
    let (begin, end) = (log.span.begin, log.span.end);
    stretches(&log.segments, &log.geometry, begin, end, &mut |stretch| {
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
