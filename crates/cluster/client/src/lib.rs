//! The client of a cluster: keyspaces whose ranges are on many LTCs. (Nova-LSM, section 3)
//!
//! ```text
//!  Keyspace::put ──> Router: route of the key ──> wire ──> LTC: the owner of the range
//!                      │  Moved, Busy, no reply: again, after a pause
//!                      └─ routes and ids: coordinator
//! ```
//!
//! A [`Cluster`] knows the owners of ranges. A request goes to the owner of its key. If the range
//! has moved, the owner is busy, or no reply comes, the client repeats the request until its time
//! is over.
//!
//! # Invariants
//! - Q1. *Once.* A write has a [`RequestId`], equal in each repetition. The owner of the range
//!   executes it once.
//! - Q2. *Window.* An id is used again for no other write, and at most 64 writes of one client id
//!   are without a reply.
//! - Q3. *Outcome.* A write that returns [`Error::Unavailable`] has not happened, and never will.
//!   After [`Error::Unknown`] it may have happened, or may still happen.
//!
//! # Not there yet
//! Snapshots, merges, and transactions over several ranges.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod cluster;
mod error;
mod ids;
mod keyspace;
mod metrics;
mod pending;
mod protocol;
mod router;
mod routes;
mod scan;
#[cfg(test)]
mod tests;

pub use cluster::{Cluster, Options};
pub use coordinator::LogMode;
pub use error::{Error, Result};
pub use ids::WINDOW;
pub use keyspace::{Keyspace, Outcome, Write};
pub use pending::OnDone;
pub use protocol::{
    FailedKind, Pair, RangeReply, RangeRequest, Refused, RequestId, decode_range_reply,
    decode_range_request, encode_range_reply, encode_range_request,
};
pub use scan::Scan;
