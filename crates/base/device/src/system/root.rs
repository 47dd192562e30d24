//! Descriptors of files and directories beneath one directory, never outside it.
//!
//! Names are checked by their pattern before they come here, so none holds `..` or begins with a
//! slash. The remaining risk is symbolic links that someone planted in the directory:
//!
//! 1. `openat2` refuses them in the kernel, in one call.
//! 2. If the kernel has no `openat2` or a sandbox refuses it, the name is walked part by part and
//!    each part is opened with `O_NOFOLLOW`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{Error, Operation, Result};
use crate::file::Space;
use crate::limit::sparing;
use crate::name::{join, split};

use super::errors::explain;
use super::named;

/// Files are readable by their owner's group; only the owner writes.
const FILE_MODE: Mode = Mode::from_raw_mode(0o640);
/// The same for directories.
pub(super) const DIR_MODE: Mode = Mode::from_raw_mode(0o750);

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// A directory: an open one, or one below it that has no descriptor of its own, so that their
/// number in a process has no limit.
#[derive(Debug)]
pub(super) struct Root {
    fd: Arc<OwnedFd>,
    /// The directory's name below `fd`; empty if it is that one.
    prefix: String,
    /// Set once the kernel turned out to have no `openat2`.
    walks: Arc<AtomicBool>,
}

/// A directory beneath a root, or the root itself.
pub(super) enum Directory<'a> {
    Root(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Directory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(fd) => *fd,
            Self::Below(fd) => fd.as_fd(),
        }
    }
}

impl Root {
    /// Opens the directory at `path`, which is made if missing, with a durable name.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        named::make(path, &mut named::sync_name).map_err(|error| {
            match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
                Errno::EXIST if is_dangling(path) => Error::DanglingLink { name: name.clone() },
                errno => explain(Operation::Open, &name, errno),
            }
        })?;
        let fd = sparing(|| fs::open(path, DIRECTORY | OFlags::CLOEXEC, Mode::empty()))
            .map_err(|errno| explain(Operation::Open, &name, errno))?;
        Ok(Self { fd: Arc::new(fd), prefix: String::new(), walks: Arc::default() })
    }

    /// Returns the directory `dir` below this one as a root of its own, without opening it.
    pub(super) fn below(&self, dir: &str) -> Self {
        let prefix = if dir.is_empty() { self.prefix.clone() } else { join(&self.prefix, dir) };
        Self { fd: Arc::clone(&self.fd), prefix, walks: self.walks.clone() }
    }

    /// The file `name`.
    pub(super) fn open_file(&self, name: &str, flags: OFlags) -> Result<OwnedFd> {
        self.resolve(name, flags).map_err(|errno| explain(Operation::Open, name, errno))
    }

    /// A file in this directory that has no name and goes when it is closed.
    pub(super) fn open_unnamed(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        sparing(|| fs::openat(&*self.fd, ".", flags | OFlags::CLOEXEC, FILE_MODE))
    }

    /// The directory `dir`; errors name `dir`.
    pub(super) fn directory(&self, dir: &str, operation: Operation) -> Result<Directory<'_>> {
        self.directory_for(dir, dir, operation)
    }

    /// Returns the directory that contains `name`, and the last part of `name`; errors name
    /// `name`.
    pub(super) fn parent<'a>(
        &self,
        name: &'a str,
        operation: Operation,
    ) -> Result<(Directory<'_>, &'a str)> {
        let (dir, last) = split(name);
        Ok((self.directory_for(dir, name, operation)?, last))
    }

    fn directory_for(&self, dir: &str, name: &str, operation: Operation) -> Result<Directory<'_>> {
        if dir.is_empty() && self.prefix.is_empty() {
            return Ok(Directory::Root(self.fd.as_fd()));
        }
        let fd = self.resolve(dir, DIRECTORY).map_err(|errno| explain(operation, name, errno))?;
        Ok(Directory::Below(fd))
    }

    /// Opens `name`, or the directory itself if that is empty, following no symbolic link on the
    /// way.
    fn resolve(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let whole = match (self.prefix.as_str(), name) {
            ("", "") => ".".to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, name) => join(prefix, name),
        };
        sparing(|| self.resolve_once(&whole, flags | OFlags::CLOEXEC))
    }

    fn resolve_once(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        if self.walks.load(Relaxed) {
            return self.walk(name, flags);
        }
        let mode = if flags.contains(OFlags::CREATE) { FILE_MODE } else { Mode::empty() };
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match fs::openat2(&self.fd, name, flags, mode, beneath) {
            Err(Errno::NOSYS) => {
                self.walks.store(true, Relaxed);
                self.walk(name, flags)
            }
            // A sandbox that refuses the call, or a file that refuses to be opened: the walk finds
            // out which.
            Err(Errno::PERM) => self.walk(name, flags),
            outcome => outcome,
        }
    }

    fn walk(&self, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let (dirs, last) = split(name);
        let mut held: Option<OwnedFd> = None;
        for part in dirs.split('/').filter(|part| !part.is_empty()) {
            let from = held.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            let step = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            held = Some(not_a_link(fs::openat(from, part, step, Mode::empty()), from, part)?);
        }
        let from = held.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        not_a_link(fs::openat(from, last, flags | OFlags::NOFOLLOW, FILE_MODE), from, last)
    }

    /// Room on the file system.
    pub(super) fn space(&self) -> Result<Space> {
        let dir = self.directory("", Operation::Metadata)?;
        let stat = fs::fstatvfs(dir).map_err(|e| explain(Operation::Metadata, "", e))?;
        let unit = stat.f_frsize;
        Ok(Space {
            total: stat.f_blocks.saturating_mul(unit),
            free: stat.f_bavail.saturating_mul(unit),
        })
    }

    /// From now on as if the kernel had no `openat2`.
    #[cfg(test)]
    pub(super) fn without_openat2(self) -> Self {
        self.walks.store(true, Relaxed);
        self
    }
}

/// Returns the error of a symbolic link for a link that was opened as a directory without following
/// it: the kernel then says that it is no directory.
fn not_a_link(
    opened: rustix::io::Result<OwnedFd>,
    from: BorrowedFd<'_>,
    part: &str,
) -> rustix::io::Result<OwnedFd> {
    let is_link = || {
        fs::statat(from, part, fs::AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| fs::FileType::from_raw_mode(stat.st_mode).is_symlink())
    };
    match opened {
        Err(Errno::NOTDIR) if is_link() => Err(Errno::LOOP),
        opened => opened,
    }
}

/// Returns whether `path` is a symbolic link whose target does not exist.
fn is_dangling(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_symlink()) && !path.exists()
}

/// `errno` in a call about `name`.
pub(super) fn metadata_error(name: &str) -> impl Fn(Errno) -> Error + '_ {
    move |errno| explain(Operation::Metadata, name, errno)
}
