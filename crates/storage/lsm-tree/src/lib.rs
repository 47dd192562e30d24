//! A log-structured merge-tree as a library: tables, the version that says which tables there are,
//! the plans of compactions, and compactions as values.
//!
//! It has no threads, no journal and no state of its own. The engine `lsm` keeps memtables, decides
//! when to flush and to compact, and commits edits. A storage component of a cluster may run the
//! same compactions over the same tables.
//!
//! ```text
//!   Version (which tables, in which level)      plan::* -> Job (which tables to merge)
//!        |  after(Change)                            |  CompactionJob::new
//!   Edit (the change, in the manifest's bytes)       v
//!        ^                                      CompactionJob::run -> Summary of each new table
//!        |__________________________________________|
//! ```
//!
//! - [`table`]: entries in order, in blocks, with an index and a filter. Their bytes are in a
//!   [`table::TableStore`], and go through a [`cache::PieceCache`].
//! - [`entry`], [`merge`]: versions of keys, and walks over several sources of them.
//! - [`range_deletes`]: ranges of keys that were deleted as a whole.
//! - [`version`], [`edit`]: the tables of a tree, and their changes.
//! - [`walk_lengths`]: the bytes that a reader's walk is expected to read in each level.
//! - [`plan`], [`shape`]: which compactions are due.
//! - [`compaction`], [`retention`]: merges of tables, and the versions that they keep.

pub mod cache;
pub mod compaction;
pub mod edit;
pub mod entry;
pub mod merge;
pub mod plan;
pub mod range_deletes;
pub mod retention;
pub mod shape;
pub mod table;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
#[cfg(all(test, not(shuttle)))]
mod tests;
pub mod version;
pub mod walk_lengths;
