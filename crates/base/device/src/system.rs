//! The device on the operating system's file systems.
//!
//! One kind of file and one set of names serve all of its ways of moving bytes: positional calls
//! or io_uring, through the page cache or past it.

mod direct;
mod errors;
mod file;
mod named;
mod names;
mod queue;
mod root;
#[cfg(test)]
mod tests;
mod uring;

use std::path::Path;
use std::sync::Arc;

use rustix::fs::{self, FlockOperation, OFlags};

use crate::Device;
use crate::accounting::Accounting;
use crate::blocking_queue::BlockingQueue;
use crate::error::{Error, Operation, Result};
use crate::file::{Entry, File, Mode, Space};
use crate::name::{check_below_root, check_name};
use crate::queue::Queue;

use errors::explain;
use file::SystemFile;
use queue::SystemQueue;
use root::Root;

/// How bytes move between the process and the storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// Through the operating system's page cache: idle memory serves as a cache, and a write may
    /// begin and end anywhere.
    #[default]
    Buffered,
    /// Past the page cache (`O_DIRECT`): reads and writes go to the storage unchanged, in multiples
    /// of `File::alignment`. If the file system refuses it, the page cache is used after all, and
    /// [`Device::kind`] says so.
    Direct,
    /// Past the page cache for files that were opened with [`Device::open_blocks`], through it for
    /// all others. So an engine with a cache of its own and files of whole blocks shares a device
    /// with files that are small or end anywhere.
    DirectBlocks,
}

/// How a device is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Through the page cache or past it. Default: through it.
    pub io: Io,
    /// Whether queues use io_uring if the kernel allows it. Default: they do. Without it, and if it
    /// is refused, a queue does requests one by one by positional calls; turn it off to compare the
    /// two, or if io_uring is not trusted.
    pub uring: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { io: Io::default(), uring: true }
    }
}

/// Opens the directory at `path` (made, with those above it and with durable names, if missing) as
/// a device.
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
    let alignment = match options.io {
        Io::Buffered => None,
        Io::Direct | Io::DirectBlocks => direct::alignment(&root)?,
    };
    let uring = options.uring && uring::is_available();
    let io = options.io;
    Ok(Arc::new(SystemDevice { root, alignment, io, uring, accounting: Arc::default() }))
}

/// Makes the name of the directory at `path` durable. It need not be durable if another process has
/// made the directory, or one that was killed; [`open`] does so with directories that it makes.
/// Costs a sync of the directory above it.
///
/// # Errors
/// [`Error::Io`], [`Error::NotFound`].
pub fn sync_name(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    named::sync_name(path).map_err(|error| {
        let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
        explain(Operation::Sync, &path.display().to_string(), errno)
    })
}

fn lock_file(mut file: SystemFile, name: &str, how: FlockOperation) -> Result<Arc<dyn File>> {
    match file.flock(how) {
        Ok(()) => Ok(Arc::new(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked { name: name.to_owned() }),
        Err(errno) => Err(explain(Operation::Open, name, errno)),
    }
}

/// A directory of the operating system.
#[derive(Debug)]
struct SystemDevice {
    root: Root,
    /// The unit of direct I/O, if any files are opened for that.
    alignment: Option<usize>,
    io: Io,
    /// Whether queues are rings.
    uring: bool,
    accounting: Arc<Accounting>,
}

impl Device for SystemDevice {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        let alignment = self.alignment.filter(|_| self.io == Io::Direct);
        Ok(Arc::new(self.open_file(name, mode, alignment)?))
    }

    fn open_blocks(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        Ok(Arc::new(self.open_file(name, mode, self.alignment)?))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        if self.uring {
            Ok(Box::new(SystemQueue::new(depth)))
        } else {
            Ok(Box::new(BlockingQueue::new(depth)))
        }
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

    fn rename_synced(&self, from: &str, to: &str) -> Result<()> {
        check_below_root(from)?;
        check_below_root(to)?;
        self.accounting.synced();
        self.accounting.ended(names::rename_synced(&self.root, from, to))
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

    fn remove_empty_dir(&self, name: &str) -> Result<bool> {
        check_below_root(name)?;
        names::remove_empty_dir(&self.root, name)
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        check_name(dir)?;
        self.accounting.synced();
        self.accounting.ended(names::sync_dir(&self.root, dir))
    }

    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        let file = self.open_file(name, Mode::Create, None)?;
        lock_file(file, name, FlockOperation::NonBlockingLockExclusive)
    }

    fn lock_shared(&self, name: &str) -> Result<Arc<dyn File>> {
        // On storage that refuses writes the file may still be there.
        let file = match self.open_file(name, Mode::Read, None) {
            Err(Error::NotFound { .. }) => self.open_file(name, Mode::Create, None),
            opened => opened,
        };
        lock_file(file?, name, FlockOperation::NonBlockingLockShared)
    }

    fn space(&self) -> Result<Space> {
        self.root.space()
    }

    fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    fn kind(&self) -> &'static str {
        match (self.uring, self.alignment.map(|_| self.io)) {
            (true, Some(Io::DirectBlocks)) => "io_uring direct for blocks",
            (true, Some(_)) => "io_uring direct",
            (true, None) => "io_uring buffered",
            (false, Some(Io::DirectBlocks)) => "direct for blocks",
            (false, Some(_)) => "direct",
            (false, None) => "buffered",
        }
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        self.create_dir(dir)?;
        let (root, accounting) = (self.root.below(dir), self.accounting.clone());
        let (alignment, io, uring) = (self.alignment, self.io, self.uring);
        Ok(Arc::new(Self { root, alignment, io, uring, accounting }))
    }
}

impl SystemDevice {
    /// `alignment`: the unit of direct I/O, if that is how the file is opened.
    fn open_file(&self, name: &str, mode: Mode, alignment: Option<usize>) -> Result<SystemFile> {
        check_below_root(name)?;
        let flags = match mode {
            // Otherwise the opening of a pipe waits for a process that writes to the pipe.
            Mode::Read => OFlags::RDONLY | OFlags::NONBLOCK,
            Mode::Write => OFlags::RDWR,
            Mode::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            Mode::Create => OFlags::RDWR | OFlags::CREATE,
        };
        let direct = if alignment.is_some() { OFlags::DIRECT } else { OFlags::empty() };
        let fd = self.root.open_file(name, flags | direct)?;
        if mode == Mode::Read {
            fs::fcntl_setfl(&fd, direct).map_err(|errno| explain(Operation::Open, name, errno))?;
        }
        let alignment = alignment.unwrap_or(1);
        Ok(SystemFile::new(fd, name, alignment, self.accounting.clone()))
    }
}
