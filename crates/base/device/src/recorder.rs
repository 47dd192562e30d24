//! A device over another one that records its operations.
//!
//! The result is a value, a [`Recording`], that prints one line an operation and can be played
//! again on another device.
//!
//! ```
//! use thermocline_device::*;
//! let recorder = Recorder::new(memory());
//! let file = recorder.open("a", Mode::CreateNew)?;
//! file.write_at(2, b"bytes")?;
//! file.sync(SyncKind::Data)?;
//!
//! let recording = recorder.recording();
//! assert_eq!(
//!     recording.to_string(),
//!     "#1 = open a create-new\n#1 write at 2: 5 bytes, crc32c d06e9c92\n#1 sync data\n",
//! );
//! let copy = memory();
//! recording.replay(&*copy)?;
//! assert_eq!(copy.open("a", Mode::Read)?.len()?, 7);
//! # Ok::<(), Error>(())
//! ```

mod file;
mod queue;
mod recording;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::Device;
use crate::accounting::Accounting;
use crate::error::Result;
use crate::file::{Entry, File, Mode, Space};
use crate::name::join;
use crate::queue::Queue;

use file::RecordedFile;
use queue::RecordedQueue;
use recording::Log;

pub use recording::{Recorded, Recording};

/// A device that writes down the operations that succeed on another one. Operations that fail are
/// not written down.
#[derive(Debug)]
pub struct Recorder {
    inner: Arc<dyn Device>,
    log: Arc<Log>,
    /// The place of `inner` beneath the device that was wrapped.
    root: String,
}

impl Recorder {
    /// A wrapper of `inner` with nothing written down yet.
    pub fn new(inner: Arc<dyn Device>) -> Arc<Self> {
        Arc::new(Self { inner, log: Arc::default(), root: String::new() })
    }

    /// Returns the operations so far.
    pub fn recording(&self) -> Recording {
        self.log.recording()
    }

    /// `name` as the device that was wrapped knows it.
    fn full(&self, name: &str) -> String {
        match (self.root.is_empty(), name.is_empty()) {
            (true, _) => name.to_owned(),
            (false, true) => self.root.clone(),
            (false, false) => join(&self.root, name),
        }
    }
}

impl Device for Recorder {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        let inner = self.inner.open(name, mode)?;
        let number = self.log.open(self.full(name), mode);
        Ok(Arc::new(RecordedFile { inner, log: self.log.clone(), number }))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(RecordedQueue::new(self.inner.queue(depth)?, self.log.clone())))
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        self.inner.create_dir(name)?;
        self.log.push(Recorded::CreateDir { name: self.full(name) });
        Ok(())
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        self.inner.list(dir)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)?;
        self.log.push(Recorded::Rename { from: self.full(from), to: self.full(to) });
        Ok(())
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.inner.link(from, to)?;
        self.log.push(Recorded::Link { from: self.full(from), to: self.full(to) });
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)?;
        self.log.push(Recorded::Remove { name: self.full(name) });
        Ok(())
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        self.inner.remove_dir(name)?;
        self.log.push(Recorded::RemoveDir { name: self.full(name) });
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        self.inner.sync_dir(dir)?;
        self.log.push(Recorded::SyncDir { name: self.full(dir) });
        Ok(())
    }

    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        let inner = self.inner.lock(name)?;
        let number = self.log.open(self.full(name), Mode::Create);
        Ok(Arc::new(RecordedFile { inner, log: self.log.clone(), number }))
    }

    fn space(&self) -> Result<Space> {
        self.inner.space()
    }

    fn accounting(&self) -> &Accounting {
        self.inner.accounting()
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn subdevice(&self, dir: &str) -> Result<Arc<dyn Device>> {
        let (inner, root) = (self.inner.subdevice(dir)?, self.full(dir));
        self.log.push(Recorded::CreateDir { name: root.clone() });
        Ok(Arc::new(Self { inner, log: self.log.clone(), root }))
    }
}
