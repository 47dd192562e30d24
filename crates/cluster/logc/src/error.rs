//! Errors of a replicated log.

use std::sync::Arc;

use codec::Corruption;
use stoc::{Epoch, RangeId};

/// The result of a log's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns what is wrong with the StoCs whose replies do not count.
fn how_missing(is_lost: &bool) -> &'static str {
    if *is_lost { "have lost it" } else { "are missing" }
}

/// A typed failure. Cheap to clone: the one that ended a log is returned by all later appends.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Another owner has the range. (L5)
    #[error("range {range} belongs to another owner than that of epoch {epoch}")]
    Fenced {
        /// The range.
        range: RangeId,
        /// The epoch of this owner.
        epoch: Epoch,
    },
    /// The log was closed. An append that was under way may have happened, or not.
    #[error("the log is closed")]
    Closed,
    /// Too few StoCs of an ensemble reply for an opening. (L6)
    #[error(
        "{have} of the StoCs of segment {segment} have it, and {need} have to: StoCs {missing:?} \
         {}",
        how_missing(.is_lost)
    )]
    TooFewReplies {
        /// The segment.
        segment: u64,
        /// The replies that count.
        have: usize,
        /// The replies that an opening needs.
        need: usize,
        /// The StoCs without one.
        missing: Vec<u32>,
        /// Whether all StoCs have replied, so that the segment is lost.
        is_lost: bool,
    },
    /// There are too few StoCs for a segment.
    #[error("{have} StoCs can take a segment of a log, and {need} have to")]
    TooFewStocs {
        /// The StoCs that can.
        have: usize,
        /// The StoCs that have to acknowledge an append.
        need: usize,
    },
    /// A StoC has a segment that the coordinator does not know: its store went back in time. (L6)
    #[error(
        "StoC {node} has segment {found}, and the last one that the coordinator knows is {last}"
    )]
    UnknownSegment {
        /// The StoC.
        node: u32,
        /// The segment.
        found: u64,
        /// The last segment of the record.
        last: u64,
    },
    /// No replica of a segment has bytes that count.
    #[error("segment {segment} ends at byte {end}, and its replicas end at byte {found}")]
    Lost {
        /// The segment.
        segment: u64,
        /// The end that the header of the next segment states, or the sealed length.
        end: u64,
        /// The end of the longest replica.
        found: u64,
    },
    /// There is no such file.
    #[error("the log has no file {file}")]
    NoFile {
        /// Its number.
        file: u64,
    },
    /// An append that is not at the end of the newest file, or a read behind the end of a file.
    #[error("file {file} of the log ends at byte {length}")]
    NotAtEnd {
        /// The file.
        file: u64,
        /// Its length.
        length: u64,
    },
    /// The coordinator cannot be reached.
    #[error("the coordinator cannot be reached: {0}")]
    Unavailable(Arc<str>),
    /// Stored bytes are damaged.
    #[error(transparent)]
    Damaged(#[from] Corruption),
    /// A StoC refused a call.
    #[error(transparent)]
    Stoc(#[from] stoc::Error),
}
