//! Ranges of keys on an engine's device: their compaction on demand, and their size.

use crate::error::Result;
use sequence::KeyRange;

/// Compaction on demand, and the size of a range on the device.
///
/// An engine without an order of keys takes only the range of all keys.
pub trait Ranges: Send + Sync {
    /// Flushes the engine and rewrites its files. Afterwards no value in `range` that was deleted
    /// or overwritten before the call takes space on the device, unless a snapshot shows it. Files
    /// that also hold keys outside of the range are rewritten as a whole. Reads and rewrites up to
    /// all data of the range on each level; reads and writes proceed meanwhile.
    ///
    /// # Errors
    /// [`crate::Error::Unordered`] for a part of the keys of an engine without order; as
    /// [`crate::Engine::flush`]. An error leaves the files that were rewritten before it.
    fn compact(&self, range: &KeyRange) -> Result<()>;

    /// Estimates the bytes that `range` takes on the device. Writes that no flush has written do
    /// not count. May read the index blocks of the files at both ends of the range.
    ///
    /// # Errors
    /// [`crate::Error::Unordered`] for a part of the keys of an engine without order; device
    /// errors.
    fn approximate_bytes(&self, range: &KeyRange) -> Result<u64>;
}
