//! LTC: a process that serves ranges of a cluster (Nova-LSM, section 3).
//!
//! ```text
//!  Ltc ── open ──> coordinator: a new epoch
//!             ──> scatter: both logs are fenced, and the device of the range is opened
//!             ──> thermocline: the database on the device is opened, and replays its journal
//!             ──> coordinator: the range is served
//! ```
//!
//! [`RangeService`] serves the requests of clients, and [`Beats`] has the coordinator decide which
//! ranges this process has. A range is an unchanged [`thermocline::Db`] on a device whose files are
//! on StoCs. [`LocalCluster`] has all components of a cluster in one process and one directory.
//!
//! # Invariants
//! - R1. *Owner.* A range is served only after the coordinator has given it a new epoch, both logs
//!   were fenced under that epoch, and the database has replayed its journal.
//! - R2. *Close.* A close closes the databases, and ends calls that wait for StoCs for too long.
//!   StoCs have all acknowledged writes already.
//!
//! - R3. *Orders.* A process of a cluster opens a range by an order of the coordinator ([`Beats`]).
//!   It reports the range from the order on until the coordinator has noted that it is closed.
//! - R4. *Reads.* A reply to a read leaves if the lease of the LTC covered the range after the
//!   value was read. So does the reply to a write that no log has.
//! - R5. *Acknowledgement.* A reply leaves when all writes that it shows are acknowledged, as the
//!   mode of the write log says.
//! - R6. *Once.* A write of a client is executed once, also if it is repeated at another owner. (T1
//!   and T2 of `results.rs`)
//! - R7. *Weak logs.* A range whose write log in memory has lost replicas flushes its memtables,
//!   and removes the log.
//!
//! # Not there yet
//! Splits and merges.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod acks;
mod beats;
mod check;
mod error;
mod get;
mod lease;
mod local_cluster;
mod local_stocs;
mod ltc;
mod marker;
mod memory;
mod metrics;
mod remote_stocs;
mod results;
mod served;
mod service;
mod stoc_choice;
mod stoc_load;
#[cfg(test)]
mod tests;

pub use beats::{Beats, ServeOptions};
pub use check::{ClusterReport, check, is_cluster};
pub use error::{Error, Result};
pub use local_cluster::{LocalCluster, Options};
pub use logc::Closing;
pub use ltc::{Ltc, RangeOptions};
pub use marker::decode_marker;
pub use remote_stocs::RemoteStocs;
pub use service::RangeService;
pub use stoc_choice::StocChoice;
