//! A table's metadata: the index of its blocks, its filter, its properties.
//!
//! # Format
//! Three fields with their lengths (varint) in front: the index, the filter (`filter.rs`), the
//! properties. Then the CRC32C of the metadata's place and of all before.
//!
//! The index is a block (`block.rs`). For each data block it has a place at or behind the data
//! block's last entry and before the next block's first, with the handle as the value.

use std::sync::Arc;

use codec::{Corruption, Reader, Writer};

use super::block::{Block, BlockCursor};
use super::filter::Filter;
use super::held::Home;
use super::summary::{Properties, TableId};

/// Location of a data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHandle {
    /// The fragment that the block is in.
    pub fragment: u32,
    /// Offset of the block in the fragment.
    pub offset: u64,
    /// Bytes stored, the trailer included.
    pub len: u32,
}

impl BlockHandle {
    /// Returns whether a block ends where `other` begins, in the same fragment.
    pub(super) fn ends_at(self, other: Self) -> bool {
        self.fragment == other.fragment
            && self.offset.checked_add(u64::from(self.len)) == Some(other.offset)
    }

    /// Returns its bytes.
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        out.put_varint(u64::from(self.fragment));
        out.put_varint(self.offset);
        out.put_varint(u64::from(self.len));
        bytes
    }

    /// Returns the handle at which a walk over an index is positioned.
    pub fn of(index: &BlockCursor) -> Result<Self, Corruption> {
        Self::in_entry(index.entry().and_then(|entry| entry.value))
    }

    /// Returns the handle in the value of an index's entry.
    pub(super) fn in_entry(value: Option<&[u8]>) -> Result<Self, Corruption> {
        let value = value.ok_or_else(|| Corruption::new("an index entry has no handle", 0))?;
        let mut reader = Reader::new(value);
        let handle = Self {
            fragment: reader.take_varint_u32()?,
            offset: reader.take_varint_u64()?,
            len: reader.take_varint_u32()?,
        };
        reader.finish()?;
        Ok(handle)
    }
}

/// A table's metadata, in memory.
#[derive(Debug)]
pub struct Metadata {
    /// The index: the last place of each block, and its handle.
    pub index: Arc<Block>,
    /// The filter of the table's keys.
    pub filter: Filter,
    /// The properties of the table.
    pub properties: Properties,
}

/// Encodes the metadata of a table.
pub(crate) fn encode(index: &[u8], filter: &[u8], properties: &Properties, id: TableId) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = Writer::new(&mut bytes);
    out.put_prefixed(index);
    out.put_prefixed(filter);
    let mut encoded = Vec::new();
    properties.encode(&mut Writer::new(&mut encoded));
    out.put_prefixed(&encoded);
    let checksum = id.place_of_metadata().crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

impl Metadata {
    /// Decodes the result of [`encode`], for `home`.
    pub fn decode(bytes: &[u8], id: TableId, home: Home<'_>) -> Result<Self, Corruption> {
        let Some((content, checksum)) = bytes.split_last_chunk::<4>() else {
            return Err(Corruption::new("a table's metadata are cut short", 0));
        };
        if id.place_of_metadata().crc32c(content) != u32::from_le_bytes(*checksum) {
            return Err(Corruption::new("the checksum of a table's metadata does not match", 0));
        }
        Self::decode_content(content, home)
    }

    fn decode_content(content: &[u8], home: Home<'_>) -> Result<Self, Corruption> {
        let mut reader = Reader::new(content);
        let index = Arc::new(Block::decode(home.copy(reader.take_prefixed()?))?);
        let filter = Filter::decode(reader.take_prefixed()?, home)?;
        let mut encoded = Reader::new(reader.take_prefixed()?);
        let properties = Properties::decode(&mut encoded)?;
        encoded.finish()?;
        reader.finish()?;
        Ok(Self { index, filter, properties })
    }

    /// Returns the bytes of memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.index.memory() + self.filter.memory()
    }

    /// Sets the cache's mark on its bytes.
    pub fn mark(&self, mark: u64) {
        self.index.mark(mark);
        self.filter.mark(mark);
    }

    /// Copies it to another home.
    pub fn copied(&self, home: Home<'_>) -> Self {
        Self {
            index: Arc::new(self.index.copied(home)),
            filter: self.filter.copied(home),
            properties: self.properties.clone(),
        }
    }

    /// Returns the part of these bytes that belongs to the cache.
    pub fn pooled(&self) -> usize {
        self.index.pooled() + self.filter.pooled()
    }
}

/// Decodes a table's metadata that no checksum vouches for, and walks over the index: the entry for
/// fuzzing.
///
/// # Errors
/// The damage.
pub fn decode_metadata(content: &[u8]) -> Result<u64, Corruption> {
    let metadata = Metadata::decode_content(content, Home::Own)?;
    let mut index = BlockCursor::new(metadata.index);
    let mut blocks = 0;
    let mut is_there = index.seek(crate::entry::Target::START)?;
    while is_there {
        BlockHandle::of(&index)?;
        blocks += u64::from(metadata.filter.may_contain(blocks));
        is_there = index.next()?;
    }
    let mut is_there = index.seek_before(None)?;
    while is_there {
        is_there = index.previous()?;
    }
    Ok(blocks)
}
