//! Tables: entries in order, written once, in data blocks and the metadata that leads to them.
//!
//! ```text
//!   data       fragment 0 | block | block | ... |      fragment 1 | ...      (local: one fragment)
//!   metadata   index: the last place of each block -> its handle · filter · properties
//! ```
//!
//! A [`Table`] is the part that all layers above use: it searches and walks. Its bytes come from a
//! [`TableStore`], which knows fragments and metadata and nothing of their content. So it can be
//! one local file or many places; both use the [`crate::cache`].
//!
//! # Invariants
//! - T1. All bytes that a reader gets were verified against a checksum that covers the table's
//!   number, its nonce and the offset. Damage is reported with the file and the offset.
//! - T2. A table that the manifest no longer names is removed when the last [`Table`] of it is
//!   dropped, so no reader loses it. After the store's close the table stays until the store is
//!   opened: another table may have its number when the last reference is dropped.
//! - T3. A table that was ingested shows its entries under the number that the manifest has for it
//!   (`summary`): searches and walks see no other number.

mod ahead;
mod block;
mod builder;
mod compression;
mod cursor;
mod filter;
mod held;
mod local;
mod metadata;
mod ribbon;
mod source;
mod summary;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use codec::Place;
use engine::Result;

use crate::cache::{Cached, Key, PieceCache};
use crate::entry::{Entry, Found, Target};
pub use block::Block;
pub use block::BlockCursor;
use block::Hit;
pub use block::{decode_block, recode_block};
pub use builder::{TableBuilder, TableOptions};
pub use compression::Tally;
pub use compression::{Compression, UnknownCompression};
pub use cursor::{LevelCursor, Reading, TableCursor};
pub use filter::FilterKind;
pub use filter::hash;
pub use held::{Held, Home};
pub use local::{FORMAT, summary_in_file};
pub use local::{LocalTables, decode_footer};
pub use metadata::decode_metadata;
pub use metadata::{BlockHandle, Metadata};
pub use source::{Span, TableSink, TableSource, TableStore};
pub use summary::{Properties, UNNUMBERED};
pub use summary::{Summary, TableId};

/// Reads that look into a table for nothing, after which a compaction of it may be worth it.
const VISITS_TO_PLAN: u64 = 256;

/// Tables without readers that the manifest does not name any more.
pub trait ObsoleteFiles: Send + Sync + Debug {
    /// Notes that no reader uses this table any more: it can be removed.
    fn note_left(&self, number: u64);
}

/// A table, open.
#[derive(Debug)]
pub struct Table {
    summary: Summary,
    source: Arc<dyn TableSource>,
    cache: Arc<dyn PieceCache>,
    /// Set once the manifest does not name it any more, durably.
    obsolete: OnceLock<Arc<dyn ObsoleteFiles>>,
    visits: AtomicU64,
}

impl Table {
    /// Opens the table that `summary` describes.
    pub fn open(
        summary: Summary,
        store: &Arc<dyn TableStore>,
        cache: &Arc<dyn PieceCache>,
    ) -> Result<Arc<Self>> {
        let source = store.open(&summary)?;
        Ok(Arc::new(Self {
            summary,
            source,
            cache: Arc::clone(cache),
            obsolete: OnceLock::new(),
            visits: AtomicU64::new(0),
        }))
    }

    /// Returns the manifest's summary of the table.
    #[inline]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Returns the source of its bytes.
    pub fn source(&self) -> &dyn TableSource {
        &*self.source
    }

    /// Has the table removed once the last reference is dropped: the manifest, durably, no longer
    /// names it.
    pub fn delete_on_drop(&self, files: &Arc<dyn ObsoleteFiles>) {
        let _ = self.obsolete.set(Arc::clone(files));
    }

    /// Counts a read that looks into the table only because its keys are near: a walk that is
    /// positioned in it, or a search in vain. Returns whether compactions should be planned again.
    pub fn visit(&self) -> bool {
        (self.visits.fetch_add(1, Relaxed) + 1).is_multiple_of(VISITS_TO_PLAN)
    }

    /// Returns how often reads looked into it for nothing, since it was opened.
    pub fn visits(&self) -> u64 {
        self.visits.load(Relaxed)
    }

    /// Returns whether `key` is between its smallest and its largest key, both included.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        let properties = &self.summary.properties;
        properties.smallest.as_slice() <= key && key <= properties.largest.as_slice()
    }

    /// Translates a place in the order of versions to the place among the stored entries.
    #[inline]
    fn stored_place<'a>(&self, to: Target<'a>) -> Target<'a> {
        match self.summary.ingested {
            None => to,
            Some(number) if number <= to.seqno => Target::first_of(to.key),
            Some(_) => Target::behind(to.key),
        }
    }

    /// Returns a stored entry under its number.
    #[inline]
    pub fn numbered<'a>(&self, entry: Entry<'a>) -> Entry<'a> {
        Entry { seqno: self.summary.ingested.unwrap_or(entry.seqno), ..entry }
    }

    /// Returns its metadata, from the cache or read.
    pub fn metadata(&self) -> Result<Arc<Metadata>> {
        match self.piece(Piece::Metadata)? {
            Cached::Metadata(metadata) => Ok(metadata),
            Cached::Block(_) => unreachable!("the key is that of metadata"),
        }
    }

    /// Reads a data block. The cache has it from now on.
    fn read_block(&self, handle: BlockHandle) -> Result<Arc<Block>> {
        match self.read_piece(Piece::Block(handle))? {
            Cached::Block(block) => Ok(block),
            Cached::Metadata(_) => unreachable!("the key is that of a block"),
        }
    }

    /// Returns whether the cache has a data block. Counts as no lookup.
    fn has_cached(&self, handle: BlockHandle) -> bool {
        self.cache.has(&self.cache_key(Piece::Block(handle)))
    }

    /// Verifies a data block that was read, and returns it. The cache has it from now on.
    fn keep_block(&self, handle: BlockHandle, stored: &[u8]) -> Result<Arc<Block>> {
        match self.keep(Piece::Block(handle), stored)? {
            Cached::Block(block) => Ok(block),
            Cached::Metadata(_) => unreachable!("the piece is a block"),
        }
    }

    /// Returns a piece, from the cache or read.
    pub fn piece(&self, piece: Piece) -> Result<Cached> {
        self.cached(piece).map_or_else(|| self.read_piece(piece), Ok)
    }

    /// Reads a piece. The cache has it from now on.
    fn read_piece(&self, piece: Piece) -> Result<Cached> {
        let stored = match piece {
            Piece::Metadata => self.source.metadata()?,
            Piece::Block(handle) => {
                let mut stored = vec![0; self.stored_len(handle)?];
                self.source.read(handle.fragment, handle.offset, &mut stored)?;
                stored
            }
        };
        self.keep(piece, &stored)
    }

    /// Returns a piece, if the cache has it.
    #[inline]
    pub fn cached(&self, piece: Piece) -> Option<Cached> {
        self.cache.get(&self.cache_key(piece))
    }

    /// Returns the span from which others can read a piece.
    pub fn span(&self, piece: Piece) -> Result<Span> {
        match piece {
            Piece::Metadata => self.source.span_of_metadata(),
            Piece::Block(handle) => {
                let len = self.stored_len(handle)?;
                self.source.span(handle.fragment, handle.offset, len)
            }
        }
    }

    /// Verifies a piece that was read, and returns it. The cache has it from now on.
    pub fn keep(&self, piece: Piece, stored: &[u8]) -> Result<Cached> {
        let home = Home::Cache(&*self.cache);
        let cached = match piece {
            Piece::Metadata => {
                let metadata = Metadata::decode(stored, self.summary.id, home);
                Cached::Metadata(Arc::new(metadata.map_err(|damage| self.in_metadata(damage))?))
            }
            Piece::Block(handle) => Cached::Block(self.unseal(stored, handle, home)?),
        };
        self.cache.insert(self.cache_key(piece), cached.clone());
        Ok(cached)
    }

    #[inline]
    fn cache_key(&self, piece: Piece) -> Key {
        let table = self.summary.id.number;
        match piece {
            Piece::Metadata => Key::metadata(table),
            Piece::Block(handle) => Key::block(table, handle.fragment, handle.offset),
        }
    }

    /// Returns the index, at the first block that may have an entry at or behind `to`; `None` if
    /// there is no such block.
    #[inline]
    pub fn index_at(&self, metadata: &Metadata, to: Target<'_>) -> Result<Option<BlockCursor>> {
        let mut index = BlockCursor::new(Arc::clone(&metadata.index));
        let to = self.stored_place(to);
        let is_there = index.seek(to).map_err(|damage| self.in_metadata(damage))?;
        Ok(is_there.then_some(index))
    }

    /// Returns the first block that may have an entry at or behind `to`, if there is one.
    #[inline]
    pub fn block_for(&self, metadata: &Metadata, to: Target<'_>) -> Result<Option<BlockHandle>> {
        let found = metadata.index.find(self.stored_place(to));
        let handle =
            found.and_then(|hit| hit.map(|it| BlockHandle::in_entry(it.value)).transpose());
        Ok(handle.map_err(|damage| self.in_metadata(damage))?)
    }

    /// Returns the block at which an index is positioned.
    #[inline]
    pub fn handle(&self, index: &BlockCursor) -> Result<BlockHandle> {
        Ok(BlockHandle::of(index).map_err(|damage| self.in_metadata(damage))?)
    }

    /// Returns the first entry at or behind `to` in a block, if it is of the same key.
    #[inline]
    pub fn search_block(
        &self,
        block: &Block,
        handle: BlockHandle,
        to: Target<'_>,
        into: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let hit = block.find(self.stored_place(to));
        let hit = hit.map_err(|damage| self.in_block(damage, handle))?.filter(|hit| hit.has_key);
        let entry = |hit: Hit<'_>| {
            let entry = Entry { key: to.key, seqno: hit.seqno, value: hit.value };
            Found::copy(&self.numbered(entry), into)
        };
        Ok(hit.map(entry))
    }

    fn unseal(&self, stored: &[u8], handle: BlockHandle, home: Home<'_>) -> Result<Arc<Block>> {
        let block = Block::unseal(stored, self.place(handle), home);
        Ok(Arc::new(block.map_err(|damage| self.in_block(damage, handle))?))
    }

    /// Returns the length of a block, after a check that the block is within its fragment.
    fn stored_len(&self, handle: BlockHandle) -> Result<usize> {
        let fragment = self.summary.properties.fragments.get(handle.fragment as usize);
        let end = handle.offset.checked_add(u64::from(handle.len));
        match (fragment, end) {
            (Some(fragment), Some(end)) if end <= *fragment => Ok(handle.len as usize),
            _ => {
                let what = format!("{handle:?} lies outside of its fragment");
                Err(self.in_metadata(codec::Corruption::new(what, 0)).into())
            }
        }
    }

    fn place(&self, handle: BlockHandle) -> Place {
        self.summary.id.place(handle.fragment, handle.offset)
    }

    /// Returns damage of a block with its place.
    pub fn in_block(&self, damage: codec::Corruption, handle: BlockHandle) -> codec::Corruption {
        let (name, base) = self.source.place_of(handle.fragment, handle.offset);
        codec::Corruption { file: String::new(), offset: 0, ..damage }.at(&name, base)
    }

    /// Returns damage of the metadata with its place.
    pub fn in_metadata(&self, damage: codec::Corruption) -> codec::Corruption {
        let (name, base) = self.source.place_of_metadata();
        codec::Corruption { file: String::new(), offset: 0, ..damage }.at(&name, base)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(removals) = self.obsolete.get() {
            removals.note_left(self.summary.id.number);
        }
    }
}

/// A piece of a table that is read with one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The table's metadata.
    Metadata,
    /// A data block.
    Block(BlockHandle),
}

/// The first read of a walk in a table: a piece that the cache does not have, and the blocks after
/// it that the walk is expected to reach.
#[derive(Debug)]
pub struct Missing {
    /// The table.
    pub table: Arc<Table>,
    /// The piece.
    pub piece: Piece,
    /// The blocks after it in the direction of the walk, of the same fragment.
    pub after: Vec<BlockHandle>,
}

impl Missing {
    /// Returns a piece without blocks after it.
    pub(crate) fn of(table: &Arc<Table>, piece: Piece) -> Self {
        Self { table: Arc::clone(table), piece, after: Vec::new() }
    }

    /// Returns its blocks in the order of the walk; none for metadata.
    fn blocks(&self) -> impl Iterator<Item = BlockHandle> {
        let first = match self.piece {
            Piece::Metadata => None,
            Piece::Block(handle) => Some(handle),
        };
        first.into_iter().chain(self.after.iter().copied())
    }

    /// Returns the offset of its first block in the fragment. The blocks after the piece are before
    /// it in a walk backward.
    fn first_offset(&self) -> u64 {
        self.blocks().map(|block| block.offset).min().unwrap_or(0)
    }

    /// Returns the span from which one read gets all of it.
    ///
    /// # Errors
    /// Damage, if the index has a block outside of its fragment.
    pub fn span(&self) -> Result<Span> {
        let Piece::Block(first) = self.piece else { return self.table.span(self.piece) };
        let (from, mut to) = (self.first_offset(), 0);
        for block in self.blocks() {
            to = to.max(block.offset + self.table.stored_len(block)? as u64);
        }
        self.table.source.span(first.fragment, from, (to - from) as usize)
    }

    /// Verifies what was read from [`Missing::span`], so that the cache has it from now on. Returns
    /// the number of pieces. Ends at the first damaged one, in the order of the walk, which reads
    /// that one alone and reports the damage.
    pub fn keep(&self, stored: &[u8]) -> u64 {
        if self.piece == Piece::Metadata {
            return u64::from(self.table.keep(self.piece, stored).is_ok());
        }
        let (from, mut kept) = (self.first_offset(), 0);
        for block in self.blocks().filter(|block| !self.table.has_cached(*block)) {
            let start = (block.offset - from) as usize;
            let bytes = stored.get(start..).and_then(|rest| rest.get(..block.len as usize));
            if self.table.keep(Piece::Block(block), bytes.unwrap_or_default()).is_err() {
                break;
            }
            kept += 1;
        }
        kept
    }
}

/// How searches of tables went.
#[derive(Debug, Default)]
pub struct Lookups {
    /// The filter said that the key is not there.
    pub filtered: std::sync::atomic::AtomicU64,
    /// The lookup index led to a memtable that had it.
    pub led: std::sync::atomic::AtomicU64,
    /// And to a table of Level 0.
    pub led_to_tables: std::sync::atomic::AtomicU64,
    /// A block was searched.
    pub searched: std::sync::atomic::AtomicU64,
    /// Among these: in vain.
    pub mistaken: std::sync::atomic::AtomicU64,
    /// Whether searches in vain may have made a compaction worth it.
    pub is_plan_due: AtomicBool,
}

impl Lookups {
    /// Counts a search of a block of this table in vain.
    pub fn mistake(&self, table: &Table) {
        self.mistaken.fetch_add(1, Relaxed);
        if table.visit() {
            self.is_plan_due.store(true, Relaxed);
        }
    }
}
