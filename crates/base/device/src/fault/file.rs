//! A file whose operations fail when a test asks for it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::Device;
use crate::error::{Error, Result};
use crate::file::{File, SyncKind};

use super::plan::{Failure, OperationKind, Plan};

#[derive(Debug)]
pub(super) struct FaultFile {
    pub(super) inner: Arc<dyn File>,
    /// The device that has it.
    pub(super) device: Arc<dyn Device>,
    pub(super) plan: Arc<Plan>,
}

impl FaultFile {
    /// How much of a transfer of `len` bytes is done before its failure.
    fn done(&self, failure: Failure, len: usize) -> usize {
        let unit = self.inner.alignment();
        if failure == Failure::Short { len / 2 / unit * unit } else { 0 }
    }

    /// Reads as far as a failure lets it.
    pub(super) fn fail_read(
        &self,
        (failure, error): (Failure, Error),
        offset: u64,
        into: &mut [u8],
    ) -> Result<()> {
        let done = self.done(failure, into.len());
        if done > 0 {
            self.inner.read_at(offset, &mut into[..done])?;
        }
        Err(error)
    }

    /// Writes as far as a failure lets it.
    pub(super) fn fail_write(
        &self,
        (failure, error): (Failure, Error),
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let error = self.device.accounting().ended::<()>(Err(error));
        let done = self.done(failure, bytes.len());
        if done > 0 {
            self.inner.write_at(offset, &bytes[..done])?;
        }
        error
    }
}

impl File for FaultFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        match self.plan.strike(OperationKind::Read, self.name()) {
            Some(struck) => self.fail_read(struck, offset, into),
            None => self.inner.read_at(offset, into),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match self.plan.strike(OperationKind::Write, self.name()) {
            Some(struck) => self.fail_write(struck, offset, bytes),
            None => self.inner.write_at(offset, bytes),
        }
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        let struck = self.plan.check(OperationKind::Sync, self.name());
        self.device.accounting().ended(struck)?;
        self.inner.sync(kind)
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.plan.check(OperationKind::Resize, self.name())?;
        self.inner.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.plan.check(OperationKind::Resize, self.name())?;
        self.inner.allocate(offset, len)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.plan.check(OperationKind::Resize, self.name())?;
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
