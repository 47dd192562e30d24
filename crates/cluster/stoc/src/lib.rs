//! StoC, a storage component: it stores files of ranges for a cluster, and refuses old epochs
//! (Nova-LSM, section 6).
//!
//! ```text
//!  logs: fence, append, seal ──┐                      catalogue: identity, promises,
//!  tables: create, write, ─────┤  range: promise,  ──> references, seals (a chain of edits)
//!          finish              │  files; one lock  ──> files/RANGE/KIND-NUMBER-NONCE-PART
//!  all: read, list, release ───┘    logs in memory: in the range alone, without a file
//! ```
//!
//! A StoC knows bytes and epochs, and neither tables nor records. The owner of a range names each
//! file ([`FileName`]), and shows its epoch with each call that changes something.
//!
//! # Invariants
//! - S1. *Promise.* [`Stoc::fence`] returns once the epoch is durable in the catalogue. From then
//!   on calls of a lower epoch for that range change nothing. The lengths that it returns cover
//!   each append that is acknowledged under a lower epoch, before or afterwards: a range has one
//!   lock, which an append holds until its bytes are synced.
//! - S2. *Finished files.* A finished file never changes. It counts once its content and its name
//!   are synced.
//! - S3. *Prefixes.* An append goes to the end of a log. A repeated append of the same bytes is
//!   acknowledged, and other bytes are refused. An opening verifies a log up to its end, and cuts
//!   what follows the last whole append. A log that would lose bytes which were synced is damaged.
//! - S4. *Verified reads.* Each read verifies the checksums of the units that it touches.
//! - S5. *Identity.* A StoC is its cookie and its incarnation. A directory whose incarnation is not
//!   the last one that the coordinator gave went back in time, and is refused. A log in memory ends
//!   with the incarnation. An append to it names the incarnation that made it, and another one
//!   refuses the append.
//! - S6. *End.* A file is removed with its last reference. After a failed write or sync a StoC
//!   changes nothing more until it is opened again.
//!
//! # Concurrency
//! Lock order: the map of ranges, then ranges by ascending id, then the catalogue. An append, a
//! fence, a finish and a release hold the lock of their range during I/O, and so does a read of a
//! log. A read of a table holds no lock.
//!
//! # Not there yet
//! A bucket.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod catalogue;
mod check;
mod error;
mod format;
mod link;
mod log_file;
mod memory_log;
mod metrics;
mod name;
mod open;
mod range;
mod remote;
mod request;
mod store;
mod table_file;
#[cfg(test)]
mod tests;
mod throttle;

pub use catalogue::Identity;
pub use check::{Checked, check, identity};
pub use error::{Error, Result};
pub use link::{DirectLink, Link, OnReply, ThreadLink, call, call_all};
pub use name::{Epoch, FileName, Kind, RangeId};
pub use range::{Fenced, Listed};
pub use remote::{
    RemoteLink, StocService, decode_request, decode_response, encode_request, encode_response,
};
pub use request::{Request, Response};
pub use store::{Limits, Options, Stats, Stoc};
pub use throttle::{Throttle, ThrottleOptions};

/// Decodes a chain of edits of a catalogue, for fuzzing.
///
/// # Errors
/// The damage.
pub fn decode_catalogue(bytes: &[u8]) -> std::result::Result<(), codec::Corruption> {
    <catalogue::Edit as edits::Edit>::decode_chain(bytes).map(|_| ())
}

/// Decodes the first block of a file, for fuzzing.
///
/// # Errors
/// The damage.
pub fn decode_head(bytes: &[u8]) -> std::result::Result<(), codec::Corruption> {
    format::Head::decode(bytes).map(|_| ())
}

/// Decodes the appends of a log, for fuzzing. Returns the length of its content.
pub fn decode_appends(bytes: &[u8]) -> u64 {
    format::walk_appends(bytes, 0).length
}

/// Decodes the footer of a table's file, for fuzzing.
///
/// # Errors
/// The damage.
pub fn decode_footer(bytes: &[u8]) -> std::result::Result<(), codec::Corruption> {
    format::Footer::decode(bytes, 0).map(|_| ())
}
