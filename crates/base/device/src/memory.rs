//! A device that keeps everything in the process's memory.
//!
//! Nothing outlives the process, so syncs only count. It behaves towards names, ends of files and
//! locks as the operating system's file systems do; the shared suite holds it to that.
//!
//! # Concurrency
//! One lock guards the names, one lock per file its bytes. A file's lock is never held while the
//! names' lock is taken.

mod file;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sync::locks::RwLock;

use crate::Device;
use crate::accounting::Accounting;
use crate::blocking_queue::BlockingQueue;
use crate::error::{Error, Result};
use crate::file::{Entry, File, Mode, Space};
use crate::file_names::FileNames;
use crate::name::{check_below_root, check_name, join};
use crate::queue::Queue;

use file::{MemoryFile, Node};

/// Bytes of room that a memory device reports: it does not know how much memory there really is.
const SPACE_BYTES: u64 = 1 << 40;

/// Returns a new, empty device in memory. Clones of the `Arc` share it; it is freed with the last
/// of them.
///
/// ```
/// use thermocline_device::{Device, File, Mode};
/// let device = thermocline_device::memory();
/// let file = device.open("greeting", Mode::CreateNew)?;
/// file.write_at(0, b"hello")?;
/// let mut back = [0; 5];
/// file.read_at(0, &mut back)?;
/// assert_eq!(&back, b"hello");
/// # Ok::<(), thermocline_device::Error>(())
/// ```
pub fn memory() -> Arc<dyn Device> {
    let names = Arc::new(RwLock::new(FileNames::default()));
    Arc::new(MemoryDevice { names, root: String::new(), accounting: Arc::default() })
}

/// Names of files and directories, seen from one directory.
#[derive(Debug)]
struct MemoryDevice {
    names: Arc<RwLock<FileNames<Node>>>,
    root: String,
    accounting: Arc<Accounting>,
}

impl MemoryDevice {
    /// The full name of `name`, which may be this device's root.
    fn full(&self, name: &str) -> Result<String> {
        check_name(name)?;
        Ok(if name.is_empty() { self.root.clone() } else { join(&self.root, name) })
    }

    /// The file of this name, which is made if `mode` says so.
    fn node(&self, name: &str, mode: Mode) -> Result<Arc<Node>> {
        let full = self.below(name)?;
        let mut names = self.names.write();
        if let Some(node) = names.find(&full, name, mode)? {
            return Ok(node);
        }
        let node = Arc::new(Node::default());
        names.set(&full, Arc::clone(&node));
        Ok(node)
    }

    /// The full name of `name`, which may not.
    fn below(&self, name: &str) -> Result<String> {
        check_below_root(name)?;
        Ok(join(&self.root, name))
    }
}

fn not_found(name: &str) -> Error {
    Error::NotFound { name: name.to_owned() }
}

impl Device for MemoryDevice {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        let node = self.node(name, mode)?;
        Ok(Arc::new(MemoryFile::new(node, name, mode, self.accounting.clone())))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(BlockingQueue::new(depth)))
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        self.names.write().create_dir(&self.full(name)?, name)
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        self.names.read().list(&self.full(dir)?, dir)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.names.read().exists(&self.full(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (self.below(from)?, self.below(to)?);
        self.names.write().rename((&old, from), (&new, to)).map(drop)
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        let (old, new) = (self.below(from)?, self.below(to)?);
        self.names.write().link((&old, from), (&new, to)).map(drop)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.names.write().remove(&self.below(name)?, name).map(drop)
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        self.names.write().remove_dir(&self.below(name)?, name).map(drop)
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        let full = self.full(dir)?;
        if !self.names.read().is_dir(&full) {
            return Err(not_found(dir));
        }
        self.accounting.synced();
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        let node = self.node(name, Mode::Create)?;
        match MemoryFile::locked(node, name, self.accounting.clone()) {
            Some(file) => Ok(Arc::new(file)),
            None => Err(Error::Locked { name: name.to_owned() }),
        }
    }

    fn space(&self) -> Result<Space> {
        let used: u64 = self.names.read().files().map(|(_, node)| node.len()).sum();
        Ok(Space { total: SPACE_BYTES, free: SPACE_BYTES.saturating_sub(used) })
    }

    fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    fn kind(&self) -> &'static str {
        "memory"
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        self.create_dir(dir)?;
        Ok(Arc::new(Self {
            names: self.names.clone(),
            root: self.full(dir)?,
            accounting: self.accounting.clone(),
        }))
    }
}
