//! An open file of the operating system, by positional calls.
//!
//! A transfer that comes back short is continued until it is whole. One that makes no progress at
//! all is the end of the file (reading) or an error (writing).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{self, FallocateFlags, FlockOperation};
use rustix::io::Errno;

use crate::accounting::Accounting;
use crate::error::{Error, Operation, Result};
use crate::file::{File, SyncKind};

use super::errors::explain;

/// How many zeros are written at a time where the file system cannot punch or reserve.
const ZERO_BYTES: usize = 1 << 16;

/// A descriptor and what is needed to report on it.
#[derive(Debug)]
pub(super) struct SystemFile {
    fd: OwnedFd,
    name: String,
    accounting: Arc<Accounting>,
}

impl SystemFile {
    pub(super) fn new(fd: OwnedFd, name: &str, accounting: Arc<Accounting>) -> Self {
        Self { fd, name: name.to_owned(), accounting }
    }

    pub(super) fn flock(&self, operation: FlockOperation) -> rustix::io::Result<()> {
        fs::flock(&self.fd, operation)
    }

    fn failed(&self, operation: Operation) -> impl Fn(Errno) -> Error + '_ {
        move |errno| explain(operation, &self.name, errno)
    }

    /// Writes zeros from `from` to `to`.
    fn write_zeros(&self, from: u64, to: u64) -> Result<()> {
        let zeros = [0; ZERO_BYTES];
        let mut at = from;
        while at < to {
            let len = usize::try_from(to - at).map_or(ZERO_BYTES, |len| len.min(ZERO_BYTES));
            self.write_at(at, &zeros[..len])?;
            at += len as u64;
        }
        Ok(())
    }
}

impl File for SystemFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.accounting.read(into.len());
        let end = offset.saturating_add(into.len() as u64);
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            match rustix::io::pread(&self.fd, &mut *rest, at) {
                Ok(0) => return Err(Error::UnexpectedEnd { name: self.name.clone(), end }),
                Ok(got) => {
                    rest = &mut rest[got..];
                    at += got as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(explain(Operation::Read, &self.name, errno)),
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.accounting.wrote(bytes.len());
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            match rustix::io::pwrite(&self.fd, rest, at) {
                Ok(0) => return Err(explain(Operation::Write, &self.name, Errno::IO)),
                Ok(put) => {
                    rest = &rest[put..];
                    at += put as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(explain(Operation::Write, &self.name, errno)),
            }
        }
        Ok(())
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        self.accounting.synced();
        let outcome = match kind {
            SyncKind::Data => fs::fdatasync(&self.fd),
            SyncKind::All => fs::fsync(&self.fd),
        };
        outcome.map_err(self.failed(Operation::Sync))
    }

    fn len(&self) -> Result<u64> {
        let stat = fs::fstat(&self.fd).map_err(self.failed(Operation::Metadata))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        fs::ftruncate(&self.fd, len).map_err(self.failed(Operation::Write))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        match fs::fallocate(&self.fd, FallocateFlags::empty(), offset, len) {
            Err(Errno::OPNOTSUPP) => {
                let old = self.len()?;
                self.write_zeros(old, offset.saturating_add(len))
            }
            outcome => outcome.map_err(self.failed(Operation::Write)),
        }
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fs::fallocate(&self.fd, flags, offset, len) {
            Err(Errno::OPNOTSUPP) => {
                let end = self.len()?.min(offset.saturating_add(len));
                self.write_zeros(offset, end)
            }
            outcome => outcome.map_err(self.failed(Operation::Write)),
        }
    }

    fn alignment(&self) -> usize {
        1
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}
