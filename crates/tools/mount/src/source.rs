//! The directories that are mounted: which are spaces, and how they are made, named and removed.
//!
//! A directory with a superblock is a space. Making a space begins with a hidden name, and removing
//! one ends with such a name, so that a crash leaves no half of one. The next mount removes all
//! that is left under such a name (M3).

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use device::Device;
use flexspace::space::{FlexSpace, Options as SpaceOptions, SUPERBLOCK};
use rustix::fs::{self, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::refusal::{Outcome, Refusal};
/// How names begin that are not shown.
const HIDDEN: &str = ".thermocline-";
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The longest name, as in most file systems.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// The mounted directory, or the directory of the one mounted space.
#[derive(Debug)]
pub(crate) struct Source {
    /// The directory whose directories are spaces.
    root: PathBuf,
    /// The only one of them that is shown, if one space was mounted.
    only: Option<OsString>,
    segment_bytes: u32,
    hidden_count: AtomicU64,
    /// Held while it is mounted: no other process makes or removes spaces here.
    _lock: Option<OwnedFd>,
}

impl Source {
    /// Returns a space, or a directory of spaces.
    ///
    /// # Errors
    /// The system's; `EWOULDBLOCK` if the directory is mounted already.
    pub(crate) fn new(path: &Path, segment_bytes: u32) -> Result<Self, Errno> {
        let path = path.canonicalize().map_err(|error| number_of(&error))?;
        let hidden_count = AtomicU64::new(0);
        if is_space(&path) {
            let name = path.file_name().ok_or(Errno::INVAL)?.to_owned();
            let root = path.parent().ok_or(Errno::INVAL)?.to_owned();
            let only = Some(name);
            return Ok(Self { root, only, segment_bytes, hidden_count, _lock: None });
        }
        let lock = fs::open(&path, DIRECTORY, Mode::empty())?;
        fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let _lock = Some(lock);
        Ok(Self { root: path, only: None, segment_bytes, hidden_count, _lock })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the directory of all that is shown.
    pub(crate) fn dir(&self) -> PathBuf {
        self.only.as_ref().map_or_else(|| self.root.clone(), |only| self.root.join(only))
    }

    /// Returns whether names can be given.
    pub(crate) fn is_one_space(&self) -> bool {
        self.only.is_some()
    }

    /// Returns the names of all spaces, in order.
    pub(crate) fn names(&self) -> Result<Vec<OsString>, Errno> {
        if let Some(name) = &self.only {
            return Ok(vec![name.clone()]);
        }
        let mut names = self.all_names()?;
        names.retain(|name| !is_hidden(name) && is_space(&self.root.join(name)));
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the directory of a space, if there is one of that name.
    pub(crate) fn find(&self, name: &OsStr) -> Option<PathBuf> {
        let is_shown = self.only.as_ref().is_none_or(|only| only == name) && !is_hidden(name);
        let dir = self.root.join(name);
        (is_shown && is_space(&dir)).then_some(dir)
    }

    /// Makes an empty space of a name that none has.
    pub(crate) fn create(&self, name: &OsStr) -> Outcome<(PathBuf, FlexSpace)> {
        self.check_new(name)?;
        let (hidden, dir) = (self.hidden(), self.root.join(name));
        std::fs::create_dir(&hidden).map_err(|error| number_of(&error))?;
        let options = SpaceOptions { segment_bytes: self.segment_bytes, ..SpaceOptions::default() };
        let made = device_of(&hidden)
            .and_then(|device| Ok(FlexSpace::create(device, options)?))
            .and_then(|space| {
                self.change_name(&hidden, &dir, RenameFlags::NOREPLACE)?;
                Ok(space)
            });
        match made {
            Ok(space) => Ok((dir, space)),
            Err(refusal) => {
                let _ = std::fs::remove_dir_all(&hidden);
                Err(refusal)
            }
        }
    }

    /// Gives a space another name. Returns its new directory, and the hidden directory of the space
    /// that had the name.
    pub(crate) fn rename(&self, dir: &Path, name: &OsStr) -> Outcome<(PathBuf, Option<PathBuf>)> {
        let to = self.root.join(name);
        if !is_space(&to) {
            self.check_new(name)?;
            self.change_name(dir, &to, RenameFlags::NOREPLACE)?;
            return Ok((to, None));
        }
        self.check_may_name()?;
        // There is a space of that name at any moment; after a crash in between, both are there.
        fs::renameat_with(CWD, dir, CWD, &to, RenameFlags::EXCHANGE)?;
        match self.hide(dir) {
            Ok(replaced) => Ok((to, Some(replaced))),
            Err(refusal) => {
                // A refused call leaves everything unchanged.
                fs::renameat_with(CWD, dir, CWD, &to, RenameFlags::EXCHANGE)?;
                Err(refusal)
            }
        }
    }

    /// Lets two spaces change names.
    pub(crate) fn exchange(&self, one: &Path, other: &Path) -> Outcome<()> {
        self.check_may_name()?;
        Ok(self.change_name(one, other, RenameFlags::EXCHANGE)?)
    }

    /// Takes a space's name away, and says where its directory is now.
    pub(crate) fn hide(&self, dir: &Path) -> Outcome<PathBuf> {
        self.check_may_name()?;
        let hidden = self.hidden();
        self.change_name(dir, &hidden, RenameFlags::NOREPLACE)?;
        Ok(hidden)
    }

    /// Changes a name, durably or not at all, as far as the system lets it be taken back.
    fn change_name(&self, from: &Path, to: &Path, flags: RenameFlags) -> Result<(), Errno> {
        fs::renameat_with(CWD, from, CWD, to, flags)?;
        self.sync_names().inspect_err(|_| {
            // The first failure is the one to report.
            let _ = fs::renameat_with(CWD, to, CWD, from, flags);
        })
    }

    /// Returns the bytes of the file system, free ones, and free ones for all users.
    pub(crate) fn room(&self) -> Result<[u64; 3], Errno> {
        let found = fs::statvfs(&self.root)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok([bytes(found.f_blocks), bytes(found.f_bfree), bytes(found.f_bavail)])
    }

    /// Makes names durable.
    pub(crate) fn sync_names(&self) -> Result<(), Errno> {
        fs::fsync(fs::open(&self.root, DIRECTORY, Mode::empty())?)
    }

    /// Refuses a name that no space can have.
    fn check_new(&self, name: &OsStr) -> Result<(), Errno> {
        self.check_may_name()?;
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        if is_hidden(name) {
            return Err(Errno::PERM);
        }
        Ok(())
    }

    /// A mount of one space has no other names.
    fn check_may_name(&self) -> Result<(), Errno> {
        if self.only.is_some() { Err(Errno::PERM) } else { Ok(()) }
    }

    fn hidden(&self) -> PathBuf {
        let number = self.hidden_count.fetch_add(1, Relaxed);
        let process = rustix::process::getpid();
        self.root.join(format!("{HIDDEN}{process}-{number}"))
    }

    /// Removes the rest of spaces that were being made or removed in a crash.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn remove_leftovers(&self) -> Result<(), Errno> {
        if self.only.is_some() {
            // Another process may be making spaces next to it.
            return Ok(());
        }
        for name in self.all_names()?.iter().filter(|name| is_given(name)) {
            let dir = self.root.join(name);
            if !has_only_files(&dir) {
                // No space has more.
                continue;
            }
            // A process that has it open still needs it.
            let device = device_of(&dir);
            if device.is_ok_and(|device| device.lock("lock").is_ok()) {
                std::fs::remove_dir_all(dir).map_err(|error| number_of(&error))?;
            }
        }
        Ok(())
    }

    fn all_names(&self) -> Result<Vec<OsString>, Errno> {
        let entries = std::fs::read_dir(&self.root).map_err(|error| number_of(&error))?;
        let names = entries.map(|entry| Ok(entry?.file_name()));
        names.collect::<std::io::Result<_>>().map_err(|error| number_of(&error))
    }
}

/// When a space's superblock was stored last: each opening stores it.
pub(crate) fn stored_at(dir: &Path) -> Result<SystemTime, Errno> {
    let about = std::fs::metadata(dir.join(SUPERBLOCK)).and_then(|about| about.modified());
    about.map_err(|error| number_of(&error))
}

/// Returns the device of a space's directory.
pub(crate) fn device_of(dir: &Path) -> Outcome<Arc<dyn Device>> {
    let device = device::open(dir, device::Options::default());
    device.map_err(|error| Refusal::Space(error.into()))
}

fn is_space(dir: &Path) -> bool {
    dir.join(SUPERBLOCK).is_file()
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(HIDDEN.as_bytes())
}

/// Returns whether a name has the form that [`Source::hidden`] gives; other hidden names are a
/// user's.
fn is_given(name: &OsStr) -> bool {
    let given = name.to_str().and_then(|name| name.strip_prefix(HIDDEN)?.split_once('-'));
    let is_number =
        |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    given.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Returns whether there is nothing but plain files in a directory.
fn has_only_files(dir: &Path) -> bool {
    let is_file = |entry: std::io::Result<std::fs::DirEntry>| {
        entry.and_then(|entry| entry.file_type()).is_ok_and(|kind| kind.is_file())
    };
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.all(is_file))
}

fn number_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
