//! The place of a journal's segments.
//!
//! The journal knows the content of segments, and the order in which something becomes durable; it
//! does not know their place. By this trait a log is replicated: a write, sync or naming of a
//! segment happens everywhere. (Nova-LSM's LogC keeps the log records of a range in the memory of
//! several machines, section 4.3.)

use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use device::{Device, File, Mode, join};

/// A place for the segments of one journal, by name: [`LocalSegments`], or another one that
/// [`crate::Journal::open_in`] is given.
///
/// The reader verifies all bytes that it reads; a store need not find damage. A store has to keep
/// these laws:
/// - content that a file's [`File::sync`] has covered outlives a crash, and so does a name that
///   [`SegmentStore::sync_names`] has covered;
/// - [`SegmentStore::rename`] is atomic: after a crash a file has either name;
/// - a failed write, sync or renaming is reported. Nothing more is written then.
pub trait SegmentStore: Send + Sync + Debug {
    /// Makes the place, durably, if it is not there.
    ///
    /// # Errors
    /// The storage's.
    fn prepare(&self) -> device::Result<()>;

    /// Returns whether it was made.
    ///
    /// # Errors
    /// The storage's.
    fn exists(&self) -> device::Result<bool>;

    /// Returns the names that are there, sorted, also such as are no segment's.
    ///
    /// # Errors
    /// The storage's.
    fn list(&self) -> device::Result<Vec<String>>;

    /// Opens a file.
    ///
    /// # Errors
    /// [`device::Error::NotFound`] if `mode` needs an existing file; the storage's.
    fn open(&self, name: &str, mode: Mode) -> device::Result<Arc<dyn File>>;

    /// Gives a file another name. Durable once the names are synced.
    ///
    /// # Errors
    /// The storage's.
    fn rename(&self, from: &str, to: &str) -> device::Result<()>;

    /// Removes a file. Durable once the names are synced.
    ///
    /// # Errors
    /// The storage's.
    fn remove(&self, name: &str) -> device::Result<()>;

    /// Makes names and removals durable.
    ///
    /// # Errors
    /// The storage's.
    fn sync_names(&self) -> device::Result<()>;

    /// Returns a file's name in reports and errors.
    fn place_of(&self, name: &str) -> String;
}

/// Segments in a directory of a device.
#[derive(Clone, Debug)]
pub struct LocalSegments<D> {
    device: D,
    dir: String,
}

impl<D> LocalSegments<D> {
    /// Those in the directory `dir` of `device`.
    pub fn new(device: D, dir: &str) -> Self {
        Self { device, dir: dir.to_owned() }
    }
}

impl<D> SegmentStore for LocalSegments<D>
where
    D: Deref + Send + Sync + Debug,
    D::Target: Device,
{
    fn prepare(&self) -> device::Result<()> {
        self.device.create_dir(&self.dir)?;
        let mut name = self.dir.as_str();
        while !name.is_empty() {
            name = name.rsplit_once('/').map_or("", |(parent, _)| parent);
            self.device.sync_dir(name)?;
        }
        Ok(())
    }

    fn exists(&self) -> device::Result<bool> {
        self.device.exists(&self.dir)
    }

    fn list(&self) -> device::Result<Vec<String>> {
        let entries = self.device.list(&self.dir)?;
        Ok(entries.into_iter().map(|entry| entry.name).collect())
    }

    fn open(&self, name: &str, mode: Mode) -> device::Result<Arc<dyn File>> {
        self.device.open(&self.place_of(name), mode)
    }

    fn rename(&self, from: &str, to: &str) -> device::Result<()> {
        self.device.rename(&self.place_of(from), &self.place_of(to))
    }

    fn remove(&self, name: &str) -> device::Result<()> {
        self.device.remove(&self.place_of(name))
    }

    fn sync_names(&self) -> device::Result<()> {
        self.device.sync_dir(&self.dir)
    }

    fn place_of(&self, name: &str) -> String {
        join(&self.dir, name)
    }
}
