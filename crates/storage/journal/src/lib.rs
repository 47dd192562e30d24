//! The write-ahead journal: hash-chained records, group commit, three durabilities.
//!
//! ```text
//!  append ──► active group ──take──► write ──► segment file ──► fdatasync
//!  (lock,      (memory)      (one leader for     00..07.journal    (one leader for
//!   number,                   all who wait)      00..08.journal     all who wait)
//!   encode)   Buffered                Flushed                Synced
//! ```
//!
//! Records are appended to a group in memory. The first thread that waits for more than that
//! becomes the leader. It takes the whole group and writes it with one call. If it waits for
//! [`Durability::Synced`], it syncs the file, for all threads that appended before. Appends use a
//! second buffer meanwhile.
//!
//! # Invariants
//! - I1. The records in the files, in order, are a prefix of the records appended; after any crash
//!   that prefix holds at least everything acknowledged at `Synced`.
//! - I2. Sequence numbers strictly increase along the journal. They may have gaps.
//! - I3. Every frame's checksum covers the checksum before it, its segment and its offset.
//! - I4. A segment is never written by two lives of the journal: opening starts a new file, whose
//!   header has the end of the one before. So no record can be behind a new tail.
//! - I5. A segment's name appears only once its header is durable, and nothing more is written to
//!   it before its name is durable and the segment before it is synced whole.
//! - I6. After a failed write or sync nothing more is written, synced or acknowledged.
//! - I7. A segment exists, and the file `END` says so, before anything that is appended to it is
//!   acknowledged. So the loss of the newest segment is noticed.
//!
//! To follow an append, start at [`Journal::append`]; a commit, at [`Journal::wait`]; recovery, at
//! [`Journal::open`]. The bytes are described in `segment/format.rs` and `docs/formats/journal.md`.

mod append;
mod check;
mod commit;
#[cfg(all(any(test, feature = "crash"), not(shuttle)))]
pub mod crash;
mod end;
mod error;
mod files;
mod journal;
mod open;
mod options;
mod planted;
mod recover;
mod rotate;
mod segment;
mod stats;
mod store;
mod trim;

pub use check::{Report, SegmentReport, check, check_in, read, read_in};
pub use end::decode_end;
pub use error::{Error, OpenError, ReplayError, Result, Visit};
pub use journal::Journal;
pub use open::{Cut, Recovery};
pub use options::{Durability, Options};
pub use recover::{begins_behind, check_newest, id, is_missing, missing_from, refuse_newer};
pub use segment::decode_segment;
pub use stats::Stats;
pub use store::{LocalSegments, SegmentStore};
