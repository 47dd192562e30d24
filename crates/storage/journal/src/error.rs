//! Errors of a journal, by the caller's reaction to them.

use codec::{Corruption, HeaderError, SeqNo};

/// The result of using an open journal.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an append, a wait or a trim failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A write or sync failed, now or earlier, for a permanent reason. Nothing more is accepted
    /// until the journal is opened again; records that were acknowledged before stay acknowledged.
    #[error("the journal has stopped, and must be opened again, because {cause}")]
    Stopped {
        /// The first failure.
        cause: device::Error,
    },
    /// There is no room for the records to be written, or no file descriptor for their segment.
    /// Nothing is lost: they stay in memory, and the next append, wait or close writes them before
    /// anything else. An appended record is in the journal then, also if its wait failed so; until
    /// then nothing more is appended.
    #[error("the journal cannot be written for now: {cause}")]
    NoRoom {
        /// The device's error.
        cause: device::Error,
    },
    /// The record is larger than allowed. Nothing was appended.
    #[error("a record of {bytes} bytes is too large for the journal: at most {limit} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The record's number is not above the last one's. Nothing was appended.
    #[error("record {given} cannot follow record {last} in the journal")]
    OutOfOrder {
        /// The number given.
        given: SeqNo,
        /// The last number in the journal.
        last: SeqNo,
    },
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
}

/// The error of a replayed record's consumer.
pub type ReplayError = Box<dyn std::error::Error + Send + Sync>;

/// Is handed the records of a journal, one by one, with their numbers.
pub type Visit<'a> = dyn FnMut(SeqNo, &[u8]) -> std::result::Result<(), ReplayError> + 'a;

/// Why a journal could not be opened or read. Nothing acknowledged was altered.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The storage failed.
    #[error("the journal cannot be read or written: {0}")]
    Device(#[from] device::Error),
    /// Bytes that were acknowledged, or that later ones depend on, are not the bytes that were
    /// written.
    #[error("the journal is damaged: {0}")]
    Damaged(#[from] Corruption),
    /// A segment was written by a release with another format.
    #[error("{file}: {source}")]
    Unsupported {
        /// The segment.
        file: String,
        /// The part that this release does not know.
        source: HeaderError,
    },
    /// Segments or records that the journal had, and that are still needed, are not there: before
    /// other segments, or at the journal's end.
    #[error("records of the journal are missing ({file}): {what}")]
    Missing {
        /// The segment after the gap, the one that ends too early, or the file that is missing.
        file: String,
        /// How that is known.
        what: String,
    },
    /// The consumer refused a record.
    #[error("record {seqno} of the journal ({file} at byte {offset}) cannot be replayed: {source}")]
    Replay {
        /// The record's number.
        seqno: SeqNo,
        /// Its segment.
        file: String,
        /// The record's offset there.
        offset: u64,
        /// The consumer's error.
        source: ReplayError,
    },
}
