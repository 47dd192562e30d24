//! Walks over a table, and over the tables of a level that lie one behind the other.

use std::sync::Arc;

use engine::{Charge, Result};

use super::Table;
use super::block::{Block, BlockCursor};
use super::metadata::BlockHandle;
use crate::entry::{Entry, EntryCursor, Target};

/// How a walk gets its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Through the cache, which keeps them.
    Cached,
    /// As many bytes at once from the device, past the cache: forward, all of a table.
    Ahead(u64),
}

/// A walk over one table.
pub(crate) struct TableCursor {
    table: Arc<Table>,
    reading: Reading,
    ahead: Ahead,
    index: Option<BlockCursor>,
    handle: Option<BlockHandle>,
    block: Option<BlockCursor>,
}

/// Bytes of a fragment that were read before they are needed.
struct Ahead {
    charge: Charge,
    fragment: u32,
    offset: u64,
    bytes: Vec<u8>,
}

impl TableCursor {
    /// A walk that stands nowhere.
    pub(crate) fn new(table: Arc<Table>, reading: Reading) -> Self {
        let charge = Charge::new(table.cache.budget());
        let ahead = Ahead { charge, fragment: 0, offset: 0, bytes: Vec::new() };
        Self { table, reading, ahead, index: None, handle: None, block: None }
    }

    /// The index, begun where it is needed first.
    fn index(&mut self) -> Result<&mut BlockCursor> {
        if self.index.is_none() {
            self.index = Some(BlockCursor::new(Arc::clone(&self.table.metadata()?.index)));
        }
        Ok(self.index.get_or_insert_with(|| unreachable!("it was just set")))
    }

    /// Moves the index; answers whether it stands at a block.
    fn move_index(
        &mut self,
        step: impl FnOnce(&mut BlockCursor) -> std::result::Result<bool, codec::Corruption>,
    ) -> Result<bool> {
        self.block = None;
        let table = Arc::clone(&self.table);
        let placed = |damage| table.in_metadata(damage);
        let index = self.index()?;
        if !step(index).map_err(placed)? {
            return Ok(false);
        }
        let handle = BlockHandle::of(index).map_err(placed)?;
        self.handle = Some(handle);
        let block = match self.reading {
            Reading::Cached => self.table.block(handle)?,
            Reading::Ahead(bytes) => self.read_ahead(handle, bytes)?,
        };
        self.block = Some(BlockCursor::new(block));
        Ok(true)
    }

    fn read_ahead(&mut self, handle: BlockHandle, at_once: u64) -> Result<Arc<Block>> {
        let len = self.table.stored_len(handle)?;
        let ahead = &mut self.ahead;
        let skipped = handle.offset.checked_sub(ahead.offset).map(|skipped| skipped as usize);
        let end = skipped.map(|skipped| skipped.saturating_add(len));
        let is_there =
            ahead.fragment == handle.fragment && end.is_some_and(|end| end <= ahead.bytes.len());
        if !is_there {
            let fragments = &self.table.summary.properties.fragments;
            let fragment = fragments.get(handle.fragment as usize).copied().unwrap_or(0);
            let rest = fragment.saturating_sub(handle.offset);
            ahead.bytes.resize(rest.min(at_once.max(len as u64)) as usize, 0);
            ahead.charge.set(ahead.bytes.capacity());
            (ahead.fragment, ahead.offset) = (handle.fragment, handle.offset);
            let read = self.table.source.read(handle.fragment, handle.offset, &mut ahead.bytes);
            if read.is_err() {
                ahead.bytes.clear();
            }
            read?;
        }
        let start = (handle.offset - self.ahead.offset) as usize;
        let stored = self.ahead.bytes.get(start..start + len).unwrap_or_default();
        self.table.unseal(stored, handle)
    }

    /// Moves within the block; answers whether it stands at an entry.
    fn move_block(
        &mut self,
        step: impl FnOnce(&mut BlockCursor) -> std::result::Result<bool, codec::Corruption>,
    ) -> Result<bool> {
        let (Some(block), Some(handle)) = (&mut self.block, self.handle) else { return Ok(false) };
        step(block).map_err(|damage| self.table.in_block(damage, handle).into())
    }
}

impl EntryCursor for TableCursor {
    fn seek(&mut self, to: Target<'_>) -> Result<()> {
        let to = self.table.stored_place(to);
        let mut is_there = self.move_index(|index| index.seek(to))?;
        while is_there {
            if self.move_block(|block| block.seek(to))? {
                return Ok(());
            }
            is_there = self.move_index(BlockCursor::next)?;
        }
        Ok(())
    }

    fn seek_before(&mut self, to: Option<Target<'_>>) -> Result<()> {
        let to = to.map(|to| self.table.stored_place(to));
        // The block that is first not wholly before the target may begin before it; else the last.
        let mut is_there = match to {
            Some(to) => self.move_index(|index| index.seek(to))?,
            None => false,
        };
        if !is_there {
            is_there = self.move_index(|index| index.seek_before(None))?;
        }
        while is_there {
            if self.move_block(|block| block.seek_before(to))? {
                return Ok(());
            }
            is_there = self.move_index(BlockCursor::previous)?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let mut is_there = self.move_block(BlockCursor::next)?;
        while !is_there && self.move_index(BlockCursor::next)? {
            is_there = self.move_block(|block| block.seek(Target::START))?;
        }
        Ok(())
    }

    fn previous(&mut self) -> Result<()> {
        let mut is_there = self.move_block(BlockCursor::previous)?;
        while !is_there && self.move_index(BlockCursor::previous)? {
            is_there = self.move_block(|block| block.seek_before(None))?;
        }
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.block.as_ref().and_then(BlockCursor::entry)?;
        Some(self.table.numbered(entry))
    }
}

/// A walk over tables of which each lies wholly behind the one before.
pub(crate) struct LevelCursor {
    tables: Arc<Vec<Arc<Table>>>,
    reading: Reading,
    /// The table at which it stands.
    index: usize,
    cursor: Option<TableCursor>,
}

impl LevelCursor {
    /// A walk that stands nowhere.
    pub(crate) fn new(tables: Arc<Vec<Arc<Table>>>, reading: Reading) -> Self {
        Self { tables, reading, index: 0, cursor: None }
    }

    /// Goes to the table at `index`, if there is one, and moves there; on failure to find an entry
    /// there goes on with its neighbours.
    fn enter(
        &mut self,
        index: Option<usize>,
        forward: bool,
        step: impl Fn(&mut TableCursor) -> Result<()>,
    ) -> Result<()> {
        self.cursor = None;
        let mut index = index;
        while let Some((at, table)) = index.and_then(|at| Some((at, self.tables.get(at)?))) {
            let mut cursor = TableCursor::new(Arc::clone(table), self.reading);
            step(&mut cursor)?;
            if cursor.entry().is_some() {
                (self.index, self.cursor) = (at, Some(cursor));
                return Ok(());
            }
            index = if forward { Some(at + 1) } else { at.checked_sub(1) };
        }
        Ok(())
    }

    fn has_entry(&self) -> bool {
        self.cursor.as_ref().is_some_and(|cursor| cursor.entry().is_some())
    }
}

impl EntryCursor for LevelCursor {
    fn seek(&mut self, to: Target<'_>) -> Result<()> {
        let largest = |table: &Arc<Table>| table.summary.properties.largest.as_slice() < to.key;
        let index = self.tables.partition_point(largest);
        self.enter(Some(index), true, |cursor| cursor.seek(to))
    }

    fn seek_before(&mut self, to: Option<Target<'_>>) -> Result<()> {
        let behind = match to {
            Some(to) => self
                .tables
                .partition_point(|table| table.summary.properties.smallest.as_slice() <= to.key),
            None => self.tables.len(),
        };
        self.enter(behind.checked_sub(1), false, |cursor| cursor.seek_before(to))
    }

    fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.next()?;
        if self.has_entry() {
            return Ok(());
        }
        self.enter(Some(self.index + 1), true, |cursor| cursor.seek(Target::START))
    }

    fn previous(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        cursor.previous()?;
        if self.has_entry() {
            return Ok(());
        }
        self.enter(self.index.checked_sub(1), false, |cursor| cursor.seek_before(None))
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.as_ref().and_then(TableCursor::entry)
    }
}
