//! LTC: a process that serves ranges of a cluster (Nova-LSM, section 3).
//!
//! ```text
//!  Ltc ── open ──> coordinator: a new epoch
//!             ──> scatter: both logs are fenced, and the device of the range is opened
//!             ──> thermocline: the database on the device is opened, and replays its journal
//!             ──> coordinator: the range is served
//! ```
//!
//! A range is an unchanged [`thermocline::Db`] on a device whose files are on StoCs.
//! [`LocalCluster`] has all components of a cluster in one process and one directory.
//!
//! # Invariants
//! - R1. *Owner.* A range is served only after the coordinator has given it a new epoch, both logs
//!   were fenced under that epoch, and the database has replayed its journal.
//! - R2. *Close.* A close closes the databases, and ends calls that wait for StoCs for too long.
//!   StoCs have all acknowledged writes already.
//!
//! # Not there yet
//! Leases, moves, result tables, and requests of other processes.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod check;
mod error;
mod local_cluster;
mod local_stocs;
mod ltc;
mod marker;
mod memory;
mod remote_stocs;
#[cfg(test)]
mod tests;

pub use check::{ClusterReport, check, is_cluster};
pub use error::{Error, Result};
pub use local_cluster::{LocalCluster, Options};
pub use logc::Closing;
pub use ltc::{Ltc, RangeOptions};
pub use marker::decode_marker;
pub use remote_stocs::RemoteStocs;
