//! The coordinator: the records of a cluster, each changed by compare-and-swap.
//!
//! ```text
//!  StoCs: start ──────┐
//!  keyspaces: create ─┤   records: cluster, StoCs, keyspaces,   ──> Store: get, list, commit
//!  ranges: take, ─────┤   ranges (bounds, owner, epoch, logs)       (etcd, or a local database)
//!   serve, move, logs │
//! ```
//!
//! A *range* is a part of the keys of a keyspace. Its record ([`Descriptor`]) names its owner, the
//! epoch of the owner, its state, and the segments of its logs. A change of a range is one commit
//! that compares the revision of its record. So two owners never both believe that a change is
//! theirs.
//!
//! # Invariants
//! - C1. *Commit.* A commit makes all its writes or none, and only if each key that it compares has
//!   the expected revision. Revisions grow, and none is given twice.
//! - C2. *Epochs.* Each owner of a range has an epoch of its own, which is larger than those of all
//!   owners before.
//! - C3. *Owners.* Only the owner of the present epoch changes the logs of a range, or says that it
//!   serves.
//! - C4. *Numbers.* Numbers of ranges, starts of StoCs and ids of clients are never given twice.
//!
//! # Not there yet
//! Leases of LTCs, splits and merges.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod coordinator;
mod descriptor;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod fields;
mod local_store;
mod range_logs;
mod records;
mod remote;
mod store;
#[cfg(test)]
mod tests;

pub use coordinator::{Coordinator, StocStart};
pub use descriptor::{Descriptor, Event, Owner, RangeState, Refusal};
pub use error::{Error, Result};
#[cfg(feature = "etcd")]
pub use etcd::{EtcdOptions, EtcdStore, EtcdTls};
pub use local_store::LocalStore;
pub use range_logs::RangeLogs;
pub use records::{ClusterRecord, KeyspaceRecord, StocRecord};
pub use remote::{
    RemoteStore, StoreReply, StoreRequest, StoreService, decode_store_reply, decode_store_request,
    encode_store_reply, encode_store_request,
};
pub use store::{Compare, Revision, Store, StoreError, Versioned, Write};
