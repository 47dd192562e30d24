//! Errors of an LTC and of a local cluster.

use codec::{Corruption, HeaderError};

/// The result of the calls of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A typed failure.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A call of the coordinator.
    #[error(transparent)]
    Coordinator(#[from] coordinator::Error),
    /// The files of a range cannot be opened.
    #[error("the files of range {range}: {cause}")]
    Files {
        /// The range.
        range: stoc::RangeId,
        /// The reason.
        cause: scatter::Error,
    },
    /// The database of a range, or of the coordinator.
    #[error(transparent)]
    Database(#[from] thermocline::Error),
    /// The operating system refused a file or a directory.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// The directory has other things than a cluster.
    #[error("{place} is not a cluster: it has {found}")]
    NotACluster {
        /// The directory.
        place: String,
        /// One of the things in it.
        found: String,
    },
    /// Another process has the cluster open.
    #[error("the cluster {place} is open in another process")]
    InUse {
        /// The directory.
        place: String,
    },
    /// A newer release has written the directory.
    #[error("the cluster {place} belongs to a newer release: {cause}")]
    Newer {
        /// The directory.
        place: String,
        /// The versions.
        cause: HeaderError,
    },
    /// The marker file of the directory is damaged.
    #[error("the file CLUSTER of {place} is damaged: {cause}")]
    Damaged {
        /// The directory.
        place: String,
        /// The damage.
        cause: HeaderError,
    },
    /// Too few StoCs can be opened for the logs of a range.
    #[error("{opened} of {all} StoCs can be opened, and {needed} are needed: {cause}")]
    TooFewStocs {
        /// StoCs that are open.
        opened: usize,
        /// All StoCs.
        all: usize,
        /// StoCs that an append needs.
        needed: usize,
        /// The failure of one of the others.
        cause: String,
    },
    /// The options of a keyspace cannot be decoded.
    #[error("the options of keyspace {keyspace:?}: {cause}")]
    Options {
        /// The keyspace.
        keyspace: String,
        /// The damage.
        cause: Corruption,
    },
    /// Writes are to be synced, and the log of the range is not on any device.
    #[error(
        "durability synced is not possible in keyspace {keyspace:?}, whose log is of mode {mode}: \
         use durability flushed, or a keyspace whose log is of mode durable"
    )]
    NotSynced {
        /// The keyspace.
        keyspace: String,
        /// The mode of its logs.
        mode: coordinator::LogMode,
    },
    /// The memory is too little for another range.
    #[error(
        "memory of {memory_bytes} bytes for data is enough for {open} databases: each needs 4 MiB \
         at least"
    )]
    NoMemory {
        /// The memory of all ranges.
        memory_bytes: u64,
        /// The ranges that are open.
        open: usize,
    },
    /// The directory of a StoC cannot be read.
    #[error("StoC {node}: {cause}")]
    Stoc {
        /// The StoC.
        node: u32,
        /// The reason.
        cause: stoc::Error,
    },
    /// The database of the coordinator is missing. It names the ranges and their logs.
    #[error(
        "the cluster {place} has StoCs, and its directory coordinator is missing or empty: without \
         it nothing can be read"
    )]
    NoCoordinator {
        /// The directory.
        place: String,
    },
    /// The operating system has no thread.
    #[error("no thread can be started: {0}")]
    Thread(String),
}
