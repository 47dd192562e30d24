//! A device that shows another one and changes nothing of it: writes stay in memory.
//!
//! It serves tools that look at a store without touching it: opening a store cleans up and begins
//! new files, and here it does so for itself alone. Reads of unchanged files go to the device
//! beneath, by its own files and queues.
//!
//! 1. A lookup of a name searches the changed ones, in a device in memory, and then the device
//!    beneath, unless the name or a directory above it was removed.
//! 2. A file that is opened to be written is copied to memory. One that is larger than
//!    [`COPIED_BYTES_MAX`], or is opened by blocks, is not: only the blocks that are written to are
//!    (`patched.rs`). Such a file keeps its name, and queues serve it by its blocking calls.
//!
//! # Concurrency
//! One lock guards the set of removed names; it is held over each change of names.

mod patched;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sync::locks::RwLock;

use crate::Device;
use crate::accounting::Accounting;
use crate::error::{Error, Operation, Result};
use crate::file::{Entry, File, Mode, Space};
use crate::memory::memory;
use crate::name::{check_below_root, check_name, join, split};
use crate::queue::Queue;

use patched::{Changes, PatchedFile};

/// The largest file that is copied when it is opened to be written.
const COPIED_BYTES_MAX: u64 = 1 << 20;

/// A device that shows `base` and keeps all changes in memory, for as long as it lives.
///
/// ```
/// use thermocline_device::{Device, File, Mode};
/// let base = thermocline_device::memory();
/// base.open("log", Mode::CreateNew)?.write_at(0, b"old")?;
///
/// let shown = thermocline_device::overlay(base.clone());
/// shown.open("log", Mode::Write)?.write_at(0, b"new")?;
/// shown.remove("log")?;
/// assert!(!shown.exists("log")?);
///
/// let mut bytes = [0; 3];
/// base.open("log", Mode::Read)?.read_at(0, &mut bytes)?;
/// assert_eq!(&bytes, b"old");
/// # Ok::<(), thermocline_device::Error>(())
/// ```
pub fn overlay(base: Arc<dyn Device>) -> Arc<dyn Device> {
    let (changed, gone, patched, root) = (memory(), Arc::default(), Arc::default(), String::new());
    let (base_here, changed_here) = (Some(Arc::clone(&base)), Arc::clone(&changed));
    Arc::new(Overlay { base, base_here, changed, changed_here, gone, patched, root })
}

#[derive(Debug)]
struct Overlay {
    base: Arc<dyn Device>,
    /// The directory whose names these are, if `base` has it: files are called by their names in
    /// it.
    base_here: Option<Arc<dyn Device>>,
    /// Files and directories that differ from `base`, by full names.
    changed: Arc<dyn Device>,
    /// The same directory among these.
    changed_here: Arc<dyn Device>,
    /// Full names of files and directories of `base` that are not shown, nor anything in them.
    gone: Arc<RwLock<BTreeSet<String>>>,
    /// Files of `base` of which some blocks are others, by full names.
    patched: Arc<Patched>,
    /// The full name of the directory.
    root: String,
}

/// The removed names.
type Gone = BTreeSet<String>;
/// Locked after them.
type Patched = RwLock<BTreeMap<String, Arc<Changes>>>;

impl Overlay {
    /// The full name of `name`, which may be this device's root.
    fn full(&self, name: &str) -> Result<String> {
        check_name(name)?;
        Ok(if name.is_empty() { self.root.clone() } else { join(&self.root, name) })
    }

    /// The full name of `name`, which may not.
    fn below(&self, name: &str) -> Result<String> {
        check_below_root(name)?;
        Ok(join(&self.root, name))
    }

    /// Whether `base` has the name, and it is shown.
    fn is_beneath(&self, gone: &Gone, full: &str) -> Result<bool> {
        let above = full.match_indices('/').map(|(end, _)| &full[..end]);
        let hidden = above.chain([full]).any(|name| gone.contains(name));
        Ok(!hidden && self.base.exists(full)?)
    }

    fn exists_in(&self, gone: &Gone, full: &str) -> Result<bool> {
        Ok(self.changed.exists(full)? || self.is_beneath(gone, full)?)
    }

    /// Whether that is a directory of `base`.
    fn is_dir_beneath(&self, gone: &Gone, full: &str) -> Result<bool> {
        Ok(self.is_beneath(gone, full)? && self.base.list(full).is_ok())
    }

    /// Makes the directory that contains `full`, among the changed ones.
    fn make_room(&self, gone: &Gone, full: &str) -> Result<()> {
        let (dir, _) = split(full);
        if dir.is_empty() || !self.is_beneath(gone, dir)? {
            return Ok(());
        }
        self.changed.create_dir(dir)
    }

    /// Has a file of `base` among the changed ones, if it is small enough.
    fn copy(&self, gone: &Gone, full: &str) -> Result<bool> {
        let file = self.base.open(full, Mode::Read)?;
        let len = file.len()?;
        if len > COPIED_BYTES_MAX || self.patched.read().contains_key(full) {
            return Ok(false);
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(0, &mut bytes)?;
        self.make_room(gone, full)?;
        self.changed.open(full, Mode::CreateNew)?.write_at(0, &bytes)?;
        Ok(true)
    }

    fn open_by(&self, name: &str, mode: Mode, by_blocks: bool) -> Result<Arc<dyn File>> {
        let open = |device: &dyn Device, mode: Mode| {
            if by_blocks { device.open_blocks(name, mode) } else { device.open(name, mode) }
        };
        let full = self.below(name)?;
        let gone = self.gone.write();
        let (base, changed) = (self.base_here.as_ref(), &*self.changed_here);
        if self.changed.exists(&full)? {
            return open(changed, mode);
        }
        match (if self.is_beneath(&gone, &full)? { base } else { None }, mode) {
            (Some(_), Mode::CreateNew) => Err(Error::AlreadyExists { name: name.to_owned() }),
            (Some(_), Mode::Write | Mode::Create) if !by_blocks && self.copy(&gone, &full)? => {
                open(changed, Mode::Write)
            }
            (Some(base), mode) => self.patch(open(&**base, Mode::Read)?, &full, mode),
            (None, Mode::Read | Mode::Write) => Err(Error::NotFound { name: name.to_owned() }),
            (None, Mode::Create | Mode::CreateNew) => {
                self.make_room(&gone, &full)?;
                open(changed, mode)
            }
        }
    }

    /// A file of `base` with its changed blocks, if there may be any.
    fn patch(&self, base: Arc<dyn File>, full: &str, mode: Mode) -> Result<Arc<dyn File>> {
        let known = self.patched.read().get(full).cloned();
        let changes = match (known, mode) {
            (Some(known), _) => known,
            (None, Mode::Read) => return Ok(base),
            (None, _) => {
                let none = Arc::new(Changes::none(base.len()?));
                let mut patched = self.patched.write();
                Arc::clone(patched.entry(full.to_owned()).or_insert(none))
            }
        };
        Ok(Arc::new(PatchedFile { base, changes, mode }))
    }

    /// Refuses an operation that cannot be done without changing `base`.
    fn refused<T>(name: &str) -> Result<T> {
        let code = rustix::io::Errno::ROFS.raw_os_error();
        Err(Error::Io { operation: Operation::Metadata, name: name.to_owned(), code })
    }
}

impl Device for Overlay {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        self.open_by(name, mode, false)
    }

    fn open_blocks(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        self.open_by(name, mode, true)
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        // It serves files that are not its own by their blocking calls.
        self.base.queue(depth)
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        let full = self.full(name)?;
        let gone = self.gone.write();
        if full.is_empty() || self.is_beneath(&gone, &full)? {
            return Ok(());
        }
        self.changed.create_dir(&full)
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        let full = self.full(dir)?;
        let gone = self.gone.read();
        let is_changed = full.is_empty() || self.changed.exists(&full)?;
        let is_beneath = full.is_empty() || self.is_beneath(&gone, &full)?;
        if !is_changed && !is_beneath {
            return Err(Error::NotFound { name: dir.to_owned() });
        }
        let mut entries = if is_changed { self.changed.list(&full)? } else { Vec::new() };
        if is_beneath {
            let shown = |entry: &Entry| !gone.contains(&join(&full, &entry.name));
            entries.extend(self.base.list(&full)?.into_iter().filter(shown));
        }
        entries.sort();
        entries.dedup_by(|one, other| one.name == other.name);
        Ok(entries)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        let full = self.full(name)?;
        if full.is_empty() {
            return Ok(true);
        }
        self.exists_in(&self.gone.read(), &full)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (self.below(from)?, self.below(to)?);
        let mut gone = self.gone.write();
        let is_beneath = self.is_beneath(&gone, &old)?;
        if self.is_dir_beneath(&gone, &old)? {
            return Self::refused(from);
        }
        if !self.changed.exists(&old)? {
            if !is_beneath {
                return Err(Error::NotFound { name: from.to_owned() });
            }
            if !self.copy(&gone, &old)? {
                return Self::refused(from);
            }
        }
        self.make_room(&gone, &new)?;
        self.changed.rename(&old, &new)?;
        if is_beneath {
            gone.insert(old);
        }
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (self.below(from)?, self.below(to)?);
        let gone = self.gone.write();
        if self.exists_in(&gone, &new)? {
            return Err(Error::AlreadyExists { name: to.to_owned() });
        }
        if !self.changed.exists(&old)? {
            if !self.is_beneath(&gone, &old)? {
                return Err(Error::NotFound { name: from.to_owned() });
            }
            if !self.copy(&gone, &old)? {
                return Self::refused(from);
            }
        }
        self.make_room(&gone, &new)?;
        self.changed.link(&old, &new)
    }

    fn remove(&self, name: &str) -> Result<()> {
        let full = self.below(name)?;
        let mut gone = self.gone.write();
        let is_beneath = self.is_beneath(&gone, &full)?;
        if self.is_dir_beneath(&gone, &full)? {
            return Self::refused(name);
        }
        if self.changed.exists(&full)? {
            self.changed.remove(&full)?;
        } else if !is_beneath {
            return Err(Error::NotFound { name: name.to_owned() });
        }
        if is_beneath {
            gone.insert(full);
        }
        Ok(())
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        let full = self.below(name)?;
        let mut gone = self.gone.write();
        self.changed.remove_dir(&full)?;
        if self.is_beneath(&gone, &full)? {
            gone.insert(full);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        let full = self.full(dir)?;
        if full.is_empty() || self.exists_in(&self.gone.read(), &full)? {
            return Ok(());
        }
        Err(Error::NotFound { name: dir.to_owned() })
    }

    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        let full = self.below(name)?;
        self.make_room(&self.gone.read(), &full)?;
        // A lock of this view alone: it excludes no user of the device beneath.
        self.changed.lock(&full)
    }

    fn space(&self) -> Result<Space> {
        self.base.space()
    }

    fn accounting(&self) -> &Accounting {
        self.base.accounting()
    }

    fn kind(&self) -> &'static str {
        self.base.kind()
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        self.create_dir(dir)?;
        let root = self.full(dir)?;
        let is_beneath = self.is_beneath(&self.gone.read(), &root)?;
        Ok(Arc::new(Self {
            base: Arc::clone(&self.base),
            base_here: is_beneath.then(|| self.base.subdevice(&root)).transpose()?,
            changed: Arc::clone(&self.changed),
            changed_here: self.changed.subdevice(&root)?,
            gone: Arc::clone(&self.gone),
            patched: Arc::clone(&self.patched),
            root,
        }))
    }
}
