//! The device on the operating system's file systems.
//!
//! One kind of file and one set of names serve all of its ways of moving bytes: positional calls
//! or io_uring, through the page cache or past it.

mod errors;
mod file;
mod names;
mod root;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, OFlags};

use crate::Device;
use crate::accounting::Accounting;
use crate::blocking_queue::BlockingQueue;
use crate::error::{Error, Operation, Result};
use crate::file::{Entry, File, Mode, Space};
use crate::name::{check_below_root, check_name};
use crate::queue::Queue;

use errors::explain;
use file::SystemFile;
use root::Root;

/// How bytes move between the process and the storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// Through the operating system's page cache: memory that lies idle serves as a cache, and a
    /// write may begin and end anywhere.
    #[default]
    Buffered,
    /// Past the page cache (`O_DIRECT`): reads and writes are what the storage does, in multiples
    /// of [`File::alignment`]. Where the file system refuses it, the page cache is used after all,
    /// and [`Device::kind`] says so.
    Direct,
}

/// How a device is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Through the page cache or past it. Default: through it.
    pub io: Io,
}

/// Opens the directory at `path` (made, with those above it, if missing) as a device.
///
/// # Errors
/// [`Error::Io`] if it is no directory or must not be opened.
///
/// ```
/// use thermocline_device::{Device, File, Mode, Options, SyncKind};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// let device = thermocline_device::open(path, Options::default())?;
/// let file = device.open("log", Mode::CreateNew)?;
/// file.write_at(0, b"first")?;
/// file.sync(SyncKind::Data)?; // now the bytes survive a power cut,
/// device.sync_dir("")?; // and now the name does, too
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Arc<dyn Device>> {
    let root = Root::open(path.as_ref())?;
    Ok(Arc::new(SystemDevice { root, io: options.io, accounting: Arc::default() }))
}

/// A directory of the operating system.
#[derive(Debug)]
struct SystemDevice {
    root: Root,
    io: Io,
    accounting: Arc<Accounting>,
}

impl Device for SystemDevice {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        Ok(Arc::new(self.open_file(name, mode)?))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(BlockingQueue::new(depth)))
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        check_name(name)?;
        names::create_dir(&self.root, name)
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        check_name(dir)?;
        names::list(&self.root, dir)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        names::exists(&self.root, name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_below_root(from)?;
        check_below_root(to)?;
        names::rename(&self.root, from, to)
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        check_below_root(from)?;
        check_below_root(to)?;
        names::link(&self.root, from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_below_root(name)?;
        names::remove(&self.root, name)
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        check_below_root(name)?;
        names::remove_dir(&self.root, name)
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        check_name(dir)?;
        self.accounting.synced();
        names::sync_dir(&self.root, dir)
    }

    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        let file = self.open_file(name, Mode::Create)?;
        match file.flock(FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Arc::new(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked { name: name.to_owned() }),
            Err(errno) => Err(explain(Operation::Open, name, errno)),
        }
    }

    fn space(&self) -> Result<Space> {
        self.root.space()
    }

    fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    fn kind(&self) -> &'static str {
        "buffered"
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        self.create_dir(dir)?;
        let root = self.root.below(dir)?;
        Ok(Arc::new(Self { root, io: self.io, accounting: self.accounting.clone() }))
    }
}

impl SystemDevice {
    fn open_file(&self, name: &str, mode: Mode) -> Result<SystemFile> {
        check_below_root(name)?;
        let flags = match mode {
            Mode::Read => OFlags::RDONLY,
            Mode::Write => OFlags::RDWR,
            Mode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            Mode::Create => OFlags::RDWR | OFlags::CREATE,
        };
        let fd = self.root.open_file(name, flags)?;
        Ok(SystemFile::new(fd, name, self.accounting.clone()))
    }
}
