//! Where tables' bytes are: data in fragments, metadata apart.
//!
//! A table is written by appending to its fragments and ends with its metadata. Whoever stores it
//! may put each fragment, and the metadata, wherever it likes.

use std::fmt::Debug;
use std::sync::Arc;

use device::File;
use engine::Result;

use super::summary::{Summary, TableId};

/// A place for tables, by which a store scatters them (section 4.4 of the Nova-LSM paper): [`crate::LocalTables`],
/// or another one that [`crate::Store::open_with`] is given.
///
/// What is read is verified against checksums by who reads it, fragment and offset included. So a place of
/// tables need not find damage; it has to say where it was ([`TableSource::place_of`]).
pub trait TableStore: Send + Sync + Debug {
    /// Into how many fragments a table may be cut at most; at least one. The store cuts a table into parts
    /// of about the same length.
    fn fragments_max(&self) -> u32;

    /// Begins a table. Whoever writes gathers about `buffer_bytes` before the device is given any.
    ///
    /// # Errors
    /// There is a table of this number, whole or not; the storage's; [`engine::Error::Closed`].
    fn create(&self, id: TableId, buffer_bytes: usize) -> Result<Box<dyn TableSink>>;

    /// Opens a table.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`] if there is none, or what is there is not the table of `summary`; the
    /// storage's.
    fn open(&self, summary: &Summary) -> Result<Arc<dyn TableSource>>;

    /// Removes a table, whole or not; no error if there is none. Does nothing once this is closed. Whoever
    /// reads it is gone by then.
    ///
    /// # Errors
    /// The storage's.
    fn remove(&self, number: u64) -> Result<()>;

    /// From now on nothing is begun or removed, since another opening may have used the same numbers,
    /// and no file is kept open.
    fn close(&self);

    /// The numbers of all tables that are there, whole or not. At its opening a store removes those that its
    /// manifest does not name.
    ///
    /// # Errors
    /// The storage's.
    fn list(&self) -> Result<Vec<u64>>;

    /// Makes the names of finished tables durable: they are found after a crash.
    ///
    /// # Errors
    /// The storage's.
    fn sync_names(&self) -> Result<()>;
}

/// A table that is being written. One that is dropped unfinished is removed by its number.
pub trait TableSink: Send {
    /// Appends to a fragment. Fragments come one after the other.
    ///
    /// # Errors
    /// The storage's; nothing more comes then.
    fn append(&mut self, fragment: u32, bytes: &[u8]) -> Result<()>;

    /// Ends the table with its metadata: durable on return, its name not yet. Answers what it takes
    /// on the device.
    ///
    /// # Errors
    /// The storage's.
    fn finish(self: Box<Self>, metadata: &[u8]) -> Result<u64>;

    /// Bytes of memory that it takes.
    fn memory(&self) -> usize;
}

/// Bytes in a file, in whole blocks where the file wants them.
#[derive(Debug)]
pub struct Span {
    /// Where they are.
    pub file: Arc<dyn File>,
    /// From where on the file is to be read.
    pub offset: u64,
    /// How much of it.
    pub read_len: usize,
    /// Of that, what is wanted: so many bytes, behind so many others.
    pub skipped: usize,
    /// The bytes that are wanted.
    pub len: usize,
}

/// A table's bytes.
pub trait TableSource: Send + Sync + Debug {
    /// Fills `into` from `offset` of a fragment.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`] if the fragment ends before; the storage's.
    fn read(&self, fragment: u32, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Where the bytes of [`TableSource::read`] are in a file, if there is one: then many of them are read
    /// at once. Otherwise a read is waited for.
    ///
    /// # Errors
    /// As [`TableSource::read`].
    fn span(&self, fragment: u32, offset: u64, len: usize) -> Result<Option<Span>>;

    /// The same of [`TableSource::metadata`].
    ///
    /// # Errors
    /// As [`TableSource::metadata`].
    fn span_of_metadata(&self) -> Result<Option<Span>>;

    /// All of the metadata.
    ///
    /// # Errors
    /// As [`TableSource::read`].
    fn metadata(&self) -> Result<Vec<u8>>;

    /// The file and the offset in it where a place of a fragment lies, for reports of damage.
    fn place_of(&self, fragment: u32, offset: u64) -> (String, u64);

    /// The same of the metadata.
    fn place_of_metadata(&self) -> (String, u64);

    /// Verifies what no reading of blocks or metadata comes by.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`]; the storage's.
    fn check(&self) -> Result<()>;
}
