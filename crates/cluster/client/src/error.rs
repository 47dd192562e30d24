//! Errors of the client.

/// The result of the calls of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A typed failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The owner of the range could not be reached in time. A write has not happened.
    #[error("the owner of the range cannot be reached: {0}")]
    Unavailable(String),
    /// The owner of the range has not replied in time. The write may have happened. (Q3)
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(String),
    /// The coordinator.
    #[error(transparent)]
    Coordinator(#[from] coordinator::Error),
    /// There is no such keyspace.
    #[error("there is no keyspace {0:?}")]
    NoKeyspace(String),
    /// The keys of a write are in several ranges.
    #[error("the keys of the write are in ranges {first} and {other}, and a write has one range")]
    SeveralRanges {
        /// The range of the first key.
        first: stoc::RangeId,
        /// The range of another key.
        other: stoc::RangeId,
    },
    /// The owner has no memory or no space for the write.
    #[error("{0}")]
    Full(String),
    /// The owner refuses the request.
    #[error("{0}")]
    Rejected(String),
    /// A value in the cluster is damaged.
    #[error(transparent)]
    Damaged(#[from] codec::Corruption),
    /// The operating system has no thread.
    #[error("no thread can be started: {0}")]
    Thread(String),
    /// The client was stopped.
    #[error("the client was stopped")]
    Stopped,
}
