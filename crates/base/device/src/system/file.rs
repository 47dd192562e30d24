//! An open file of the operating system, by positional calls.
//!
//! A transfer that comes back short is continued until it is whole. One that makes no progress at
//! all is the end of the file (reading) or an error (writing).
//!
//! At a depth of one, a positional call is the fastest way to the storage, direct or not: io_uring
//! does the same work and adds its own. So files never use a ring; queues do.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{self, FallocateFlags, FlockOperation};
use rustix::io::Errno;

use crate::accounting::Accounting;
use crate::buffer::Buffer;
use crate::error::{Error, Operation, Result};
use crate::file::{File, SyncKind};
use crate::process::Process;

use super::direct::{fits, is_aligned, window};
use super::errors::explain;

/// Zeros that are written at a time if the file system cannot punch or reserve.
const ZERO_BYTES: usize = 1 << 16;

/// A descriptor and the data for reports on it.
#[derive(Debug)]
pub(super) struct SystemFile {
    fd: OwnedFd,
    name: String,
    alignment: usize,
    accounting: Arc<Accounting>,
    /// The process that has locked it.
    locked_by: Option<Process>,
}

impl SystemFile {
    /// `alignment` is 1 for a descriptor that goes through the page cache.
    pub(super) fn new(
        fd: OwnedFd,
        name: &str,
        alignment: usize,
        accounting: Arc<Accounting>,
    ) -> Self {
        Self { fd, name: name.to_owned(), alignment, accounting, locked_by: None }
    }

    /// Locks it, until this goes.
    pub(super) fn flock(&mut self, operation: FlockOperation) -> rustix::io::Result<()> {
        fs::flock(&self.fd, operation)?;
        self.locked_by = Some(Process::current());
        Ok(())
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn accounting(&self) -> &Accounting {
        &self.accounting
    }

    pub(super) fn failed(&self, operation: Operation) -> impl Fn(Errno) -> Error + '_ {
        move |errno| explain(operation, &self.name, errno)
    }

    pub(super) fn ends_before(&self, end: u64) -> Error {
        Error::UnexpectedEnd { name: self.name.clone(), end }
    }

    /// Refuses a write that a direct file cannot do.
    pub(super) fn check_write(&self, offset: u64, len: usize) -> Result<()> {
        if fits(self.alignment, offset, len) {
            return Ok(());
        }
        let (name, alignment) = (self.name.clone(), self.alignment);
        Err(Error::Unaligned { name, offset, len, alignment })
    }

    /// Reads from `offset` until at least `enough` bytes are there, or the file ends. Returns how
    /// many are.
    pub(super) fn read_some(&self, offset: u64, into: &mut [u8], enough: usize) -> Result<usize> {
        let mut done = 0;
        while done < enough {
            match rustix::io::pread(&self.fd, &mut into[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(got) => done += got,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(explain(Operation::Read, &self.name, errno)),
            }
            // Only its end can stop a direct read between two units; there is nothing after it,
            // and the kernel would refuse to read on from there.
            if !done.is_multiple_of(self.alignment) {
                break;
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes`, which are aligned.
    pub(super) fn write_whole(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(&self.fd, &bytes[done..], offset + done as u64) {
                Ok(0) => return Err(explain(Operation::Write, &self.name, Errno::IO)),
                Ok(put) => done += put,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(explain(Operation::Write, &self.name, errno)),
            }
        }
        Ok(())
    }

    /// Changes which parts of the file have room. A signal may interrupt it.
    fn fallocate(&self, flags: FallocateFlags, offset: u64, len: u64) -> rustix::io::Result<()> {
        loop {
            match fs::fallocate(&self.fd, flags, offset, len) {
                Err(Errno::INTR) => {}
                outcome => return outcome,
            }
        }
    }

    /// Writes zeros from `from` to `to`.
    fn write_zeros(&self, from: u64, to: u64) -> Result<()> {
        let zeros = Buffer::zeroed(ZERO_BYTES);
        let mut at = from;
        while at < to {
            let len = usize::try_from(to - at).map_or(ZERO_BYTES, |len| len.min(ZERO_BYTES));
            self.write_at(at, &zeros[..len])?;
            at += len as u64;
        }
        Ok(())
    }
}

impl Drop for SystemFile {
    fn drop(&mut self) {
        // A child of a fork has the lock in common with its parent, and leaves it alone.
        if self.locked_by.is_some_and(Process::is_current) {
            // A child process that another thread has begun has a copy of the descriptor until it
            // executes its program, and meanwhile closing alone would not unlock. If the unlock
            // fails, closing still unlocks then.
            let _ = fs::flock(&self.fd, FlockOperation::Unlock);
        }
    }
}

impl File for SystemFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        if !is_aligned(self.alignment, offset, into) {
            self.accounting.read(window(self.alignment, offset, into.len()).1);
            return self.read_bounced(offset, into);
        }
        self.accounting.read(into.len());
        let wanted = into.len();
        if self.read_some(offset, into, wanted)? < wanted {
            return Err(self.ends_before(offset.saturating_add(wanted as u64)));
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_write(offset, bytes.len())?;
        self.accounting.wrote(bytes.len());
        self.accounting.ended(if is_aligned(self.alignment, offset, bytes) {
            self.write_whole(offset, bytes)
        } else {
            self.write_bounced(offset, bytes)
        })
    }

    fn sync(&self, kind: SyncKind) -> Result<()> {
        self.accounting.synced();
        let outcome = match kind {
            SyncKind::Data => fs::fdatasync(&self.fd),
            SyncKind::All => fs::fsync(&self.fd),
        };
        self.accounting.ended(outcome.map_err(self.failed(Operation::Sync)))
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
        match self.fallocate(FallocateFlags::empty(), offset, len) {
            // No room in this file, even if the file system has some.
            Err(Errno::FBIG) => Err(Error::NoSpace { name: self.name.clone() }),
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
        match self.fallocate(flags, offset, len) {
            Err(Errno::OPNOTSUPP) => {
                let end = self.len()?.min(offset.saturating_add(len));
                self.write_zeros(offset, end)
            }
            outcome => outcome.map_err(self.failed(Operation::Write)),
        }
    }

    fn alignment(&self) -> usize {
        self.alignment
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.fd.as_fd())
    }
}
