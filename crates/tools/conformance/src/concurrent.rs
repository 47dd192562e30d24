//! Checks with many concurrent threads, and a flush next to everything.

mod counters;
mod registers;
mod shared;
mod snapshots;
mod updates;
mod value;

pub(crate) use counters::counters;
pub(crate) use registers::registers;
pub(crate) use shared::{join, spawn};
pub(crate) use snapshots::snapshots;
