//! Values that expire: a keyspace whose values may carry the moment up to which they are there.
//!
//! 1. The options of a new keyspace say whether its values may expire
//!    ([`crate::KeyspaceOptions::expiring`]). Only then is there a trailer behind each value
//!    ([`format`]), with the moment or without.
//! 2. *Writes* put the trailer on before anything is journaled, so that replay needs no clock. A
//!    value that has already expired is written as a delete.
//! 3. *Reads* take it off, and pass over expired values ([`reads`]). They do neither for a handle
//!    that shows values in their stored form ([`crate::ExpiringKeyspace::raw`]).
//! 4. *Read-modify-writes* see expired values as absent. They keep the expiry of others, unless
//!    they set another one ([`operators`]).
//! 5. *The expiry sweep* walks over such keyspaces in the background. It deletes expired values,
//!    each key by an atomic update that checks again ([`sweep`]).
//!
//! # Invariants
//! - E1. The clock is read once for a call, before the engine is called, or while no other writer
//!   can write the key. A value that is passed over had expired when it was read, so that no read
//!   misses a key whose value was renewed in time. A view of one moment (scans, snapshots,
//!   transactions) has one reading of the clock for all of it.
//! - E2. Stored and recovered values do not depend on the clock; only the values that reads show
//!   do.
//! - E3. The expiry sweep deletes only values that have expired: the key is checked again while no
//!   other write of it can take place.

mod format;
mod keyspace;
mod operators;
mod reads;
mod stats;
mod sweep;

pub use format::Expiring;
pub use keyspace::ExpiringKeyspace;
pub use operators::ExpiringChange;
pub use stats::ExpiryStats;
pub use sweep::{ExpiryPause, PauseExpiry};

pub(crate) use format::expiry_of;
pub(crate) use keyspace::ValueForm;
pub(crate) use operators::{LaterDeciding, OnStored, change_living};
pub(crate) use reads::ClockReading;
pub(crate) use stats::Expiry;
pub(crate) use sweep::ExpirySweep;
