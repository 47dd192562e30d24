//! FlexSpaces as the files of a mounted file system (FUSE): whatever reads and writes files reads and
//! writes spaces.
//!
//! ```text
//!   programs ── read, write, truncate, fsync, setxattr ──> kernel ── /dev/fuse ──> Requests (requests.rs)
//!                                                                                     │
//!                               Names (names.rs): which name is which space, which are open
//!                                                                                     │
//!                          SpaceFile (file.rs): a space as an offset-addressed file ──┘
//! ```
//!
//! A mounted directory of spaces is a directory with a file for each; a mounted space is a directory
//! with that one file (ADR 0029).
//!
//! # Invariants
//! - M1. What a call did is what the next one sees, of whatever process: the kernel keeps no bytes and
//!   no sizes, as an insertion moves what it would have kept.
//! - M2. What was done before an `fsync` is there after a crash of this process, or of the machine;
//!   what was done before a clean end, too.
//! - M3. A name is that of a space as a whole, or of none, also after a crash: a space is made under a name
//!   that nobody sees, and one that is removed has such a name first.
//! - M4. What belongs to a database, a backup or a store is not mounted ([`owner_of`]).
//! - M5. A file that takes another one's name is durable before it does: after a crash the name has the old bytes or
//!   the new ones.
//!
//! # To follow
//! - a write: `requests.rs`: `write`, then `file.rs`: `write`;
//! - an insertion: `requests.rs`: `setxattr`, then `shift.rs`, then `file.rs`: `shift`;
//! - opening and closing spaces: `names.rs`: `open`, then `close_idle`, and `node.rs`;
//! - a listing: `requests.rs`: `readdir`, then `listings.rs`;
//! - the end of a mount: `mounted.rs`.

mod asked;
mod attributes;
mod file;
mod listings;
mod mounted;
mod names;
mod node;
mod owner;
mod refusal;
mod requests;
mod shift;
mod source;
#[cfg(test)]
mod tests;

pub use asked::{INSERT_BYTES_MAX, collapse, insert, sync};
pub use mounted::{Error, Mounted, Options, Report, Stopper, mount};
pub use owner::{Owner, is_store, owner_of, store};
