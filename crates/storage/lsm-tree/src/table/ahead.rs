//! Bytes of a table that are read before they are needed.

use std::ops::Range;
use std::sync::Arc;

use device::Buffer;
use engine::Result;
use memory_budget::{Account, MemoryBudget};

use super::Table;
use super::metadata::BlockHandle;

/// Parts of the budget of which one read of a reader's walk may take one.
const BUDGET_PARTS: u64 = 256;
/// Bytes that one read of a reader's walk never exceeds.
const MOST: u64 = 128 << 10;

/// A run of bytes of one fragment. All reads of a walk use the same buffer.
pub(super) struct Ahead {
    charge: Account,
    fragment: u32,
    offset: u64,
    buffer: Option<Buffer>,
    /// The part of the buffer that has the run.
    run: Range<usize>,
}

impl Ahead {
    /// The fewest bytes of a read that continues a reader's walk.
    pub(super) const LEAST: u64 = 16 << 10;

    /// Returns the most bytes that one read of a reader's walk takes.
    pub(super) fn most(budget: &MemoryBudget) -> u64 {
        MOST.min(budget.limit() / BUDGET_PARTS)
    }

    /// Makes an empty run.
    pub(super) fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { charge: Account::new(budget), fragment: 0, offset: 0, buffer: None, run: 0..0 }
    }

    /// Returns whether all of a block is there.
    pub(super) fn has(&self, handle: BlockHandle) -> bool {
        !self.stored(handle).is_empty()
    }

    /// Returns the stored bytes of a block; empty if they are not there.
    pub(super) fn stored(&self, handle: BlockHandle) -> &[u8] {
        let start =
            handle.offset.checked_sub(self.offset).filter(|_| self.fragment == handle.fragment);
        let start = start.and_then(|start| usize::try_from(start).ok());
        let end = start.and_then(|start| start.checked_add(handle.len as usize));
        let bytes = self.buffer.as_ref().and_then(|buffer| buffer.get(self.run.clone()));
        let bytes = bytes.unwrap_or_default();
        start.zip(end).and_then(|(start, end)| bytes.get(start..end)).unwrap_or_default()
    }

    /// Reads a block and the bytes after it, `at_once` in all, unless the block is there or longer.
    pub(super) fn behind(
        &mut self,
        table: &Table,
        handle: BlockHandle,
        at_once: u64,
    ) -> Result<()> {
        let len = table.stored_len(handle)? as u64;
        if self.has(handle) {
            return Ok(());
        }
        let fragments = &table.summary.properties.fragments;
        let fragment = fragments.get(handle.fragment as usize).copied().unwrap_or(0);
        let rest = fragment.saturating_sub(handle.offset);
        self.read(table, handle.fragment, handle.offset, rest.min(at_once.max(len)))
    }

    /// Reads a block and the bytes before it, `at_once` in all, unless the block is there or
    /// longer.
    pub(super) fn before(
        &mut self,
        table: &Table,
        handle: BlockHandle,
        at_once: u64,
    ) -> Result<()> {
        let len = table.stored_len(handle)? as u64;
        if self.has(handle) {
            return Ok(());
        }
        let end = handle.offset + len;
        let bytes = end.min(at_once.max(len));
        self.read(table, handle.fragment, end - bytes, bytes)
    }

    fn read(&mut self, table: &Table, fragment: u32, offset: u64, bytes: u64) -> Result<()> {
        self.run = 0..0;
        let span = table.source.span(fragment, offset, bytes as usize)?;
        let mut buffer = match self.buffer.take().filter(|buffer| buffer.len() >= span.read_len) {
            Some(buffer) => buffer,
            None => Buffer::zeroed(span.read_len),
        };
        self.charge.set((buffer.len() + Buffer::ALIGNMENT) as u64);
        let (whole, _) = buffer.split_at_mut(span.read_len);
        let read = span.file.read_at(span.offset, whole);
        self.buffer = Some(buffer);
        read?;
        (self.fragment, self.offset) = (fragment, offset);
        self.run = span.skipped..span.skipped + span.len;
        Ok(())
    }
}
