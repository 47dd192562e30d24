//! Engine `f2`: a latch-free hash store over hybrid logs, for skewed data larger than memory.
//!
//! ```text
//!  get · upsert · rmw · delete                          flush · checkpoint · open
//!         |                                                   |
//!    hot index: a chain per tag             checkpoint: logs to a block's end, superblock
//!         |
//!    hot log:  disk | read-only | fuzzy | mutable -> tail
//!         |  hot-to-cold compaction
//!    cold index: directory in memory, chunks in the chunk log
//!         |
//!    cold log: disk | a few pages -> tail
//! ```
//!
//! New data is in the hot log first. It moves to the cold log when the hot log has taken up its
//! disk space or the hot index its memory (F2 paper, sections 4 to 6). Keys have no order, so there
//! are no scans and no snapshots. With [`Options::single_log`] there is the hot half alone, which
//! is FASTER.
//!
//! # Invariants
//! - A hybrid log's are in `hybrid_log`, the hot index's in `hash_index`, the cold index's in
//!   `cold_index`. A record's are in `record`, those of chains in `ops`, those of compactions in
//!   `compaction`.
//! - No thread waits or touches the disk while protected by the epochs.
//! - User operations never compact; if compaction is behind they wait a moment (`admission`), and
//!   if it fails they continue until space is used up (`failing_compactions`).
//!
//! # To follow
//! - a put: `ops/upsert.rs`, then `hybrid_log/allocate.rs`, then `hash_index`;
//! - a get: `lookup.rs`, then `record/live.rs`, or `ops/disk_lookup.rs` for records on disk, then
//!   `hybrid_log/read.rs` and `cold_index/read.rs`; many concurrent gets: `ops/multi_read.rs`;
//! - a lookup that is pending: `lookup.rs`;
//! - a page on its way to disk: `hybrid_log/advance.rs`, then `hybrid_log/flush.rs`;
//! - a record on its way to the cold log: `compaction/hot_cold.rs`, then `cold_index/apply.rs`;
//! - a copy of a record read from disk: `read_cache.rs`;
//! - a checkpoint: `checkpoint.rs`;
//! - recovery: `open.rs`, then `checkpoint/recover.rs` and `cold_index/rebuild.rs`;
//! - background work: `upkeep.rs`, then `compaction.rs`, or `memory_split.rs` for the split of the
//!   memory; the memory that is counted: `memory_use.rs`;
//! - figures of a store: `stats.rs`, and findings about its files: `check.rs`.

mod address;
mod admission;
mod check;
#[cfg(all(test, any(loom, shuttle)))]
mod checkers;
mod checkpoint;
mod cold;
mod cold_index;
mod compaction;
mod driver;
mod failing_compactions;
mod hash_index;
mod held_room;
mod hot;
mod hybrid_log;
mod key_hash;
mod lookup;
mod memory_parts;
mod memory_split;
mod memory_use;
mod open;
mod ops;
mod options;
mod page_ring;
mod planted;
mod position;
mod ranges;
mod read_cache;
mod record;
mod scratch;
mod spin_wait;
mod stats;
mod store;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod trials;
mod typed;
mod upkeep;

/// The kinds of files that a store has next to its superblock.
pub const FORMATS: &[codec::Format] = &[hybrid_log::FORMAT, cold_index::FORMAT];

pub use check::{
    DAMAGE_MAX, Report, SalvageReport, check, check_chunk, check_directory, check_heads,
    check_records, salvage,
};
pub use checkpoint::Checkpoint;
pub use driver::DRIVER;
pub use open::memory_bytes_min;
pub use options::Options;
pub use store::Store;
pub use typed::{Fixed, Typed};
