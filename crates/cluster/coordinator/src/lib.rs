//! The coordinator: the records of a cluster, each changed by compare-and-swap.
//!
//! ```text
//!  processes: start ──┐
//!  keyspaces: create ─┤   records: cluster, StoCs, keyspaces,   ──> Store: get, list, commit
//!  ranges: take, ─────┤   LTCs, ranges (bounds, owner, epoch,       (etcd, or a local database)
//!   serve, move, logs │   logs)
//!  LTCs: beat ────────┴── Leases: leases, orders to open ranges
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
//! - C4. *Numbers.* Numbers of ranges, starts of processes and ids of clients are never given
//!   twice.
//! - C5. *Orders.* An LTC takes a range by an order of the leader, which names the epoch of the
//!   owner before. The order is void as soon as the range has another owner, or another
//!   coordinator leads.
//!
//! The invariants of leases are at [`Leases`].
//!
//! # Not there yet
//! Splits and merges.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod campaign;
mod coordinator;
mod descriptor;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod fields;
mod leases;
mod local_store;
mod log_mode;
mod range_logs;
mod records;
mod remote;
mod store;
#[cfg(test)]
mod tests;

pub use campaign::{Campaign, Election, OnReport};
pub use coordinator::{Coordinator, Order, StocStart};
pub use descriptor::{Descriptor, Event, Owner, RangeState, Refusal};
pub use error::{Error, Result};
#[cfg(feature = "etcd")]
pub use etcd::{EtcdOptions, EtcdStore, EtcdTls};
pub use leases::{Beat, BeatReply, LEASE, LeaseReport, Leases, LtcLease, RangeLease};
pub use local_store::LocalStore;
pub use log_mode::LogMode;
pub use range_logs::RangeLogs;
pub use records::{ClusterRecord, KeyspaceRecord, LtcRecord, StocRecord};
pub use remote::{
    LeaderReply, MakeKeyspace, RemoteStore, StoreReply, StoreRequest, StoreService, decode_beat,
    decode_clients, decode_keyspace, decode_leader_reply, decode_store_reply, decode_store_request,
    encode_beat, encode_clients, encode_keyspace, encode_leader_reply, encode_store_reply,
    encode_store_request,
};
pub use store::{Compare, Revision, Store, StoreError, Versioned, Write};
