//! Errors of the coordinator.

use codec::Corruption;
use stoc::RangeId;
use wire::Role;

use crate::descriptor::Refusal;
use crate::store::StoreError;

/// The result of the coordinator's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// A typed failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The store cannot be reached. A change may have happened, or not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has no cluster.
    #[error("the coordinator has no cluster yet")]
    NoCluster,
    /// The store is of another cluster.
    #[error(
        "the coordinator has cluster {found:016x}, and this process belongs to {expected:016x}"
    )]
    OtherCluster {
        /// The cluster of the store.
        found: u64,
        /// The cluster of the caller.
        expected: u64,
    },
    /// There is no such range.
    #[error("there is no range {0}")]
    NoRange(RangeId),
    /// There is no such keyspace.
    #[error("there is no keyspace {0:?}")]
    NoKeyspace(String),
    /// There is a keyspace of this name with other options or other ranges.
    #[error("there is a keyspace {0:?} already, with other options or other ranges")]
    KeyspaceExists(String),
    /// A name that no keyspace can have.
    #[error(
        "{0:?} is no name of a keyspace: it has to have 1 to 255 bytes, and no control characters"
    )]
    BadName(String),
    /// Options that no keyspace can have.
    #[error("keyspace {0:?} cannot have these options")]
    BadOptions(String),
    /// Keys at which a keyspace is to be split that are empty, or do not grow.
    #[error("the keys at which keyspace {0:?} is split have to grow, and none of them is empty")]
    BadSplits(String),
    /// A start of a process that is not the last one which was given.
    #[error("start {given} of {role} {node} is not the last one, which is {last}")]
    OldStart {
        /// The role of the process.
        role: Role,
        /// Its number.
        node: u32,
        /// The start.
        given: u64,
        /// The last start that the coordinator gave.
        last: u64,
    },
    /// A later start of this process was seen.
    #[error("a later start of this process was seen, which is {last}")]
    Replaced {
        /// The last start that was seen.
        last: u64,
    },
    /// There is no LTC of this number.
    #[error("there is no LTC {0}")]
    NoLtc(u32),
    /// The LTC leaves its ranges, so a range of it that is to stay moves again.
    #[error("LTC {0} is drained and leaves all of its ranges: `cluster undrain {0}` ends that")]
    Draining(u32),
    /// The order to open a range is void: the range has another owner since, or another
    /// coordinator leads.
    #[error("the order to open range {0} is void")]
    OldOrder(RangeId),
    /// A change that the state of the range does not allow.
    #[error("range {range}: {refusal}")]
    Refused {
        /// The range.
        range: RangeId,
        /// The reason.
        refusal: Refusal,
    },
    /// The coordinator has rejected a call of another process.
    #[error("{0}")]
    Rejected(String),
    /// The store belongs to a newer release, or a record is damaged.
    #[error("the record {key} of the coordinator: {damage}")]
    Damaged {
        /// The key of the record.
        key: String,
        /// The damage.
        damage: Corruption,
    },
}
