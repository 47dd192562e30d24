//! Chains of edits: the contents of a store as a file of changes, and the superblock that says how
//! much of the file counts.
//!
//! The store decides what an edit is ([`Edit`]): the tables of an LSM-tree that come and go, or the
//! segments of a value store. This crate makes edits durable, one after another and each as a
//! whole.
//!
//! 1. The store makes the files that an edit names whole and durable, with their names.
//! 2. The edit is appended to the chain's file, which is synced.
//! 3. The superblock is committed: it names the current file, its length, the checksum of the chain
//!    up to there, and the number up to which every write is in the store's files. From this moment
//!    the edit counts.
//! 4. The store removes the files that the edit removes, when no reader uses them any more.
//!
//! When the file has grown, step 2 writes another file instead, with one edit that has all
//! contents, and step 4 removes the old one. So does the first edit after an opening, since nothing
//! is appended to a file of which another process may have failed to make everything durable.
//! Opening itself writes nothing if a crash has left nothing to remove.
//!
//! No file stays open between two edits: a process may have many stores.
//!
//! # Invariants
//! - N1. The superblock names a file that is durable up to the length that it gives, and whose
//!   edits name durable files. Bytes after that length were left by an edit that a crash cut short,
//!   and are not read.
//! - N2. Damage in between is found: every edit's checksum covers the one before it, and the
//!   superblock has the last.
//! - N3. After a failed write or sync nothing more is committed: the next record would overwrite
//!   one that the superblock may name. The store ensures this. Only if the edit's own write found
//!   no room, no superblock names it: then the next record overwrites it.

mod chain;
mod format;
#[cfg(all(test, not(shuttle)))]
mod tests;

use codec::{Corruption, Format};

pub use chain::{Chain, Contents, read, stored_bytes};
pub use format::{Committed, decode_committed};

/// The superblock's name.
pub const SUPERBLOCK: &str = engine::Superblock::NAME;

/// A change of a store's contents.
pub trait Edit: Clone + Default {
    /// How a store keeps its chain.
    const KIND: Kind;

    /// The contents after some edits.
    type All: Default;

    /// Returns the bytes. An edit has one encoding.
    fn encode(&self) -> Vec<u8>;

    /// Decodes an edit.
    ///
    /// # Errors
    /// Bytes that no edit has.
    fn decode(bytes: &[u8]) -> Result<Self, Corruption>;

    /// Returns whether it changes nothing.
    fn is_empty(&self) -> bool;

    /// Applies it to the contents.
    ///
    /// # Errors
    /// An edit that does not fit the contents.
    fn apply(self, all: &mut Self::All) -> Result<(), Corruption>;

    /// Returns the contents as one edit of an empty store.
    fn of_all(all: Self::All) -> Self;

    /// Decodes and applies a chain of edits that no checksum vouches for, each with its length
    /// (`u32`) in front: the entry for fuzzing. Returns the contents.
    ///
    /// # Errors
    /// The damage.
    fn decode_chain(bytes: &[u8]) -> Result<Self::All, Corruption> {
        format::decode_chain::<Self>(bytes)
    }
}

/// How a store keeps its chain of edits.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The kind of the superblock.
    pub superblock: [u8; 8],
    /// The header of the chain's file.
    pub format: Format,
    /// The beginning of the name of the chain's file; a number follows.
    pub prefix: &'static str,
    /// Whether a file by this name, not of the chain, belongs to the store. Without a superblock
    /// such a file is damage.
    pub is_of_store: fn(&str) -> bool,
}
