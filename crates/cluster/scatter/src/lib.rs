//! Scatter: the files of a range on the StoCs of a cluster, as a device (Nova-LSM, section 4.4).
//!
//! ```text
//!  names, small files ──> manifest log (logc)
//!  files of the journal ──> write log (logc)
//!  tables ──> fragments, each on several StoCs ──> their place in the manifest log
//! ```
//!
//! The owner of a range opens the two logs of the range, and then this device. A database on the
//! device has its journal, its catalog and its tables on StoCs, and knows nothing of that. When the
//! range belongs to another owner, all writes and syncs fail.
//!
//! # Invariants
//! - F1. *Order.* Changes of names and of small files reach the manifest log in their order. A sync
//!   of a file or a directory appends all changes before it.
//! - F2. *Journal.* A write to a file of the journal is durable when it returns, if the name of the
//!   file is durable. If the write log is in the memories of StoCs, it is as safe as these are.
//! - F3. *Tables.* A table counts once the copies of its fragments are finished on their StoCs, and
//!   its place is in the manifest log. It never changes afterwards.
//! - F4. *Removal.* The files of a table are released after its removal is in the manifest log, and
//!   after its last reader is closed.
//! - F5. *Orphans.* An opening, and each repair, releases copies that no table has, and the orphans
//!   of the logs (L8 of `logc`). It never releases a copy that the manifest log names, or that is
//!   being written.
//! - F6. *Repair.* A repair adds finished copies under other names. It releases a lost copy only
//!   after the manifest log has enough others. A StoC that does not reply has not lost its copies.
//!
//! # Concurrency
//! Lock order: a repair, the turn of a file, the end of the manifest log, the names, the content of
//! a file. Threads wait for StoCs with the first three alone.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod changes;
mod copy;
mod device;
mod file;
mod files;
mod filling;
mod fragment;
mod node;
mod open;
mod place;
mod queue;
mod reading;
mod stripes;
mod table;
#[cfg(test)]
mod tests;
mod upkeep;

pub use changes::{Change, CopyPlace, NodeId, Placement, decode_file, encode_first, encode_frame};
pub use device::RangeDevice;
pub use open::{Error, Options, open};
pub use stripes::Stripes;
