//! A cache of single pairs, beside what an engine reads them in: the blocks of tables (`lsm`), or
//! intervals (`flexdb`).
//!
//! Of a block a skewed load wants one pair. A kept pair takes its own bytes instead of a block's, so more
//! of what is wanted is in memory.
//!
//! ```text
//!  get ──> memtables ──> pairs ──> what lies below: blocks or intervals, cached or on the device
//!                          ^                    │
//!                          └──── keep(number) ──┘
//!  commit: change() ── forget(key) ... ── the next state is there ── done(number + 1)
//! ```
//!
//! What lies below memtables has a *number*, which an engine chooses and which only grows. As long as it
//! is the same, every key has the same pair there, for all who look for it there.
//!
//! # Invariants
//! - A1. A pair that is kept is what lies below memtables in the present state. What a get found there in
//!   the state of one number is kept only while that is the present one, and a commit
//!   forbids keeping before it forgets what it changes, and allows it again after the next state is
//!   there: of that number alone.
//! - A2. Whoever changes what lies below for a key makes it forgotten, before a state is there in which it is
//!   looked for below.
//! - A3. The budget counts the pages that are resident, and the index. Pages lie in memory of their own
//!   ([`sync::pieces`]), and one that is free may be kept to be filled next.
//! - A4. A pair says since when it holds, in what its engine counts by: `lsm` takes the number of its write,
//!   `flexdb` that of the state it was found in. Who looks into an older state, or a snapshot, is given none
//!   that holds since later. One that holds since then is what lies below there, too, by A1 and A2.
//!
//! # To follow
//! - a get: [`Pairs::get`], then `shard::Shard::get`; what it has found below: [`Pairs::keep`];
//! - a commit: [`Pairs::change`], [`Changing::forget`], [`Changing::done`];
//! - how much memory it takes: [`Pairs::fit`], `share`.

mod cache;
#[cfg(all(test, shuttle))]
mod models;
mod planted;
mod shard;
mod share;
#[cfg(test)]
mod tests;

pub use cache::{Changing, Pairs};
pub use planted::Planted;
pub use share::PART_MAX;
