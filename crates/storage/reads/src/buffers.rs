//! Buffers for reads, and their bytes in the budget.
//!
//! # Invariants
//! - B1. The budget counts every buffer from its allocation until it is freed, also while the
//!   device has it. The one exception is a buffer of the calling thread, of at most
//!   [`THREAD_BYTES_MAX`].

use std::cell::Cell;
use std::sync::Arc;

use device::Buffer;
use engine::{ReadRequest, Result};
use memory_budget::{Account, MemoryBudget};

/// A longer buffer is not kept for other reads.
const KEPT_BYTES_MAX: usize = 16 << 10;
/// Buffers that are kept while no read is in flight, and the part of the budget that they may take:
/// one in this many.
const IDLE_MAX: usize = 32;
const IDLE_PARTS: u64 = 256;
/// A longer buffer of a thread is not kept.
const THREAD_BYTES_MAX: usize = 32 << 10;

/// Returns the memory of a buffer of `len` bytes.
fn memory_of(len: usize) -> u64 {
    (len + Buffer::ALIGNMENT - 1) as u64
}

/// The buffers of one thread's reads.
pub(crate) struct Buffers {
    spare: Vec<Buffer>,
    spare_max: usize,
    bytes: u64,
    account: Account,
}

/// A buffer that returns to the others when it is dropped.
pub(crate) struct Borrowed<'a> {
    pub(crate) buffers: &'a mut Buffers,
    /// Present until the drop.
    pub(crate) buffer: Option<Buffer>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.buffers.release(buffer);
        }
    }
}

impl Buffers {
    /// Keeps up to `spare_max` buffers. Their bytes are in `budget`.
    pub(crate) fn new(spare_max: usize, budget: &Arc<MemoryBudget>) -> Self {
        Self { spare: Vec::new(), spare_max, bytes: 0, account: Account::new(budget) }
    }

    /// Returns the bytes of the budget.
    pub(crate) fn budget_bytes(&self) -> u64 {
        self.account.budget_bytes()
    }

    /// Returns a buffer of `len` bytes, whose content is arbitrary.
    pub(crate) fn take(&mut self, len: usize) -> Buffer {
        match self.spare.iter().rposition(|buffer| buffer.len() == len) {
            Some(index) => self.spare.swap_remove(index),
            None => {
                self.bytes += memory_of(len);
                self.account.set(self.bytes);
                Buffer::zeroed(len)
            }
        }
    }

    /// Takes a buffer back.
    pub(crate) fn release(&mut self, buffer: Buffer) {
        if buffer.len() <= KEPT_BYTES_MAX && self.spare.len() < self.spare_max {
            self.spare.push(buffer);
        } else {
            self.note_lost(1, buffer.len());
        }
    }

    /// Notes that `count` buffers were freed elsewhere, which had `bytes` bytes in all.
    pub(crate) fn note_lost(&mut self, count: usize, bytes: usize) {
        self.bytes -= (count * (Buffer::ALIGNMENT - 1) + bytes) as u64;
        self.account.set(self.bytes);
    }

    /// Frees most of the spare buffers.
    pub(crate) fn trim(&mut self) {
        let bytes_max = self.budget_bytes() / IDLE_PARTS;
        while (self.spare.len() > IDLE_MAX || self.bytes > bytes_max)
            && let Some(buffer) = self.spare.pop()
        {
            self.note_lost(1, buffer.len());
        }
    }
}

thread_local! {
    static THREAD_BUFFER: Cell<Option<Buffer>> = const { Cell::new(None) };
}

/// A read that a blocking call has done.
pub(crate) struct ReadNow {
    /// Present until the drop.
    buffer: Option<Buffer>,
    len: usize,
    result: Result<()>,
    /// Counts a buffer that is not the thread's.
    _account: Option<Account>,
}

impl ReadNow {
    /// Reads; the calling thread waits.
    pub(crate) fn new(read: &ReadRequest, budget: &Arc<MemoryBudget>) -> Self {
        let len = read.len;
        let (mut buffer, account) = if len <= THREAD_BYTES_MAX {
            let kept = THREAD_BUFFER.take();
            (kept.unwrap_or_else(|| Buffer::zeroed(THREAD_BYTES_MAX)), None)
        } else {
            let account = Account::new(budget);
            account.set(memory_of(len));
            (Buffer::zeroed(len), Some(account))
        };
        let (into, _) = buffer.split_at_mut(len);
        let result = read.file.read_at(read.offset, into).map_err(Into::into);
        Self { buffer: Some(buffer), len, result, _account: account }
    }

    /// Returns the bytes, or the failure.
    pub(crate) fn bytes(&self) -> Result<&[u8]> {
        self.result.clone()?;
        Ok(self.buffer.as_deref().and_then(|bytes| bytes.get(..self.len)).unwrap_or_default())
    }
}

impl Drop for ReadNow {
    fn drop(&mut self) {
        let buffer = self.buffer.take();
        if buffer.as_ref().is_some_and(|buffer| buffer.len() == THREAD_BYTES_MAX) {
            THREAD_BUFFER.set(buffer);
        }
    }
}
