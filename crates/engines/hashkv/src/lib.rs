//! Engine `hashkv`: values in segments that are grouped by the hashes of their keys, and an ordered
//! index of the keys, after HashKV.
//!
//! ```text
//!  put ──> group of the key's hash: write buffer ──flush──> segments in volumes
//!   │                                                        segment table: edits + superblock
//!   └────> index (an LSM-tree): key -> small value, or handle of the record
//!  get ──> index ──handle──> write buffer, or one read of the device
//! ```
//!
//! Between two flushes durability is the host's: it journals the writes that it applies and replays
//! those above [`engine::Engine::persisted`], which is that of the index.
//!
//! # Invariants
//! - A record never moves, a segment's number is used once, and a reader finds each record
//!   (`values`, G1 to G3).
//! - No two segments have a place in common (`segment_table`, T1 to T3; `volumes`, V1).
//! - A durable table of the index names only durable records (`values/flush.rs`).
//!
//! # To follow
//! - a put: `write::Shared::apply`, `values::Values::append`, then
//!   `values::open_segment::OpenSegment::append`;
//! - a get: `lookup::Shared::lookup`, then `values::Values::try_read` or
//!   `values::Values::record_in`;
//! - a scan: `scan::Walk::advance`;
//! - a collection: `collect::Shared::collect_if_due`, then `collect::Shared::collect`;
//! - a flush of write buffers: `background::Shared::schedule_flush`, then
//!   `values::Values::flush_down_to`; for the index, `values::Values::reach`;
//! - recovery: `open::Store::open`, then `examine::Shared::examine`.

mod admission;
mod background;
mod check;
mod checkpoint;
mod collect;
mod contract;
mod directories;
mod driver;
mod examine;
mod fuzzing;
mod idle;
mod index_value;
mod key_filters;
mod key_hash;
mod key_index;
mod lookup;
mod memory_parts;
mod memory_split;
mod open;
mod options;
mod ranges;
mod salvage;
mod scan;
mod segment;
mod segment_table;
mod space;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod trials;
mod value_cache;
mod values;
mod volumes;
mod write;

/// The directory of the index, in that of the store.
const INDEX_DIR: &str = "index";

/// The kinds of files that a store has next to its superblock, and those of its index.
pub const FORMATS: &[codec::Format] = &{
    let mut all = [segment_table::FORMAT; 2 + lsm::FORMATS.len()];
    all[1] = volumes::FORMAT;
    let mut index = 0;
    while index < lsm::FORMATS.len() {
        all[2 + index] = lsm::FORMATS[index];
        index += 1;
    }
    all
};

pub use check::{Report, check};
pub use contract::Store;
pub use driver::DRIVER;
pub use fuzzing::{decode_edits, decode_footer, decode_index_value, decode_record};
pub use options::{Options, Policy};
pub use salvage::salvage;
