//! A block: entries in order, keys without what they share with the one before.
//!
//! # Format
//! Entries, then the offset of each restart point (`u32`), then the number of restart points
//! (`u32`). An entry has these fields:
//!
//! | field | meaning |
//! |---|---|
//! | varint | bytes that its key shares with the key before; 0 at a restart point |
//! | varint | bytes of the key's rest |
//! | varint | sequence number |
//! | varint | 0 for a tombstone, else 1 + bytes of the value |
//! | bytes | the key's rest, the value |
//!
//! On the device a block is followed by a byte that says how it is compressed and by the CRC32C of
//! its place, its bytes and that byte (`docs/formats/lsm-table.md`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::{Corruption, Place, Reader, SeqNo, Writer};

use super::compression::{Compression, Compressor, Tally};
use super::held::{Held, Home};
use crate::entry::{Entry, Target};

/// Entries from one restart point to the next.
pub(super) const RESTART_INTERVAL: usize = 16;
/// An offset or a count at a block's end.
const WORD: usize = 4;

/// Builds blocks sequentially.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    since_restart: usize,
    last_key: Vec<u8>,
    restart_interval: usize,
}

impl BlockBuilder {
    /// Makes an empty builder.
    pub(crate) fn new(restart_interval: usize) -> Self {
        Self {
            bytes: Vec::new(),
            restarts: Vec::new(),
            since_restart: 0,
            last_key: Vec::new(),
            restart_interval,
        }
    }

    /// Adds an entry behind all that were added.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        let restarts = self.restarts.is_empty() || self.since_restart == self.restart_interval;
        let shared = if restarts {
            self.restarts.push(self.bytes.len() as u32);
            self.since_restart = 0;
            0
        } else {
            self.last_key.iter().zip(entry.key).take_while(|(a, b)| a == b).count()
        };
        self.since_restart += 1;
        let (_, rest) = entry.key.split_at(shared);
        let mut out = Writer::new(&mut self.bytes);
        out.put_varint(shared as u64);
        out.put_varint(rest.len() as u64);
        out.put_varint(entry.seqno.get());
        out.put_varint(entry.value.map_or(0, |value| 1 + value.len() as u64));
        out.put_bytes(rest);
        out.put_bytes(entry.value.unwrap_or_default());
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(rest);
    }

    /// Returns the block's length so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + WORD * (self.restarts.len() + 1)
    }

    /// Returns whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Ends the block; the builder is empty again.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        let mut out = Writer::new(&mut bytes);
        let count = self.restarts.len() as u32;
        for restart in self.restarts.drain(..) {
            out.put_u32(restart);
        }
        out.put_u32(count);
        self.since_restart = 0;
        self.last_key.clear();
        bytes
    }

    /// Takes memory for the next block, such as that of a block that is stored already.
    pub(crate) fn reuse(&mut self, mut memory: Vec<u8>) {
        if self.is_empty() && self.bytes.capacity() < memory.capacity() {
            memory.clear();
            self.bytes = memory;
        }
    }
}

/// Returns the bytes that are stored for a block: compressed if that pays, with its trailer.
pub(crate) fn seal(block: Vec<u8>, compressor: &mut Compressor, place: Place) -> Vec<u8> {
    let mut bytes = compress(block, compressor);
    let checksum = place.crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Compresses a block if that pays, and appends the byte that says how.
fn compress(block: Vec<u8>, compressor: &mut Compressor) -> Vec<u8> {
    let (mut bytes, used) = compressor.compress(block);
    bytes.push(used.byte());
    bytes
}

/// A block, verified and decompressed.
#[derive(Debug)]
pub struct Block {
    bytes: Held,
    /// Offset at which the entries end and the restart points begin.
    entries_len: usize,
    restart_count: usize,
}

impl Block {
    /// Verifies the bytes stored at `place`, for `home`. Offsets of damage count from the block's
    /// beginning.
    pub fn unseal(stored: &[u8], place: Place, home: Home<'_>) -> Result<Self, Corruption> {
        Self::decode(unseal(stored, place, home)?)
    }

    /// Makes a block of these bytes, whether or not a checksum vouches for them.
    pub fn decode(bytes: impl Into<Held>) -> Result<Self, Corruption> {
        let bytes = bytes.into();
        let Some((rest, count)) = bytes.split_last_chunk::<WORD>() else {
            return Err(Corruption::new("a block is too short", 0));
        };
        let restart_count = u32::from_le_bytes(*count) as usize;
        let entries_len = restart_count
            .checked_mul(WORD)
            .and_then(|words| rest.len().checked_sub(words))
            .filter(|_| restart_count > 0)
            .ok_or_else(|| Corruption::new("a block's restart points do not fit", 0))?;
        Ok(Self { bytes, entries_len, restart_count })
    }

    /// Returns the bytes of memory.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes.memory()
    }

    /// Sets the cache's mark on its bytes.
    pub fn mark(&self, mark: u64) {
        self.bytes.mark(mark);
    }

    /// Copies it to another home.
    pub fn copied(&self, home: Home<'_>) -> Self {
        Self { bytes: home.copy(&self.bytes), ..*self }
    }

    /// Returns the part of these bytes that belongs to the cache.
    pub fn pooled(&self) -> usize {
        self.bytes.pooled()
    }

    /// Returns the first entry at or behind `to`, if there is one. Makes no copy of a key, so it
    /// takes no memory.
    pub(crate) fn find(&self, to: Target<'_>) -> Result<Option<Hit<'_>>, Corruption> {
        let before = self
            .last_restart(|_, fields| Ok(Target { key: fields.rest, seqno: fields.seqno } < to))?;
        let mut offset = self.restart(before.unwrap_or(0))?;
        // Of the entry before: the bytes of its key, and how many of them `to` begins with. The
        // entry is before `to`, so it is less in the byte behind these, or has none.
        let (mut key_len, mut matched) = (0, 0);
        while offset < self.entries_len {
            let (entry, end) = fields(self, offset)?;
            if entry.shared > key_len {
                return Err(shares_too_much());
            }
            key_len = entry.shared + entry.rest.len();
            // With more shared bytes it has the byte that makes the entry before less.
            if entry.shared <= matched {
                let wanted = to.key.get(entry.shared..).unwrap_or_default();
                let common = wanted.iter().zip(entry.rest).take_while(|(a, b)| a == b).count();
                matched = entry.shared + common;
                let order = entry.rest.get(common).cmp(&wanted.get(common));
                if order.then_with(|| to.seqno.cmp(&entry.seqno)).is_ge() {
                    let value = entry.value_len.map(|len| entry.value_at..entry.value_at + len);
                    let value = value.map(|range| self.bytes.get(range).unwrap_or_default());
                    return Ok(Some(Hit { has_key: order.is_eq(), seqno: entry.seqno, value }));
                }
            }
            offset = end;
        }
        Ok(None)
    }

    /// Returns the last restart point for which `holds` is true; for all points behind it, it is
    /// false.
    fn last_restart(
        &self,
        holds: impl Fn(usize, &Fields<'_>) -> Result<bool, Corruption>,
    ) -> Result<Option<usize>, Corruption> {
        let (mut low, mut high) = (0, self.restart_count);
        while low < high {
            let middle = low + (high - low) / 2;
            let offset = self.restart(middle)?;
            let (fields, _) = fields(self, offset)?;
            if holds(offset, &fields)? { low = middle + 1 } else { high = middle }
        }
        Ok(low.checked_sub(1))
    }

    #[inline]
    fn restart(&self, index: usize) -> Result<usize, Corruption> {
        let at = self.entries_len + index * WORD;
        let word = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk::<WORD>());
        let offset = word.map(|word| u32::from_le_bytes(*word) as usize);
        offset
            .filter(|offset| *offset < self.entries_len)
            .ok_or_else(|| Corruption::new("a block's restart point lies behind its entries", 0))
    }
}

/// An entry that a search has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit<'b> {
    /// Whether it is of the key that was searched for.
    pub(crate) has_key: bool,
    pub(crate) seqno: SeqNo,
    /// The value, or `None` for a tombstone.
    pub(crate) value: Option<&'b [u8]>,
}

fn shares_too_much() -> Corruption {
    Corruption::new("an entry shares more than its predecessor has", 0)
}

/// Returns the bytes of a block after its checksum was verified.
fn unseal(stored: &[u8], place: Place, home: Home<'_>) -> Result<Held, Corruption> {
    let Some((sealed, checksum)) = stored.split_last_chunk::<4>() else {
        return Err(Corruption::new("a block is cut short", 0));
    };
    if place.crc32c(sealed) != u32::from_le_bytes(*checksum) {
        return Err(Corruption::new("a block's checksum does not match", 0));
    }
    decompress(sealed, home)
}

/// Decompresses the bytes of a block, as its last byte says.
fn decompress(sealed: &[u8], home: Home<'_>) -> Result<Held, Corruption> {
    let Some((compression, bytes)) = sealed.split_last() else {
        return Err(Corruption::new("a block is cut short", 0));
    };
    Compression::of_byte(*compression)?.decompress_by(bytes, |len| home.take(len))
}

/// Decompresses a block that no checksum vouches for, walks over it both ways, and searches it: the
/// entry for fuzzing. Returns the number of its entries.
///
/// # Errors
/// The damage.
pub fn decode_block(sealed: &[u8]) -> Result<usize, Corruption> {
    let block = Arc::new(Block::decode(decompress(sealed, Home::Own)?)?);
    let mut cursor = BlockCursor::new(Arc::clone(&block));
    let (mut forward, mut backward) = (0, 0);
    let mut is_there = cursor.seek(Target::START)?;
    while is_there {
        forward += 1;
        if let Some(entry) = cursor.entry() {
            block.find(entry.target())?;
        }
        is_there = cursor.next()?;
    }
    let mut is_there = cursor.seek_before(None)?;
    while is_there && backward <= forward {
        backward += 1;
        is_there = cursor.previous()?;
    }
    Ok(forward)
}

/// Compresses any bytes as if they were a block, and decompresses them: the other entry for
/// fuzzing. Returns the compressed bytes, as [`decode_block`] takes them.
///
/// # Panics
/// If they are not the same, or if zstd did not find out by itself that it made a mistake.
pub fn recode_block(block: &[u8], compression: Compression) -> Vec<u8> {
    let tally = Arc::new(Tally::default());
    let sealed = compress(block.to_vec(), &mut Compressor::new(compression, &tally));
    assert_eq!(decompress(&sealed, Home::Own).as_deref(), Ok(block), "by {compression}");
    assert_eq!(tally.mistakes.load(Relaxed), 0, "by {compression}");
    sealed
}

/// The fields of an entry as a block has them.
struct Fields<'a> {
    shared: usize,
    rest: &'a [u8],
    seqno: SeqNo,
    value_len: Option<usize>,
    /// Offset at which its value begins.
    value_at: usize,
}

/// A walk over a block.
#[derive(Clone, Debug)]
pub struct BlockCursor {
    block: Arc<Block>,
    /// Offsets of the current entry (`at`) and of the entry behind it (`next`).
    at: usize,
    next: usize,
    key: Vec<u8>,
    seqno: SeqNo,
    value: Option<std::ops::Range<usize>>,
    is_valid: bool,
}

impl BlockCursor {
    /// Makes a cursor that is not positioned.
    pub fn new(block: Arc<Block>) -> Self {
        Self {
            block,
            at: 0,
            next: 0,
            key: Vec::new(),
            seqno: SeqNo::ZERO,
            value: None,
            is_valid: false,
        }
    }

    /// Returns the current entry.
    #[inline]
    pub fn entry(&self) -> Option<Entry<'_>> {
        if !self.is_valid {
            return None;
        }
        let value = self.value.clone().map(|range| self.block.bytes.get(range).unwrap_or_default());
        Some(Entry { key: &self.key, seqno: self.seqno, value })
    }

    /// Goes to the first entry at or behind `to`. Returns whether there is one.
    pub fn seek(&mut self, to: Target<'_>) -> Result<bool, Corruption> {
        self.go_to_restart(self.restart_before(to)?)?;
        while self.is_valid && self.target() < to {
            self.next()?;
        }
        Ok(self.is_valid)
    }

    /// Goes to the last entry before `to`, or the last of all. Returns whether there is one.
    pub fn seek_before(&mut self, to: Option<Target<'_>>) -> Result<bool, Corruption> {
        let restart = match to {
            Some(to) => self.restart_before(to)?,
            None => self.block.restart_count - 1,
        };
        self.go_to_restart(restart)?;
        let mut last = None;
        while self.is_valid && to.is_none_or(|to| self.target() < to) {
            last = Some(self.at);
            self.next()?;
        }
        match last {
            Some(last) => self.go_to_entry(restart, last)?,
            None => self.is_valid = false,
        }
        Ok(self.is_valid)
    }

    /// Goes one entry forward. Returns whether there is one more.
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor that lends its entry is no iterator"
    )]
    pub fn next(&mut self) -> Result<bool, Corruption> {
        self.is_valid = self.next < self.block.entries_len;
        if self.is_valid {
            self.read(self.next)?;
        }
        Ok(self.is_valid)
    }

    /// Goes one entry backward. Returns whether there is one.
    pub fn previous(&mut self) -> Result<bool, Corruption> {
        let here = self.at;
        let Some(restart) = self.block.last_restart(|offset, _| Ok(offset < here))? else {
            self.is_valid = false;
            return Ok(false);
        };
        self.go_to_restart(restart)?;
        while self.is_valid && self.next < here {
            self.next()?;
        }
        Ok(self.is_valid)
    }

    #[inline]
    fn target(&self) -> Target<'_> {
        Target { key: &self.key, seqno: self.seqno }
    }

    /// Returns the last restart point whose entry is before `to`, or the first.
    #[inline]
    fn restart_before(&self, to: Target<'_>) -> Result<usize, Corruption> {
        let found = self
            .block
            .last_restart(|_, fields| Ok(Target { key: fields.rest, seqno: fields.seqno } < to))?;
        Ok(found.unwrap_or(0))
    }

    fn go_to_restart(&mut self, restart: usize) -> Result<(), Corruption> {
        self.key.clear();
        self.is_valid = true;
        let offset = self.block.restart(restart)?;
        self.read(offset)
    }

    fn go_to_entry(&mut self, restart: usize, at: usize) -> Result<(), Corruption> {
        self.go_to_restart(restart)?;
        while self.is_valid && self.at < at {
            self.next()?;
        }
        Ok(())
    }

    /// Reads the entry at `offset`; `key` is the key before it.
    #[inline]
    fn read(&mut self, offset: usize) -> Result<(), Corruption> {
        let Self { block, at, next, key, seqno, value, is_valid } = self;
        let (fields, end) = fields(block, offset)?;
        if fields.shared > key.len() {
            *is_valid = false;
            return Err(shares_too_much());
        }
        key.truncate(fields.shared);
        key.extend_from_slice(fields.rest);
        *seqno = fields.seqno;
        *value = fields.value_len.map(|len| fields.value_at..fields.value_at + len);
        (*at, *next) = (offset, end);
        Ok(())
    }
}

/// Returns the entry at `offset`, and the offset of its end.
#[inline]
fn fields(block: &Block, offset: usize) -> Result<(Fields<'_>, usize), Corruption> {
    let bytes = block.bytes.get(offset..block.entries_len).unwrap_or_default();
    let mut reader = Reader::new(bytes);
    let shared = reader.take_varint_u32()? as usize;
    let rest_len = reader.take_varint_u32()? as usize;
    let seqno = SeqNo::new(reader.take_varint_u64()?);
    let value_len = (reader.take_varint_u32()? as usize).checked_sub(1);
    let rest = reader.take_bytes(rest_len)?;
    let value_at = offset + reader.position();
    reader.take_bytes(value_len.unwrap_or(0))?;
    let end = offset + reader.position();
    Ok((Fields { shared, rest, seqno, value_len, value_at }, end))
}
