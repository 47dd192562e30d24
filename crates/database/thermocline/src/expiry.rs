//! Values that end: a keyspace whose values may carry the moment up to which they are there.
//!
//! 1. A keyspace says when it is made whether its values may end ([`crate::KeyspaceOptions::values_end`]).
//!    Only then is there a trailer behind each value ([`format`]), with the moment or without.
//! 2. *Writes* put the trailer on before anything is journaled, so that replay needs no clock. What would
//!    have ended by now is written as a delete.
//! 3. *Reads* take it off, and pass over what has ended ([`reads`]). Of a handle that shows values as they
//!    are stored ([`crate::Keyspace::as_stored`]) they do neither.
//! 4. *Read-modify-writes* see what has ended as absent, and keep the end of what has not, unless they say
//!    otherwise ([`operators`]).
//! 5. *Removal* walks over such keyspaces in the background and deletes what has ended, each key by an
//!    atomic update that looks again ([`removal`]).
//!
//! # Invariants
//! - E1. The clock is read once for a call, before the engine is asked for anything, or while the key can be
//!   written by nobody else. A value that is passed over had ended when it was read, so that no read
//!   misses a key whose value was renewed in time. What shows a moment (scans, snapshots, transactions) has
//!   one reading of the clock for all of it.
//! - E2. What is stored, and what is recovered, does not depend on the clock; only what is shown does.
//! - E3. Removal deletes nothing that has not ended: the key is looked at once more where no other write of
//!   it can come between.

mod format;
mod keyspace;
mod operators;
mod reads;
mod removal;
mod stats;

pub use format::WithEnd;
pub use operators::ChangeWithEnd;
pub use removal::{HeldRemoval, RemovalHold};
pub use stats::ExpiryStats;

pub(crate) use format::end_of;
pub(crate) use keyspace::Form;
pub(crate) use operators::{LaterDeciding, OnStored, change_living};
pub(crate) use reads::Moment;
pub(crate) use removal::Removal;
pub(crate) use stats::Expiry;
