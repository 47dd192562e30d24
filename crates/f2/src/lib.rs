//! Engine `f2`: a latch-free hash store over a hybrid log, for skewed data larger than memory.
//!
//! ```text
//!  get · upsert · rmw · delete                     flush · checkpoint · open
//!         |                                              |
//!    hash index: a chain per tag          checkpoint: log to a block's end, superblock
//!         |
//!    hybrid log: disk | read-only | fuzzy | mutable -> tail
//! ```
//!
//! It is FASTER's core, on which F2 is built (sections 3.1 and 5 of the F2 paper). Keys have no
//! order, so there are no scans and no snapshots.
//!
//! # Invariants
//! - The log's are in `hybrid_log`, the index's in `hash_index`, a record's in `record`, those of
//!   chains in `ops`.
//! - Nobody waits or touches the disk while protected by the epochs.
//!
//! # To follow
//! - a put: `ops/upsert.rs`, then `hybrid_log/allocate.rs`, then `hash_index`;
//! - a get: `ops/read.rs`, then `record/live.rs`, or `hybrid_log/read.rs` for what is on disk;
//! - a page on its way to disk: `hybrid_log/advance.rs`, then `hybrid_log/flush.rs`;
//! - recovery: `open.rs`, then `checkpoint/recover.rs`.

mod address;
mod check;
#[cfg(all(test, any(loom, shuttle)))]
mod checkers;
mod checkpoint;
#[cfg_attr(
    any(not(test), loom, shuttle),
    expect(dead_code, unused_imports, reason = "compactions into the cold log come next")
)]
mod cold_index;
mod compaction;
mod hash_index;
mod hybrid_log;
mod key_hash;
mod open;
mod ops;
mod options;
mod patience;
mod planted;
mod position;
mod record;
mod stats;
mod store;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod upkeep;

pub use check::{Report, check, check_heads, check_records};
pub use open::memory_bytes_min;
pub use options::Options;
pub use store::Store;
