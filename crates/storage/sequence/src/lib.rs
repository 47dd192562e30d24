//! The order of writes in a database.
//!
//! - [`Sequence`] gives each write its number, and says up to which number all writes are visible.
//!   A [`Pin`] is a snapshot: it keeps the versions of one moment.
//! - [`RecentWrites`] remembers recent writes by key. A transaction that has read a key learns from
//!   it whether another writer has changed the key since.
//! - [`KeyRange`] is a range of keys in byte order.
//!
//! This crate knows no engine. The host has one sequence for all keyspaces, and engines ask it
//! which versions a snapshot may show.

mod range;
mod recent_writes;
mod sequence;

#[cfg(all(test, not(shuttle)))]
mod tests;

pub use range::{Direction, KeyRange};
pub use recent_writes::{ForgottenWrites, RecentWrites, Watch, WriteConflict};
pub use sequence::{Pin, Sequence, Ticket};
