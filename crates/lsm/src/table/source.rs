//! Where tables' bytes are: data in fragments, metadata apart.
//!
//! A table is written by appending to its fragments and ends with its metadata. Whoever stores it
//! may put each fragment, and the metadata, wherever it likes.

use std::fmt::Debug;
use std::sync::Arc;

use device::File;
use engine::Result;

use super::summary::{Summary, TableId};

/// A place for tables.
pub(crate) trait TableStore: Send + Sync + Debug {
    /// Into how many fragments a table may be cut at most.
    fn fragments_max(&self) -> u32;

    /// Begins a table. Whoever writes gathers about `buffer_bytes` before the device is given any.
    fn create(&self, id: TableId, buffer_bytes: usize) -> Result<Box<dyn TableSink>>;

    /// Opens a table. Fails if what is there is not the table of `summary`.
    fn open(&self, summary: &Summary) -> Result<Arc<dyn TableSource>>;

    /// Removes a table, whole or not; no error if there is none. Does nothing once this is closed.
    fn remove(&self, number: u64) -> Result<()>;

    /// From now on nothing is begun or removed, since another opening may have used the same numbers,
    /// and no file is kept open.
    fn close(&self);

    /// The numbers of all tables that are there, whole or not.
    fn list(&self) -> Result<Vec<u64>>;

    /// Makes the names of finished tables durable.
    fn sync_names(&self) -> Result<()>;
}

/// A table that is being written.
pub(crate) trait TableSink: Send {
    /// Appends to a fragment. Fragments come one after the other.
    fn append(&mut self, fragment: u32, bytes: &[u8]) -> Result<()>;

    /// Ends the table with its metadata: durable on return, its name not yet. Answers what it takes
    /// on the device.
    fn finish(self: Box<Self>, metadata: &[u8]) -> Result<u64>;

    /// Bytes of memory that it takes.
    fn memory(&self) -> usize;
}

/// Bytes in a file, in whole blocks where the file wants them.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) file: Arc<dyn File>,
    /// What is to be read.
    pub(crate) offset: u64,
    pub(crate) read_len: usize,
    /// Of that, what is wanted: so many bytes, behind so many others.
    pub(crate) skipped: usize,
    pub(crate) len: usize,
}

/// A table's bytes.
pub(crate) trait TableSource: Send + Sync + Debug {
    /// Fills `into` from `offset` of a fragment.
    fn read(&self, fragment: u32, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Where the bytes of [`TableSource::read`] are in a file, if there is one.
    fn span(&self, fragment: u32, offset: u64, len: usize) -> Result<Option<Span>>;

    /// The same of [`TableSource::metadata`].
    fn span_of_metadata(&self) -> Result<Option<Span>>;

    /// All of the metadata.
    fn metadata(&self) -> Result<Vec<u8>>;

    /// The file and the offset in it where a place of a fragment lies.
    fn place_of(&self, fragment: u32, offset: u64) -> (String, u64);

    /// The same of the metadata.
    fn place_of_metadata(&self) -> (String, u64);

    /// Verifies what no reading of blocks or metadata comes by.
    fn check(&self) -> Result<()>;
}
