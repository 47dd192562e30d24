//! Walks over a table, and over the tables of a level, which follow each other.
//!
//! A walk for a reader gets its blocks through the cache. Its first read has the bytes that walks
//! of that level usually read ([`crate::walk_lengths`]). Each later read is as long as the part
//! that the walk has behind it, within bounds. So a short walk reads little in vain, and a long one
//! seldom waits.

use std::sync::Arc;

use engine::{Direction, Error, Result};

use super::ahead::Ahead;
use super::block::{Block, BlockCursor};
use super::held::Home;
use super::metadata::{BlockHandle, Metadata};
use super::{Missing, Piece, Table};
use crate::cache::Cached;
use crate::entry::{Aim, Entry, EntryCursor, Target};

/// How a walk gets its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Through the cache, which keeps them. Walks of one level are expected to be about equally
    /// long.
    Cached {
        /// The level of the walk.
        level: usize,
    },
    /// Past the cache, with reads of this length from the device: forward, all of a table.
    Ahead(u64),
}

/// How a walk reaches a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// By a seek.
    Seek,
    /// From the block next to it.
    Step,
}

/// A walk over one table.
pub struct TableCursor {
    table: Arc<Table>,
    reading: Reading,
    may_read: bool,
    ahead: Ahead,
    /// Bytes of the blocks that the walk has entered since the last seek.
    walked: u64,
    /// Whether a block was not in the cache since the last seek.
    has_missed: bool,
    index: Option<BlockCursor>,
    handle: Option<BlockHandle>,
    block: Option<BlockCursor>,
    /// Set if the index is positioned for the next seek: whether there is a block.
    aimed: Option<bool>,
}

impl TableCursor {
    /// Makes a walk that is not positioned.
    pub fn new(table: Arc<Table>, reading: Reading) -> Self {
        let ahead = Ahead::new(table.cache.budget());
        let (index, handle, block) = (None, None, None);
        Self {
            table,
            reading,
            may_read: true,
            ahead,
            walked: 0,
            has_missed: false,
            index,
            handle,
            block,
            aimed: None,
        }
    }

    /// Returns the metadata, without a read if the walk does not wait.
    fn metadata(&self) -> Result<Arc<Metadata>> {
        if self.may_read {
            return self.table.metadata();
        }
        match self.table.cached(Piece::Metadata) {
            Some(Cached::Metadata(metadata)) => Ok(metadata),
            _ => Err(Error::WouldWait),
        }
    }

    /// Returns the index, which the first call makes.
    fn index(&mut self) -> Result<&mut BlockCursor> {
        if self.index.is_none() {
            self.index = Some(BlockCursor::new(Arc::clone(&self.metadata()?.index)));
        }
        Ok(self.index.get_or_insert_with(|| unreachable!("it was just set")))
    }

    /// Moves the index and drops the current block, without fetching another one. Returns whether
    /// the index is at a block.
    fn point(
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
        self.handle = Some(BlockHandle::of(index).map_err(placed)?);
        Ok(true)
    }

    /// Points the index at the first block that may have an entry at or behind `to`.
    fn point_at(&mut self, to: Target<'_>) -> Result<bool> {
        let to = self.table.stored_place(to);
        self.point(|index| index.seek(to))
    }

    /// Points the index at the last block that may have an entry before `to`. This is the first
    /// block that is not wholly before `to`, since it may begin before `to`; if there is none, it
    /// is the last block.
    fn point_before(&mut self, to: Option<Target<'_>>) -> Result<bool> {
        let is_there = match to {
            Some(to) => self.point_at(to)?,
            None => false,
        };
        if is_there { Ok(true) } else { self.point(|index| index.seek_before(None)) }
    }

    /// Points the index at the block where a seek begins. Returns whether there is one. The walk
    /// since the seek before ends.
    fn point_for(&mut self, aim: Aim<'_>) -> Result<bool> {
        self.end_walk();
        match aim {
            Aim::At(to) => self.point_at(to),
            Aim::Before(to) => self.point_before(to),
        }
    }

    /// Ends the walk since the last seek, and notes its length.
    fn end_walk(&mut self) {
        if self.walked == 0 {
            // A seek that was prepared and is not done yet.
            return;
        }
        if let Reading::Cached { level } = self.reading
            && self.has_missed
        {
            let most = Ahead::most(self.table.cache.budget());
            self.table.cache.walk_lengths().note(level, self.walked, most);
        }
        (self.walked, self.has_missed) = (0, false);
    }

    /// Returns the bytes that a walk of this level is expected to read in all.
    pub(super) fn expected(&self) -> u64 {
        match self.reading {
            Reading::Cached { level } => self.table.cache.walk_lengths().expected(level),
            Reading::Ahead(_) => 0,
        }
    }

    /// Returns the blocks behind the one at the index, in the direction of the walk, that the walk
    /// is expected to reach. Each is next to the one before it in the same fragment. Damage of the
    /// index ends them: the walk reports it once it gets there.
    fn expected_after(&self, handle: BlockHandle, direction: Direction) -> Vec<BlockHandle> {
        let mut blocks = Vec::new();
        let bytes_max = self.expected().min(Ahead::most(self.table.cache.budget()));
        let (mut bytes, mut before) = (u64::from(handle.len), handle);
        let mut index = self.index.as_ref().filter(|_| bytes < bytes_max).cloned();
        while let Some(index) = &mut index {
            let moved = match direction {
                Direction::Forward => index.next(),
                Direction::Backward => index.previous(),
            };
            let Ok(true) = moved else { break };
            let Ok(block) = self.table.handle(index) else { break };
            let is_next = match direction {
                Direction::Forward => before.ends_at(block),
                Direction::Backward => block.ends_at(before),
            };
            bytes += u64::from(block.len);
            if !is_next || bytes > bytes_max {
                break;
            }
            blocks.push(block);
            before = block;
        }
        blocks
    }

    /// Fetches the block at the index.
    fn enter(&mut self, reach: Reach, direction: Direction) -> Result<()> {
        let Some(handle) = self.handle else { return Ok(()) };
        let block = match self.reading {
            Reading::Cached { .. } => {
                let block = self.block_through_cache(handle, reach, direction)?;
                self.walked += u64::from(handle.len);
                block
            }
            Reading::Ahead(bytes) => {
                self.ahead.behind(&self.table, handle, bytes)?;
                self.table.unseal(self.ahead.stored(handle), handle, Home::Own)?
            }
        };
        self.block = Some(BlockCursor::new(block));
        Ok(())
    }

    /// Moves the index, and fetches the block that it then points at.
    fn move_index(
        &mut self,
        direction: Direction,
        step: impl FnOnce(&mut BlockCursor) -> std::result::Result<bool, codec::Corruption>,
    ) -> Result<bool> {
        let is_there = self.point(step)?;
        if is_there {
            self.enter(Reach::Step, direction)?;
        }
        Ok(is_there)
    }

    /// Returns a block from the cache, or reads it. The read also gets the blocks after it, in the
    /// direction of the walk, that the walk is expected to reach.
    fn block_through_cache(
        &mut self,
        handle: BlockHandle,
        reach: Reach,
        direction: Direction,
    ) -> Result<Arc<Block>> {
        if let Some(Cached::Block(block)) = self.table.cached(Piece::Block(handle)) {
            return Ok(block);
        }
        let is_ahead = self.ahead.has(handle);
        self.has_missed = true;
        if !self.may_read && !is_ahead {
            if reach == Reach::Step {
                // The walk continues here once it may read.
                self.walked += u64::from(handle.len);
            }
            return Err(Error::WouldWait);
        }
        self.table.cache.note_walked(1);
        if !is_ahead {
            let bytes = match reach {
                Reach::Seek => {
                    let after = self.expected_after(handle, direction);
                    after.iter().map(|block| u64::from(block.len)).sum::<u64>()
                        + u64::from(handle.len)
                }
                Reach::Step => {
                    let expected = self.expected().saturating_sub(self.walked);
                    let most = Ahead::most(self.table.cache.budget());
                    expected.max(self.walked).max(Ahead::LEAST).min(most)
                }
            };
            if bytes <= u64::from(handle.len) {
                return self.table.read_block(handle);
            }
            let read = match direction {
                Direction::Forward => self.ahead.behind(&self.table, handle, bytes),
                Direction::Backward => self.ahead.before(&self.table, handle, bytes),
            };
            if read.is_err() {
                // Another block of the read may be the one that cannot be read.
                return self.table.read_block(handle);
            }
        }
        self.table.keep_block(handle, self.ahead.stored(handle))
    }

    /// Moves within the block. Returns whether it is at an entry.
    fn move_block(
        &mut self,
        step: impl FnOnce(&mut BlockCursor) -> std::result::Result<bool, codec::Corruption>,
    ) -> Result<bool> {
        let (Some(block), Some(handle)) = (&mut self.block, self.handle) else { return Ok(false) };
        step(block).map_err(|damage| self.table.in_block(damage, handle).into())
    }
}

impl EntryCursor for TableCursor {
    fn allow_reads(&mut self, is_allowed: bool) {
        self.may_read = is_allowed;
    }

    fn aim(&mut self, aim: Aim<'_>) -> Result<Option<Missing>> {
        if self.index.is_none() && self.table.cached(Piece::Metadata).is_none() {
            return Ok(Some(Missing::of(&self.table, Piece::Metadata)));
        }
        let is_there = self.point_for(aim)?;
        self.aimed = Some(is_there);
        let handle = self.handle.filter(|handle| is_there && !self.table.has_cached(*handle));
        let Some(handle) = handle else { return Ok(None) };
        self.has_missed = true;
        let direction = match aim {
            Aim::At(_) => Direction::Forward,
            Aim::Before(_) => Direction::Backward,
        };
        let after = self.expected_after(handle, direction);
        Ok(Some(Missing { after, ..Missing::of(&self.table, Piece::Block(handle)) }))
    }

    fn seek(&mut self, to: Target<'_>) -> Result<()> {
        let aimed = self.aimed.take();
        let mut is_there = aimed.map_or_else(|| self.point_for(Aim::At(to)), Ok)?;
        if is_there {
            self.enter(Reach::Seek, Direction::Forward)?;
        }
        let to = self.table.stored_place(to);
        while is_there {
            if self.move_block(|block| block.seek(to))? {
                return Ok(());
            }
            is_there = self.move_index(Direction::Forward, BlockCursor::next)?;
        }
        Ok(())
    }

    fn seek_before(&mut self, to: Option<Target<'_>>) -> Result<()> {
        let aimed = self.aimed.take();
        let mut is_there = aimed.map_or_else(|| self.point_for(Aim::Before(to)), Ok)?;
        if is_there {
            self.enter(Reach::Seek, Direction::Backward)?;
        }
        let to = to.map(|to| self.table.stored_place(to));
        while is_there {
            if self.move_block(|block| block.seek_before(to))? {
                return Ok(());
            }
            is_there = self.move_index(Direction::Backward, BlockCursor::previous)?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let mut is_there = self.move_block(BlockCursor::next)?;
        while !is_there && self.move_index(Direction::Forward, BlockCursor::next)? {
            is_there = self.move_block(|block| block.seek(Target::START))?;
        }
        Ok(())
    }

    fn previous(&mut self) -> Result<()> {
        let mut is_there = self.move_block(BlockCursor::previous)?;
        while !is_there && self.move_index(Direction::Backward, BlockCursor::previous)? {
            is_there = self.move_block(|block| block.seek_before(None))?;
        }
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.block.as_ref().and_then(BlockCursor::entry)?;
        Some(self.table.numbered(entry))
    }
}

impl Drop for TableCursor {
    fn drop(&mut self) {
        self.end_walk();
    }
}

/// A walk over tables, each of which is wholly behind the one before.
pub struct LevelCursor {
    tables: Arc<Vec<Arc<Table>>>,
    reading: Reading,
    may_read: bool,
    /// Index of the current table.
    index: usize,
    cursor: Option<TableCursor>,
    /// The cursor of the table where the next seek begins, aimed.
    aimed: Option<(usize, TableCursor)>,
}

impl LevelCursor {
    /// Makes a walk that is not positioned.
    pub fn new(tables: Arc<Vec<Arc<Table>>>, reading: Reading) -> Self {
        Self { tables, reading, may_read: true, index: 0, cursor: None, aimed: None }
    }

    /// Goes to the table at `index`, if there is one, and moves in it. If that finds no entry
    /// there, it continues with the neighbours of that table.
    fn enter(
        &mut self,
        index: Option<usize>,
        forward: bool,
        step: impl Fn(&mut TableCursor) -> Result<()>,
    ) -> Result<()> {
        self.cursor = None;
        let mut index = index;
        while let Some((at, table)) = index.and_then(|at| Some((at, self.tables.get(at)?))) {
            let aimed = self.aimed.take().filter(|(aimed, _)| *aimed == at);
            let new = || self.cursor_of(table);
            let mut cursor = aimed.map_or_else(new, |(_, cursor)| cursor);
            step(&mut cursor)?;
            if cursor.entry().is_some() {
                (self.index, self.cursor) = (at, Some(cursor));
                return Ok(());
            }
            index = if forward { Some(at + 1) } else { at.checked_sub(1) };
        }
        Ok(())
    }

    fn cursor_of(&self, table: &Arc<Table>) -> TableCursor {
        let mut cursor = TableCursor::new(Arc::clone(table), self.reading);
        cursor.may_read = self.may_read;
        cursor
    }

    /// Returns the table where a seek begins, if there is one.
    fn first_for(&self, aim: Aim<'_>) -> Option<usize> {
        match aim {
            Aim::At(to) => {
                let is_before =
                    |table: &Arc<Table>| table.summary.properties.largest.as_slice() < to.key;
                Some(self.tables.partition_point(is_before)).filter(|at| *at < self.tables.len())
            }
            Aim::Before(to) => {
                let begins_before = |table: &Arc<Table>| {
                    to.is_none_or(|to| table.summary.properties.smallest.as_slice() <= to.key)
                };
                self.tables.partition_point(begins_before).checked_sub(1)
            }
        }
    }

    fn has_entry(&self) -> bool {
        self.cursor.as_ref().is_some_and(|cursor| cursor.entry().is_some())
    }
}

impl EntryCursor for LevelCursor {
    fn allow_reads(&mut self, is_allowed: bool) {
        self.may_read = is_allowed;
        let aimed = self.aimed.as_mut().map(|(_, cursor)| cursor);
        self.cursor.iter_mut().chain(aimed).for_each(|cursor| cursor.may_read = is_allowed);
    }

    fn aim(&mut self, aim: Aim<'_>) -> Result<Option<Missing>> {
        let Some(at) = self.first_for(aim) else { return Ok(None) };
        let Some(table) = self.tables.get(at) else { return Ok(None) };
        let aimed = self.aimed.take().filter(|(aimed, _)| *aimed == at);
        let new = || self.cursor_of(table);
        let mut cursor = aimed.map_or_else(new, |(_, cursor)| cursor);
        let missing = cursor.aim(aim)?;
        self.aimed = Some((at, cursor));
        Ok(missing)
    }

    fn seek(&mut self, to: Target<'_>) -> Result<()> {
        self.enter(self.first_for(Aim::At(to)), true, |cursor| cursor.seek(to))
    }

    fn seek_before(&mut self, to: Option<Target<'_>>) -> Result<()> {
        self.enter(self.first_for(Aim::Before(to)), false, |cursor| cursor.seek_before(to))
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
