//! Tables: entries in order, written once, in data blocks and the metadata that leads to them.
//!
//! ```text
//!   data       fragment 0 | block | block | ... |      fragment 1 | ...      (local: one fragment)
//!   metadata   index: the last place of each block -> its handle · filter · properties
//! ```
//!
//! A [`Table`] is what everybody above knows: it searches and walks. Its bytes come from a
//! [`TableStore`], which knows fragments and metadata and nothing of what is in them, so that it
//! can be one local file or many places; both go through the [`crate::cache`].
//!
//! # Invariants
//! - T1. What is read was verified against a checksum that covers the table's number, its nonce and
//!   the offset; damage is reported with the file and the offset.
//! - T2. A table that the manifest names no more is removed when the last [`Table`] of it is
//!   dropped, so nobody who still reads it loses it.

mod block;
mod builder;
mod compression;
mod cursor;
mod filter;
mod local;
mod metadata;
mod source;
mod summary;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use codec::Place;
use engine::Result;

use crate::cache::{Cache, Cached};
use crate::entry::{Found, Target};
pub(crate) use block::Block;
use block::BlockCursor;
pub use block::decode_block;
pub(crate) use builder::{TableBuilder, TableOptions};
pub use compression::Compression;
pub(crate) use cursor::{LevelCursor, Reading, TableCursor};
pub(crate) use filter::hash;
pub(crate) use local::LocalTables;
pub use metadata::decode_metadata;
pub(crate) use metadata::{BlockHandle, Metadata};
pub(crate) use source::{TableSource, TableStore};
pub(crate) use summary::{Properties, Summary, TableId};

/// A table, open.
#[derive(Debug)]
pub(crate) struct Table {
    summary: Summary,
    source: Arc<dyn TableSource>,
    store: Arc<dyn TableStore>,
    cache: Arc<Cache>,
    is_doomed: AtomicBool,
}

impl Table {
    /// Opens the table of which `summary` tells.
    pub(crate) fn open(
        summary: Summary,
        store: &Arc<dyn TableStore>,
        cache: &Arc<Cache>,
    ) -> Result<Arc<Self>> {
        let source = store.open(&summary)?;
        Ok(Arc::new(Self {
            summary,
            source,
            store: Arc::clone(store),
            cache: Arc::clone(cache),
            is_doomed: AtomicBool::new(false),
        }))
    }

    /// What the manifest says of it.
    pub(crate) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Where its bytes are.
    pub(crate) fn source(&self) -> &dyn TableSource {
        &*self.source
    }

    /// It is removed with the last reference: the manifest does not name it any more, durably.
    pub(crate) fn doom(&self) {
        self.is_doomed.store(true, Relaxed);
    }

    /// Whether `key` lies between its smallest and its largest.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        let properties = &self.summary.properties;
        properties.smallest.as_slice() <= key && key <= properties.largest.as_slice()
    }

    /// The newest version of `to.key` at or below `to.seqno`. At most one data block is read, and
    /// the metadata where the cache has lost them.
    pub(crate) fn get(
        &self,
        to: Target<'_>,
        hash: u64,
        into: &mut Vec<u8>,
        lookups: &Lookups,
    ) -> Result<Option<Found>> {
        let metadata = self.metadata()?;
        if !metadata.filter.may_contain(hash) {
            lookups.filtered.fetch_add(1, Relaxed);
            return Ok(None);
        }
        lookups.searched.fetch_add(1, Relaxed);
        let mut index = BlockCursor::new(Arc::clone(&metadata.index));
        let placed = |damage: codec::Corruption| self.in_metadata(damage);
        // The first block whose last place is not before the target has it, unless it lies between
        // two blocks: then it begins the next one.
        if !index.seek(to).map_err(placed)? {
            return Ok(None);
        }
        let handle = BlockHandle::of(&index).map_err(placed)?;
        let mut block = BlockCursor::new(self.block(handle)?);
        let mut found = block.seek(to).map_err(|damage| self.in_block(damage, handle))?;
        if !found && index.next().map_err(placed)? {
            let handle = BlockHandle::of(&index).map_err(placed)?;
            block = BlockCursor::new(self.block(handle)?);
            found = block.seek(to).map_err(|damage| self.in_block(damage, handle))?;
        }
        let entry = block.entry().filter(|entry| found && entry.key == to.key);
        if entry.is_none() {
            lookups.mistaken.fetch_add(1, Relaxed);
        }
        Ok(entry.map(|entry| Found::copy(&entry, into)))
    }

    /// Its metadata, out of the cache or read.
    pub(crate) fn metadata(&self) -> Result<Arc<Metadata>> {
        let key = crate::cache::Key::metadata(self.summary.id.number);
        if let Some(Cached::Metadata(metadata)) = self.cache.get(&key) {
            return Ok(metadata);
        }
        let bytes = self.source.metadata()?;
        let metadata = Metadata::decode(&bytes, self.summary.id);
        let metadata = Arc::new(metadata.map_err(|damage| self.in_metadata(damage))?);
        self.cache.insert(key, Cached::Metadata(Arc::clone(&metadata)));
        Ok(metadata)
    }

    /// A data block, out of the cache or read.
    fn block(&self, handle: BlockHandle) -> Result<Arc<Block>> {
        let key = crate::cache::Key::block(self.summary.id.number, handle.fragment, handle.offset);
        if let Some(Cached::Block(block)) = self.cache.get(&key) {
            return Ok(block);
        }
        let mut stored = vec![0; self.stored_len(handle)?];
        self.source.read(handle.fragment, handle.offset, &mut stored)?;
        let block = self.unseal(&stored, handle)?;
        self.cache.insert(key, Cached::Block(Arc::clone(&block)));
        Ok(block)
    }

    fn unseal(&self, stored: &[u8], handle: BlockHandle) -> Result<Arc<Block>> {
        let block = Block::unseal(stored, self.place(handle));
        Ok(Arc::new(block.map_err(|damage| self.in_block(damage, handle))?))
    }

    /// The length of a block, once it is clear that the fragment holds as much.
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

    fn in_block(&self, damage: codec::Corruption, handle: BlockHandle) -> codec::Corruption {
        let (name, base) = self.source.place_of(handle.fragment, handle.offset);
        codec::Corruption { file: String::new(), offset: 0, ..damage }.at(&name, base)
    }

    fn in_metadata(&self, damage: codec::Corruption) -> codec::Corruption {
        let (name, base) = self.source.place_of_metadata();
        codec::Corruption { file: String::new(), offset: 0, ..damage }.at(&name, base)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.is_doomed.load(Relaxed) {
            // What cannot be removed now is an orphan, and goes when the store is opened.
            let _ = self.store.remove(self.summary.id.number);
        }
    }
}

/// How searches of tables went.
#[derive(Debug, Default)]
pub(crate) struct Lookups {
    /// The filter said that the key is not there.
    pub(crate) filtered: std::sync::atomic::AtomicU64,
    /// A block was searched.
    pub(crate) searched: std::sync::atomic::AtomicU64,
    /// Among these: in vain.
    pub(crate) mistaken: std::sync::atomic::AtomicU64,
}
