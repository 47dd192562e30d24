//! A cache of single pairs, next to an engine's cache of blocks.
//!
//! An engine reads pairs in the blocks of tables (`lsm`), or in intervals (`flexdb`). A skewed load
//! wants one pair of a block. A kept pair takes its own bytes instead of a block's, so more of the
//! wanted pairs are in memory.
//!
//! ```text
//!  get ──> memtables ──> pairs ──> what lies below: blocks or intervals, cached or on the device
//!                          ^                    │
//!                          └──── keep(number) ──┘
//!  commit: change() ── forget(key) ... ── the next state is there ── done(number + 1)
//! ```
//!
//! The data below memtables has a *number*, which an engine chooses and which only grows. While
//! it stays the same, every key has the same pair there, for all readers that look there.
//!
//! # Invariants
//! - A1. A kept pair is the one that is below memtables in the present state. A pair that a get
//!   found there in the state of one number is kept only while that state is the present one. A
//!   commit forbids keeping before it forgets the keys that it changes. It allows keeping again
//!   after the next state is there: of that number alone.
//! - A2. A writer that changes the data below for a key makes the key forgotten, before there is a
//!   state in which a reader looks for it below.
//! - A3. The budget counts the pages that are resident, and the index. Pages are in memory of their
//!   own ([`arena::pieces`]), and a free one may be kept to be filled next.
//! - A4. A pair says since when it holds, in the engine's own count: `lsm` takes the number of its
//!   write, `flexdb` that of the state it was found in. A reader of an older state or of a snapshot
//!   does not get a pair that holds since later. A pair that already holds there is also the one
//!   below in that state, by A1 and A2.
//!
//! # To follow
//! - a get: [`RowCache::get`], then `shard::Shard::get`; a pair that it has found below:
//!   [`RowCache::keep`];
//! - a commit: [`RowCache::change`], [`Changing::forget`], [`Changing::done`];
//! - how much memory it takes: [`RowCache::fit`], `share`;
//! - how an engine with a cache of blocks divides its share: [`RowCache::note_block`],
//!   [`RowCache::divide_ghost_reach`].

#[cfg(all(test, shuttle))]
mod models;
mod planted;
mod row_cache;
mod shard;
mod share;
#[cfg(test)]
mod tests;

pub use planted::Planted;
pub use row_cache::{Changing, RowCache};
pub use share::PART_MAX;
