//! Reads all sound content of a store, damaged or not, as writes that rebuild it; nothing is
//! changed.
//!
//! 1. The manifest names the tables and the range deletes. If it cannot be read, the tables' own
//!    metadata describe them. Then range deletes are lost, and obsolete tables may be among the
//!    tables found.
//! 2. All tables are walked together, in the order of keys, the newest version of a key first. A
//!    block that cannot be read is skipped, and the keys between its neighbours' are noted as lost;
//!    so is a whole table whose index cannot be read.
//! 3. For each key the newest sound version is passed on, unless it is a tombstone or a range
//!    delete hides it.
//!
//! # Lost data
//! If the newest version of a key is in a piece that cannot be read, the key has the version before
//! it, or none. That version may be a value although the key was deleted.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use codec::SeqNo;
use device::Device;
use engine::{LostKeys, Op, Result, SalvageSink, Salvaged};
use memory_budget::MemoryBudget;

use edits::Contents;
use lsm_tree::cache::{Cached, NoCache, PieceCache};
use lsm_tree::edit::Edit;
use lsm_tree::entry::{Entry, Target};
use lsm_tree::range_deletes::RangeDeletes;
use lsm_tree::table::{
    BlockCursor, LocalTables, Metadata, Piece, Summary, Table, TableStore, summary_in_file,
};

/// Passes on the newest sound version of each key of the store on `device`, in the order of keys.
/// Reads each table once. Takes memory for the metadata and a block of each table that has keys
/// near the current one.
///
/// # Errors
/// The storage's. Damage is part of the answer.
pub fn salvage(device: &Arc<dyn Device>, take: &mut SalvageSink<'_>) -> Result<Salvaged> {
    let mut salvaged = Salvaged::default();
    let tables = LocalTables::on(Arc::clone(device));
    let contents = match salvaged.sound(edits::read::<Edit>(&**device), || None)? {
        Some(Some((_, contents))) => contents,
        Some(None) => return Ok(salvaged),
        None => {
            salvaged.may_be_outdated = true;
            by_themselves(device, &*tables, &mut salvaged)?
        }
    };
    salvaged.persisted = contents.committed.persisted;
    let budget = Arc::new(MemoryBudget::new(0));
    let cache: Arc<dyn PieceCache> = NoCache::new(&budget);
    let deletes = RangeDeletes::of(&contents.edit.range_deletes, &budget);
    let bottom = contents.edit.added.iter().map(|(level, _)| *level).max();
    let mut waiting = Vec::new();
    for (level, summary) in contents.edit.added {
        let keys = || Some(all_keys(&summary));
        let opened = Table::open(summary.clone(), &tables, &cache);
        match salvaged.sound(opened, keys)? {
            Some(table) => waiting.push((table, level, Some(level) < bottom)),
            None => salvaged.may_be_outdated |= Some(level) < bottom,
        }
    }
    let walk = Walk { waiting, begun: Vec::new(), heads: BinaryHeap::new(), salvaged };
    walk.tell(&deletes, take)
}

/// Returns the manifest's content, as far as the tables have it.
fn by_themselves(
    device: &Arc<dyn Device>,
    tables: &dyn TableStore,
    salvaged: &mut Salvaged,
) -> Result<Contents<Edit>> {
    let mut contents = Contents::<Edit>::default();
    for number in tables.list()? {
        let summary = summary_in_file(&**device, number);
        let summary = salvaged.sound(summary, || None)?;
        contents.edit.added.extend(summary.map(|summary| (0, summary)));
    }
    Ok(contents)
}

fn all_keys(summary: &Summary) -> LostKeys {
    let properties = &summary.properties;
    LostKeys { from: properties.smallest.clone(), to: Some(properties.largest.clone()) }
}

/// The walk over all tables.
struct Walk {
    /// The tables that were not begun yet, their levels, and whether others may have older versions
    /// of their keys.
    waiting: Vec<(Arc<Table>, usize, bool)>,
    begun: Vec<Option<Sound>>,
    /// The current entry of each of them.
    heads: BinaryHeap<Reverse<Head>>,
    salvaged: Salvaged,
}

/// The place of an entry, and of its table: by key, the newest first. A write that was replayed
/// has two entries with one number. A lookup finds that of the higher level, so this one is first.
type Head = (Vec<u8>, Reverse<SeqNo>, Rank, usize);

/// The level of a table, and its number.
type Rank = (usize, Reverse<u64>);

impl Walk {
    fn tell(mut self, deletes: &RangeDeletes, take: &mut SalvageSink<'_>) -> Result<Salvaged> {
        let smallest = |table: &Table| table.summary().properties.smallest.clone();
        self.waiting.sort_by_cached_key(|(table, ..)| Reverse(smallest(table)));
        let mut told: Option<Vec<u8>> = None;
        while let Some(Reverse((key, Reverse(seqno), _, at))) = self.next()? {
            let newest = told.as_ref() != Some(&key);
            let sound = self.begun.get(at).and_then(Option::as_ref);
            let value = sound.and_then(Sound::entry).and_then(|entry| entry.value);
            if let Some(value) = value
                && newest
                && deletes.next_above(&key, seqno).is_none()
                && take(Op::Put { key: &key, value }).is_break()
            {
                break;
            }
            told = Some(key);
            self.go_on(at)?;
        }
        Ok(self.salvaged)
    }

    /// Begins all tables that may have the first entry, and returns that entry.
    fn next(&mut self) -> Result<Option<Reverse<Head>>> {
        while let Some((table, ..)) = self.waiting.last()
            && self
                .heads
                .peek()
                .is_none_or(|Reverse((key, ..))| table.summary().properties.smallest <= *key)
        {
            let Some((table, level, has_older)) = self.waiting.pop() else { break };
            let keys = || Some(all_keys(table.summary()));
            match self.salvaged.sound(table.metadata(), keys)? {
                Some(metadata) => {
                    let at = self.begun.len();
                    self.begun.push(Some(Sound::new(table, level, metadata, has_older)));
                    self.go_on(at)?;
                }
                None => self.salvaged.may_be_outdated |= has_older,
            }
        }
        Ok(self.heads.pop())
    }

    /// Moves one of them to its next entry.
    fn go_on(&mut self, at: usize) -> Result<()> {
        let Some(place) = self.begun.get_mut(at) else { return Ok(()) };
        let Some(sound) = place else { return Ok(()) };
        if sound.next(&mut self.salvaged)? {
            let rank = sound.rank;
            let head = sound.entry();
            let head = head.map(|entry| (entry.key.to_vec(), Reverse(entry.seqno), rank, at));
            self.heads.extend(head.map(Reverse));
        } else {
            *place = None;
        }
        Ok(())
    }
}

/// A walk over the blocks of a table that are sound.
struct Sound {
    table: Arc<Table>,
    rank: Rank,
    metadata: Arc<Metadata>,
    has_older: bool,
    /// At the block, or before the first one.
    index: Option<BlockCursor>,
    block: Option<BlockCursor>,
    /// No key of the block is less.
    from: Vec<u8>,
}

impl Sound {
    fn new(table: Arc<Table>, level: usize, metadata: Arc<Metadata>, has_older: bool) -> Self {
        let from = table.summary().properties.smallest.clone();
        let rank = (level, Reverse(table.summary().id.number));
        Self { table, rank, metadata, has_older, index: None, block: None, from }
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.block.as_ref().and_then(BlockCursor::entry)?;
        Some(self.table.numbered(entry))
    }

    /// Moves to the next entry that can be read; `false` at the end.
    fn next(&mut self, salvaged: &mut Salvaged) -> Result<bool> {
        if let Some(block) = &mut self.block {
            let moved = block.next().map_err(|damage| self.table.in_metadata(damage).into());
            if self.sound(moved, salvaged)? == Some(true) {
                return Ok(true);
            }
        }
        loop {
            self.block = None;
            let moved = self.next_in_index();
            if self.sound(moved, salvaged)? != Some(true) {
                return Ok(false);
            }
            let block = self.read_block();
            let has_entry = self.sound(block, salvaged)?.unwrap_or(false);
            let last = self.index.as_ref().and_then(BlockCursor::entry);
            self.from = last.map_or_else(Vec::new, |last| last.key.to_vec());
            if has_entry {
                return Ok(true);
            }
        }
    }

    fn next_in_index(&mut self) -> Result<bool> {
        match &mut self.index {
            Some(index) => index.next().map_err(|damage| self.table.in_metadata(damage).into()),
            None => {
                self.index = self.table.index_at(&self.metadata, Target::START)?;
                Ok(self.index.is_some())
            }
        }
    }

    /// Goes to the first entry of the block at the index.
    fn read_block(&mut self) -> Result<bool> {
        let Some(index) = &self.index else { return Ok(false) };
        let handle = self.table.handle(index)?;
        let Cached::Block(block) = self.table.piece(Piece::Block(handle))? else {
            return Ok(false);
        };
        let mut block = BlockCursor::new(block);
        let has_entry =
            block.seek(Target::START).map_err(|damage| self.table.in_block(damage, handle))?;
        self.block = Some(block);
        Ok(has_entry)
    }

    /// Returns the result of a read, unless it is damaged: then the keys of the block at the index
    /// are lost.
    fn sound<T>(&self, read: Result<T>, salvaged: &mut Salvaged) -> Result<Option<T>> {
        let last = self.index.as_ref().and_then(BlockCursor::entry);
        let keys = || {
            let to = last.map(|last| last.key.to_vec());
            Some(LostKeys { from: self.from.clone(), to })
        };
        let sound = salvaged.sound(read, keys)?;
        salvaged.may_be_outdated |= sound.is_none() && self.has_older;
        Ok(sound)
    }
}

#[cfg(test)]
mod tests;
