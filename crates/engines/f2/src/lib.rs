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
//! What is written is in the hot log first, and moves to the cold log when the hot one has taken up its
//! disk space or its index its memory (F2 paper, sections 4 to 6). Keys have no order, so there are
//! no scans and no snapshots. With [`Options::single_log`] there is the hot half alone, which is
//! FASTER.
//!
//! # Invariants
//! - A hybrid log's are in `hybrid_log`, the hot index's in `hash_index`, the cold index's in
//!   `cold_index`, a record's in `record`, those of chains in `ops`, of compactions in `compaction`.
//! - Nobody waits or touches the disk while protected by the epochs.
//! - User operations never compact; where compaction is behind they wait a moment (`pressure`), and where
//!   it fails they go on until space is used up (`trouble`).
//!
//! # To follow
//! - a put: `ops/upsert.rs`, then `hybrid_log/allocate.rs`, then `hash_index`;
//! - a get: `ops/read.rs`, then `record/live.rs`, or `ops/look_up.rs` for what is on disk, then
//!   `hybrid_log/read.rs` and `cold_index/read.rs`; many at once: `ops/look_up/flight.rs`;
//! - an operation that is pending: `session.rs`;
//! - a page on its way to disk: `hybrid_log/advance.rs`, then `hybrid_log/flush.rs`;
//! - a record on its way to the cold log: `compaction/hot_cold.rs`, then `cold_index/apply.rs`;
//! - a copy of what was read from disk: `read_cache.rs`;
//! - a checkpoint: `checkpoint.rs`;
//! - recovery: `open.rs`, then `checkpoint/recover.rs` and `cold_index/rebuild.rs`;
//! - what runs in the background: `upkeep.rs`, then `compaction.rs`, or `memory_split.rs` for who has how much
//!   memory; what of it is counted: `memory_use.rs`;
//! - what a store tells of itself: `stats.rs`, and of its files: `check.rs`.

mod address;
mod check;
#[cfg(all(test, any(loom, shuttle)))]
mod checkers;
mod checkpoint;
mod cold;
mod cold_index;
mod compaction;
mod hash_index;
mod held_room;
mod hybrid_log;
mod key_hash;
mod memory_resize;
mod memory_split;
mod memory_use;
mod open;
mod ops;
mod options;
mod page_ring;
mod patience;
mod planted;
mod position;
mod pressure;
mod ranges;
mod read_cache;
mod record;
mod scratch;
mod session;
mod stats;
mod store;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod trouble;
mod typed;
mod upkeep;

/// The kinds of files that a store has next to its superblock.
pub const FORMATS: &[codec::Format] = &[hybrid_log::FORMAT, cold_index::FORMAT];

pub use check::{
    DAMAGE_MAX, Report, Salvaged, check, check_chunk, check_directory, check_heads, check_records,
    salvage,
};
pub use checkpoint::Checkpoint;
pub use open::memory_bytes_min;
pub use options::Options;
pub use session::{Completed, Get, Session, Ticket, Told, Update, Wait};
pub use store::Store;
pub use typed::{Fixed, Typed};
