//! A file that writes down the operations that succeed on it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::error::Result;
use crate::file::{File, SyncKind};

use super::recording::{Log, Recorded};

#[derive(Debug)]
pub(super) struct RecordedFile {
    pub(super) inner: Arc<dyn File>,
    pub(super) log: Arc<Log>,
    /// The number of the file in the recording.
    pub(super) number: u64,
}

impl Drop for RecordedFile {
    fn drop(&mut self) {
        self.log.push(Recorded::Close { file: self.number });
    }
}

impl File for RecordedFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read_at(offset, into)?;
        self.log.push(Recorded::Read { file: self.number, offset, len: into.len() });
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.inner.write_at(offset, bytes)?;
        self.log.push(Recorded::Write { file: self.number, offset, bytes: bytes.into() });
        Ok(())
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        self.inner.sync(kind)?;
        self.log.push(Recorded::Sync { file: self.number, kind });
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)?;
        self.log.push(Recorded::SetLen { file: self.number, len });
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.allocate(offset, len)?;
        self.log.push(Recorded::Allocate { file: self.number, offset, len });
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.punch(offset, len)?;
        self.log.push(Recorded::Punch { file: self.number, offset, len });
        Ok(())
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
