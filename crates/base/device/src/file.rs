//! An open file, by blocking calls.

use std::any::Any;
use std::fmt::Debug;
use std::os::fd::BorrowedFd;

use crate::error::Result;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// An existing file, to read.
    Read,
    /// An existing file, to read and write.
    Write,
    /// A file that must not exist yet, to read and write.
    CreateNew,
    /// A file to read and write, made if it is missing.
    Create,
}

/// How much a sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncKind {
    /// The bytes and the metadata needed to read them back (`fdatasync`).
    Data,
    /// Everything (`fsync`).
    All,
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The last part of the name.
    pub name: String,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// Room on the storage beneath a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// In all.
    pub total: u64,
    /// Free for us.
    pub free: u64,
}

/// An open file. Calls block, may come from many threads at the same time, and are whole or an
/// error: a short transfer is continued or reported, never passed off as success.
///
/// [`Any`] lets a wrapping device find its own files again among the files that a queue is given.
pub trait File: Any + Send + Sync + Debug {
    /// Fills `into` from `offset`. On a direct device, fastest when offset, length and memory are
    /// multiples of [`File::alignment`]; otherwise it goes through a bounce buffer.
    ///
    /// # Errors
    /// [`crate::Error::UnexpectedEnd`] if the file ends before `into` is full.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Writes all of `bytes` at `offset`, growing the file if need be. On a direct device offset
    /// and length must be multiples of [`File::alignment`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes all writes before the call durable.
    fn sync(&self, kind: SyncKind) -> Result<()>;

    /// The length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether there is nothing in it.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts or extends (with zeros) to `len` bytes.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Reserves room so that writes below `offset + len` cannot fail for lack of it, and extends
    /// the file's length to it.
    fn allocate(&self, offset: u64, len: u64) -> Result<()>;

    /// Returns the room of a range to the device; the part of it that is in the file then reads as
    /// zeros, and the length stays.
    fn punch(&self, offset: u64, len: u64) -> Result<()>;

    /// Returns the unit of direct I/O in bytes: 1 if there is none.
    fn alignment(&self) -> usize;

    /// The name it was opened by, relative to its device's root.
    fn name(&self) -> &str;

    /// Returns the descriptor, if the operating system has one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
