//! A device that does not do all that the engine asks of it, as if the engine had not asked.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use device::{Accounting, Device, Entry, File, Mode, Queue, Result, Space, SyncKind};

use super::Flaw;

pub(super) fn flawed(inner: &Arc<dyn Device>, flaw: Flaw) -> Arc<dyn Device> {
    Arc::new(FlawedDisk { inner: Arc::clone(inner), flaw })
}

#[derive(Debug)]
struct FlawedDisk {
    inner: Arc<dyn Device>,
    flaw: Flaw,
}

#[derive(Debug)]
struct FlawedFile {
    inner: Arc<dyn File>,
    flaw: Flaw,
}

impl FlawedDisk {
    fn wrap(&self, inner: Arc<dyn File>) -> Arc<dyn File> {
        Arc::new(FlawedFile { inner, flaw: self.flaw })
    }

    fn remove_old_snapshots(&self) -> Result<()> {
        for entry in self.inner.list("")? {
            if entry.name.starts_with("snapshot-") {
                self.inner.remove(&entry.name)?;
            }
        }
        self.inner.sync_dir("")
    }
}

impl FlawedFile {
    fn skips_sync(&self) -> bool {
        match self.flaw {
            Flaw::SkipsSuperblockSync => self.name().starts_with("superblock"),
            Flaw::SkipsSnapshotSync => self.name().starts_with("snapshot-"),
            _ => false,
        }
    }
}

impl Device for FlawedDisk {
    fn open(&self, name: &str, mode: Mode) -> Result<Arc<dyn File>> {
        let begins_snapshot = mode == Mode::Create && name.starts_with("snapshot-");
        if self.flaw == Flaw::DeletesOldFirst && begins_snapshot {
            self.remove_old_snapshots()?;
        }
        Ok(self.wrap(self.inner.open(name, mode)?))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        self.inner.queue(depth)
    }

    fn create_dir(&self, name: &str) -> Result<()> {
        self.inner.create_dir(name)
    }

    fn list(&self, dir: &str) -> Result<Vec<Entry>> {
        self.inner.list(dir)
    }

    fn exists(&self, name: &str) -> Result<bool> {
        self.inner.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.inner.link(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.inner.remove(name) {
            Err(device::Error::NotFound { .. }) if self.flaw == Flaw::DeletesOldFirst => Ok(()),
            removed => removed,
        }
    }

    fn remove_dir(&self, name: &str) -> Result<()> {
        self.inner.remove_dir(name)
    }

    fn sync_dir(&self, dir: &str) -> Result<()> {
        if self.flaw == Flaw::SkipsDirectorySync { Ok(()) } else { self.inner.sync_dir(dir) }
    }

    fn lock(&self, name: &str) -> Result<Arc<dyn File>> {
        self.inner.lock(name)
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
        Ok(flawed(&self.inner.subdevice(dir)?, self.flaw))
    }
}

impl File for FlawedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        if self.skips_sync() {
            return Ok(());
        }
        match (self.inner.sync(kind), self.flaw) {
            (Err(_), Flaw::SwallowsFailedSync) => Ok(()),
            (Err(_), Flaw::RetriesFailedSync) => self.inner.sync(kind),
            (synced, _) => synced,
        }
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.allocate(offset, len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.punch(offset, len)
    }

    fn alignment(&self) -> usize {
        self.inner.alignment()
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }
}
