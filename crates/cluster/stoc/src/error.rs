//! Errors of a StoC, by the caller's reaction to them.

use std::sync::Arc;

use codec::{Corruption, NewerVersion};

use crate::name::{Epoch, FileName, RangeId};

/// The result of a StoC's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// A typed failure. Cheap to clone: the one that ended a StoC is returned by every later call that
/// would change something.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The range is promised to a higher epoch: the caller does not own it any more. (S1)
    #[error("range {range} is promised to epoch {promise}, and this call has a lower one")]
    Fenced {
        /// The range.
        range: RangeId,
        /// The promise.
        promise: Epoch,
    },
    /// An append that is not at the end of its log. (S3)
    #[error("{name} ends at byte {length}, and an append goes to its end")]
    NotAtEnd {
        /// The log.
        name: FileName,
        /// The length of its content.
        length: u64,
    },
    /// An append in a place where the log has other bytes. (S3)
    #[error("{name} has other bytes at byte {offset}")]
    OtherBytes {
        /// The log.
        name: FileName,
        /// The offset of the append.
        offset: u64,
    },
    /// There is no such file, or it is not finished.
    #[error("there is no file {name}")]
    NoFile {
        /// Its name.
        name: FileName,
    },
    /// There is a file of that name already.
    #[error("there is a file {name} already")]
    Exists {
        /// Its name.
        name: FileName,
    },
    /// The call is for files of another kind.
    #[error("{name} is a file of another kind")]
    OtherKind {
        /// Its name.
        name: FileName,
    },
    /// A read or a write beyond the end of a file.
    #[error("{name} has {length} bytes, and the call is for bytes behind its end")]
    PastEnd {
        /// Its name.
        name: FileName,
        /// The length of its content.
        length: u64,
    },
    /// The StoC cannot be reached now. Whether it has done what a request says is unknown.
    #[error("StoC {node} cannot be reached")]
    Unreachable {
        /// Its number.
        node: u32,
    },
    /// The limit of bytes, files or memory is reached, or the device is full.
    #[error("the StoC has no room for more bytes")]
    NoRoom {
        /// The bytes that were wanted.
        bytes: u64,
    },
    /// Stored bytes are damaged. (S4)
    #[error(transparent)]
    Damaged(#[from] Corruption),
    /// A newer release wrote a file.
    #[error(transparent)]
    Newer(#[from] NewerVersion),
    /// The directory belongs to another cluster, or to another StoC of it. (S5)
    #[error("the directory is of StoC {found_node} of cluster {found_cluster:016x}")]
    OtherOwner {
        /// The cluster that it belongs to.
        found_cluster: u64,
        /// The StoC.
        found_node: u32,
    },
    /// The directory went back in time: its last start is not the last one that the coordinator
    /// knows. (S5)
    #[error(
        "the directory is of start {stored}, and the last start of this StoC was {last}: it is an \
         old copy"
    )]
    OldCopy {
        /// The incarnation that it has.
        stored: u64,
        /// The last incarnation.
        last: u64,
    },
    /// A later start of the StoC has opened the directory already. (S5)
    #[error("this is start {given} of the StoC, and start {stored} has opened the directory")]
    OldStart {
        /// The incarnation of this start.
        given: u64,
        /// The incarnation that the directory has.
        stored: u64,
    },
    /// An append to a log in memory that another start of the StoC has made. (S5)
    #[error("the log was in the memory of start {wanted} of the StoC, and this is start {present}")]
    OtherStart {
        /// The start that the caller knows.
        wanted: u64,
        /// The start of the StoC.
        present: u64,
    },
    /// A StoC of another process failed.
    #[error("the StoC failed: {what}")]
    Failed {
        /// The error, in words.
        what: String,
        /// Whether it changes nothing more until it is opened again.
        is_fatal: bool,
    },
    /// A write or a sync failed before. The StoC has to be opened again. (S6)
    #[error("the StoC has stopped: {0}")]
    Stopped(Arc<Self>),
    /// The device failed.
    #[error(transparent)]
    Device(#[from] device::Error),
    /// A sync failed, or a change of a name. (S6)
    #[error(transparent)]
    Sync(device::Error),
    /// The catalogue could not be read or written.
    #[error(transparent)]
    Catalogue(engine::Error),
}

impl Error {
    /// Returns whether the StoC changes nothing more until it is opened again. (S6)
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Stopped(_) => true,
            Self::Failed { is_fatal, .. } => *is_fatal,
            Self::Device(error) => !error.is_retryable(),
            Self::Sync(_) => true,
            Self::Catalogue(error) => !error.is_retryable(),
            _ => false,
        }
    }
}

impl From<engine::Error> for Error {
    fn from(error: engine::Error) -> Self {
        match error {
            engine::Error::Corruption(damage) => Self::Damaged(damage),
            other => Self::Catalogue(other),
        }
    }
}
