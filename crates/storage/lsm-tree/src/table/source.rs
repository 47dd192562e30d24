//! The bytes of tables: data in fragments, metadata apart.
//!
//! A table is written by appending to its fragments and ends with its metadata. A `TableStore`
//! may put each fragment, and the metadata, at any place.

use std::fmt::Debug;
use std::sync::Arc;

use device::File;
use engine::Result;

use super::summary::{Summary, TableId};

/// A place for tables, by which a store scatters them (section 4.4 of the Nova-LSM paper):
/// [`super::LocalTables`], or another one that the engine is opened with.
///
/// The reader verifies all bytes against checksums that cover the fragment and the offset. So a
/// place of tables need not find damage; it only has to report the location
/// ([`TableSource::place_of`]).
pub trait TableStore: Send + Sync + Debug {
    /// Returns the largest number of fragments into which a table may be cut; at least one. The
    /// store cuts a table into parts of about the same length.
    fn fragments_max(&self) -> u32;

    /// Begins a table. The sink gathers about `buffer_bytes` before it writes to the device.
    ///
    /// # Errors
    /// There is a table of this number, whole or not; the storage's; [`engine::Error::Closed`].
    fn create(&self, id: TableId, buffer_bytes: usize) -> Result<Box<dyn TableSink>>;

    /// Opens a table.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`] if there is none, or if the table found is not the one of
    /// `summary`; the storage's.
    fn open(&self, summary: &Summary) -> Result<Arc<dyn TableSource>>;

    /// Removes a table, whole or not; no error if there is none. Does nothing once this is closed.
    /// When it is called, the table has no readers any more.
    ///
    /// # Errors
    /// The storage's.
    fn remove(&self, number: u64) -> Result<()>;

    /// Closes the place: from now on no table is begun or removed, since another opening may have
    /// used the same numbers. No file is kept open.
    fn close(&self);

    /// Returns the numbers of all tables that are there, whole or not. When a store is opened, it
    /// removes the tables that its manifest does not name.
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
    /// Appends to a fragment. Fragments are written sequentially.
    ///
    /// # Errors
    /// The storage's; nothing more comes then.
    fn append(&mut self, fragment: u32, bytes: &[u8]) -> Result<()>;

    /// Ends the table with its metadata: durable on return, its name not yet. Returns the bytes
    /// that it takes on the device.
    ///
    /// # Errors
    /// The storage's.
    fn finish(self: Box<Self>, metadata: &[u8]) -> Result<u64>;

    /// Returns the bytes of memory that it takes.
    fn memory(&self) -> usize;
}

/// Bytes in a file, in whole blocks if the file requires them.
#[derive(Debug)]
pub struct Span {
    /// The file that has them.
    pub file: Arc<dyn File>,
    /// From where on the file is to be read.
    pub offset: u64,
    /// How much of it.
    pub read_len: usize,
    /// Bytes at the beginning of the read, before the requested ones.
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

    /// Returns where the bytes of [`TableSource::read`] are in a file. Never waits for the storage:
    /// lookups read such spans in queues, many at the same time, and the read opens a
    /// file that is not open.
    ///
    /// # Errors
    /// As [`TableSource::read`].
    fn span(&self, fragment: u32, offset: u64, len: usize) -> Result<Span>;

    /// Returns where the bytes of [`TableSource::metadata`] are, as `TableSource::span` does.
    ///
    /// # Errors
    /// As [`TableSource::metadata`].
    fn span_of_metadata(&self) -> Result<Span>;

    /// Returns all of the metadata.
    ///
    /// # Errors
    /// As [`TableSource::read`].
    fn metadata(&self) -> Result<Vec<u8>>;

    /// Returns the file and the offset in it of a place of a fragment, for reports of damage.
    fn place_of(&self, fragment: u32, offset: u64) -> (String, u64);

    /// Returns the same of the metadata.
    fn place_of_metadata(&self) -> (String, u64);

    /// Verifies the bytes that no reading of blocks or metadata verifies.
    ///
    /// # Errors
    /// [`engine::Error::Corruption`]; the storage's.
    fn check(&self) -> Result<()>;
}
