//! A file whose bytes are a vector.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sync::locks::RwLock;

use crate::accounting::Accounting;
use crate::error::{Error, Operation, Result};
use crate::file::{File, Mode, SyncKind};

/// The bytes behind a name. They live on while a name or a handle refers to them.
#[derive(Debug, Default)]
pub(super) struct Node {
    bytes: RwLock<Vec<u8>>,
    locked: AtomicBool,
}

impl Node {
    pub(super) fn len(&self) -> u64 {
        self.bytes.read().len() as u64
    }
}

/// A handle on a [`Node`].
#[derive(Debug)]
pub(super) struct MemoryFile {
    node: Arc<Node>,
    name: String,
    accounting: Arc<Accounting>,
    writable: bool,
    holds_lock: bool,
}

impl MemoryFile {
    pub(super) fn new(
        node: Arc<Node>,
        name: &str,
        mode: Mode,
        accounting: Arc<Accounting>,
    ) -> Self {
        let (name, writable) = (name.to_owned(), mode != Mode::Read);
        Self { node, name, accounting, writable, holds_lock: false }
    }

    /// A handle that holds the node's lock, unless another does.
    pub(super) fn locked(node: Arc<Node>, name: &str, accounting: Arc<Accounting>) -> Option<Self> {
        // Acquire pairs with the Release in `drop`: the new holder sees all that the last one did.
        node.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let mut file = Self::new(node, name, Mode::Create, accounting);
        file.holds_lock = true;
        Some(file)
    }

    /// Refuses a handle that was opened to read, as the operating system does.
    fn check_writable(&self) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        let code = rustix::io::Errno::BADF.raw_os_error();
        Err(Error::Io { operation: Operation::Write, name: self.name.clone(), code })
    }

    /// `offset + len` as an index, if memory could ever hold that much.
    fn end(&self, offset: u64, len: u64) -> Result<usize> {
        let end = offset.checked_add(len).filter(|&end| end <= super::SPACE_BYTES);
        match end.and_then(|end| usize::try_from(end).ok()) {
            Some(end) => Ok(end),
            None => Err(Error::NoSpace { name: self.name.clone() }),
        }
    }

    /// Grows `bytes` to `len`, or says that memory is short.
    fn grow(&self, bytes: &mut Vec<u8>, len: usize) -> Result<()> {
        if let Some(more) = len.checked_sub(bytes.len()) {
            bytes.try_reserve(more).map_err(|_| Error::NoSpace { name: self.name.clone() })?;
            bytes.resize(len, 0);
        }
        Ok(())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if self.holds_lock {
            self.node.locked.store(false, Ordering::Release);
        }
    }
}

impl File for MemoryFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.accounting.read(into.len());
        let end = offset.saturating_add(into.len() as u64);
        let bytes = self.node.bytes.read();
        let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
        match range.and_then(|(from, to)| bytes.get(from..to)) {
            Some(found) => into.copy_from_slice(found),
            None => return Err(Error::UnexpectedEnd { name: self.name.clone(), end }),
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.accounting.wrote(bytes.len());
        self.check_writable()?;
        let end = self.end(offset, bytes.len() as u64)?;
        let mut stored = self.node.bytes.write();
        if !bytes.is_empty() {
            self.grow(&mut stored, end)?;
            stored[end - bytes.len()..end].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn sync(&self, _: SyncKind) -> Result<()> {
        self.accounting.synced();
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.node.len())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_writable()?;
        let len = self.end(len, 0)?;
        let mut stored = self.node.bytes.write();
        self.grow(&mut stored, len)?;
        stored.truncate(len);
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        let end = self.end(offset, len)?;
        self.grow(&mut self.node.bytes.write(), end)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.check_writable()?;
        let mut stored = self.node.bytes.write();
        let clamp = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(stored.len());
        let (from, to) = (clamp(offset), clamp(offset.saturating_add(len)));
        stored[from..to].fill(0);
        Ok(())
    }

    fn alignment(&self) -> usize {
        1
    }

    fn name(&self) -> &str {
        &self.name
    }
}
