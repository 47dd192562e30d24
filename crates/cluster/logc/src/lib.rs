//! LogC: one log of a range, replicated on several StoCs (Nova-LSM, section 5).
//!
//! ```text
//!  append ──> active segment ──> E StoCs ── Qa replies ──> acknowledged
//!                  │ a StoC fails or is slow, or a file begins
//!                  └──> spare, which is registered ahead ──CAS──> sealed, another spare
//!  open: fence ──> longest replica ──> copy until Qa have it ──> CAS ──> files of the log
//! ```
//!
//! The content of a log is a sequence of *files*, by ascending numbers: the segments of a journal,
//! or the files of a manifest. A file grows by appends. It is stored in *segments*: a segment is a
//! log file on each StoC of its *ensemble*, and has a part of one file. A segment begins with a
//! header, which states that part and the end of the segment before ([`Header`]).
//!
//! The coordinator's record of the range has the segments of its logs ([`LogRecord`]). Each change
//! of it is one compare-and-swap ([`Registry`]), so one step seals a log and
//! gives it to another owner.
//!
//! # Invariants
//! - L1. *Acknowledged.* An append is acknowledged once Qa StoCs of the ensemble have synced it, or
//!   have it in memory if the mode of the segment says so ([`Mode`]).
//! - L2. *Prefixes.* The replicas of a segment are prefixes of one stream: a StoC accepts an append
//!   at the end alone, and the owner sends in one order (S3 of `stoc`).
//! - L3. *Leaving.* The owner leaves a segment at an end up to which Qa StoCs have acknowledged all
//!   bytes. From then on it ignores replies for bytes behind this end, and sends those bytes again
//!   to the next segment. The header of that segment states the end.
//! - L4. *Two open segments.* At most two segments of a record are not sealed. So a segment that
//!   was left is sealed in the record before the next one is left.
//! - L5. *Outcomes.* An append that was sent to any StoC is acknowledged or fenced. Until then the
//!   call does not return, unless the log is closed: then the outcome is unknown.
//! - L6. *Open.* An opening takes the longest of E − Qa + 1 replicas, or the end that the next
//!   header states. It seals all segments of the owner before in one compare-and-swap, and only
//!   then lets appends pass. A damaged or missing replica, one of another cookie and one without a
//!   promise do not count. Neither does the replica of a segment in memory at another start of its
//!   StoC.
//!   An owner that abandons a lost log needs the promises of E − Qa + 1 StoCs. The log begins
//!   again without segments.
//! - L7. *Trim.* A segment leaves the record before its files are released.
//! - L8. *Orphans.* A log file is an orphan if this owner or an earlier one made it, and no record
//!   names it. A change of unknown outcome may still register a record, so such a record counts
//!   like the registered one. StoCs list their files, and the owner releases the orphans.
//!
//! # Weak segments
//! A segment in memory is *weak* once it has lost replicas: a further loss may lose its bytes. Its
//! owner begins another file, writes the content of the files before to another place, and removes
//! them ([`Log::weak_segments`]).
//!
//! # Concurrency
//! One append is under way at a time: the caller collects writes in groups. The lock of the writer
//! is held for a whole append, also while it waits for replies. Replies have a lock of their own.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod closing;
mod error;
mod header;
mod log;
mod open;
mod read;
mod record;
mod registry;
mod replicas;
mod setup;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod watched;
mod weak;

pub use closing::Closing;
pub use error::{Error, Result};
pub use header::Header;
pub use log::Log;
pub use open::open;
pub use record::{LogRecord, Member, Mode, Part, Segment};
pub use registry::{Change, Registry, RegistryError, Stocs};
pub use setup::Setup;
