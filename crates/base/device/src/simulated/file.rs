//! A handle on a file of the simulated disk.

use std::sync::Arc;

use rustix::io::Errno;
use sync::locks::Mutex;

use crate::accounting::Accounting;
use crate::error::{Error, Operation, Result};
use crate::file::{File, Mode, SyncKind};

use super::disk::Disk;
use super::event::Inode;
use super::latency::take_time;
use super::resolve::failed;

#[derive(Debug)]
pub(super) struct SimulatedFile {
    pub(super) disk: Arc<Mutex<Disk>>,
    pub(super) node: Inode,
    name: String,
    accounting: Arc<Accounting>,
    alignment: usize,
    writable: bool,
    holds_lock: bool,
}

impl SimulatedFile {
    /// Makes a handle; the caller holds the disk's lock and passes its content.
    pub(super) fn new(
        (disk, locked): (Arc<Mutex<Disk>>, &mut Disk),
        (node, name): (Inode, &str),
        mode: Mode,
        alignment: usize,
        accounting: Arc<Accounting>,
    ) -> Self {
        *locked.open.entry(node).or_default() += 1;
        let (name, writable) = (name.to_owned(), mode != Mode::Read);
        Self { disk, node, name, accounting, alignment, writable, holds_lock: false }
    }

    /// The same handle, holding the file's lock.
    pub(super) fn holding_lock(mut self) -> Self {
        self.holds_lock = true;
        self
    }

    /// Inode and name, as the disk's calls take them.
    pub(super) fn id(&self) -> (Inode, &str) {
        (self.node, &self.name)
    }

    fn check_writable(&self) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(failed(Operation::Write, &self.name, Errno::BADF))
    }

    /// Makes the changes before `until` durable.
    pub(super) fn sync_until(&self, kind: SyncKind, until: u64) -> Result<()> {
        take_time(&self.disk, Operation::Sync);
        self.accounting.synced();
        self.accounting.ended(self.disk.lock().sync(self.id(), kind, until))
    }
}

impl Drop for SimulatedFile {
    fn drop(&mut self) {
        let mut disk = self.disk.lock();
        if self.holds_lock {
            disk.locks.remove(&self.node);
        }
        if let Some(handles) = disk.open.get_mut(&self.node) {
            *handles -= 1;
            if *handles == 0 {
                disk.open.remove(&self.node);
            }
        }
    }
}

impl File for SimulatedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        take_time(&self.disk, Operation::Read);
        self.accounting.read(into.len());
        self.disk.lock().read(self.id(), offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let unit = self.alignment as u64;
        if !offset.is_multiple_of(unit) || !(bytes.len() as u64).is_multiple_of(unit) {
            let (name, len, alignment) = (self.name.clone(), bytes.len(), self.alignment);
            return Err(Error::Unaligned { name, offset, len, alignment });
        }
        take_time(&self.disk, Operation::Write);
        self.accounting.wrote(bytes.len());
        self.check_writable()?;
        self.accounting.ended(self.disk.lock().write(self.id(), offset, bytes))
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        self.sync_until(kind, u64::MAX)
    }

    fn len(&self) -> Result<u64> {
        let disk = self.disk.lock();
        disk.alive(Operation::Metadata, &self.name)?;
        Ok(disk.state.file(self.node).map_or(0, |file| file.current.len()))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_writable()?;
        take_time(&self.disk, Operation::Metadata);
        self.disk.lock().set_len(self.id(), len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        take_time(&self.disk, Operation::Metadata);
        self.disk.lock().allocate(self.id(), offset, len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        take_time(&self.disk, Operation::Metadata);
        self.disk.lock().punch(self.id(), offset, len)
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn name(&self) -> &str {
        &self.name
    }
}
