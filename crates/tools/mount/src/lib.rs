//! FlexSpaces as the files of a mounted file system (FUSE): any program can read and write spaces.
//!
//! ```text
//!   programs ── read, write, truncate, fsync, setxattr ──> kernel ── /dev/fuse ──> Requests
//!                                                                       (requests.rs) │
//!                               Names (names.rs): which name is which space, which are open
//!                                                                                     │
//!                          SpaceFile (file.rs): a space as an offset-addressed file ──┘
//! ```
//!
//! A mounted directory of spaces is a directory with a file for each; a mounted space is a
//! directory with that one file (`docs/design/flexspace.md`).
//!
//! # Invariants
//! - M1. Each call sees the effects of all calls before it, of whatever process. The kernel keeps
//!   no bytes and no sizes, since an insertion moves the bytes that it would have kept.
//! - M2. Changes before an `fsync` survive a crash of this process or of the machine; changes
//!   before a clean end survive, too.
//! - M3. A name is that of a whole space or of none, also after a crash: a space is made under a
//!   hidden name. A space that is removed gets such a name first.
//! - M4. Spaces that belong to a database, a backup or a store are not mounted ([`owner_of`]).
//! - M5. A file that takes another one's name is durable before it does: after a crash the name has
//!   the old bytes or the new ones.
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
