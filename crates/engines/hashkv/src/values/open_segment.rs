//! A segment that is being filled: its records, and the part of them that is not on the device.
//!
//! ```text
//!  0               frozen.begin     begin               end
//!  | on the device | being written  | the buffer         |
//! ```
//!
//! # Replacement
//! A put may take the place of an earlier value of its key and length that is in the buffer
//! ([`OpenSegment::replace`]). The handle of the earlier write then leads to the later record.
//! That is the value of a later moment, and no snapshot sees the earlier one. So a reader that
//! accepts a record with a larger number than its handle's reads a value that it may return.
//!
//! A record that is cut is never replaced: it is being written, and the journal may not have the
//! later write yet.

use std::sync::Arc;

use codec::SeqNo;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use super::Segment;
use super::bound::charge;
use crate::index_value::Handle;
use crate::key_hash::KeyHash;
use crate::segment::footer::{Entry, footer_bytes};
use crate::segment::record::{BLOCK_BYTES, Record, place};

/// Bytes by which a buffer grows, at least ...
const GROWTH_BYTES: usize = 4 << 10;
/// ... and entries of a footer. A longer one grows by this part of it.
const GROWTH_ENTRIES: usize = 16;
const GROWTH_PARTS: usize = 8;
/// Bytes of a segment for each of its records, at least: with more records it is full. The entries
/// of its footer take memory until it is sealed.
const BYTES_PER_ENTRY_MIN: usize = 256;

/// Bytes of memory of an entry, with its place in the table of replaceable records.
pub(super) const ENTRY_MEMORY_BYTES: u64 = size_of::<Entry>() as u64 + 12;

/// A part of a segment that is cut and does not change.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    /// Its first byte in the segment: the beginning of a block.
    pub(crate) begin: usize,
    /// Whole blocks.
    pub(crate) bytes: Arc<Vec<u8>>,
    /// The largest number of its records.
    pub(crate) newest: SeqNo,
    /// Bytes of its records.
    counted: u64,
}

/// A segment that accepts records, or that is full and not sealed yet.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) segment: Arc<Segment>,
    /// Bytes of the segment on the device.
    capacity: usize,
    /// The part that is being written, or whose write has failed.
    frozen: Option<Frozen>,
    /// The records behind the frozen part, and the offset of the first one.
    buffer: Vec<u8>,
    begin: usize,
    /// The largest number in the buffer.
    newest_in_buffer: SeqNo,
    entries: Vec<Entry>,
    /// The latest value of each key in the buffer, by its place in `entries`, if later writes may
    /// replace it.
    replaceable: HashTable<u32>,
    newest: SeqNo,
}

impl OpenSegment {
    pub(crate) fn new(segment: Arc<Segment>, capacity: usize) -> Self {
        Self {
            segment,
            capacity,
            frozen: None,
            buffer: Vec::new(),
            begin: 0,
            newest_in_buffer: SeqNo::ZERO,
            entries: Vec::new(),
            replaceable: HashTable::new(),
            newest: SeqNo::ZERO,
        }
    }

    fn end(&self) -> usize {
        self.begin + self.buffer.len()
    }

    /// Returns whether there is room for a record of `bytes` bytes, and for the footer then.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let records = (self.end() + bytes).next_multiple_of(BLOCK_BYTES);
        let entries = self.entries.len() + 1;
        entries <= self.capacity / BYTES_PER_ENTRY_MIN
            && records + footer_bytes(entries) <= self.capacity
    }

    /// Returns the bytes of charges for which there is always room ([`super::bound`]). A cut
    /// does not change it, and a record takes its charge of it at most.
    pub(crate) fn free(&self) -> u64 {
        let used = self.end().next_multiple_of(BLOCK_BYTES) + footer_bytes(self.entries.len());
        let entries = (self.capacity / BYTES_PER_ENTRY_MIN).saturating_sub(self.entries.len());
        (self.capacity.saturating_sub(used) as u64).min(entries as u64 * charge(1))
    }

    /// Appends a record, for which there is room.
    pub(crate) fn append(&mut self, record: &Record<'_>, hash: KeyHash, store: u64) -> Handle {
        let (segment, offset) = (self.segment.number, self.end());
        let bytes = record.bytes();
        if self.buffer.capacity() - self.buffer.len() < bytes {
            let growth = bytes.max(self.buffer.len() / GROWTH_PARTS);
            self.buffer.reserve_exact(growth.next_multiple_of(GROWTH_BYTES));
        }
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact((self.entries.len() / GROWTH_PARTS).max(GROWTH_ENTRIES));
        }
        record.encode(place(segment, offset as u64, store), &mut self.buffer);
        let (offset, bytes, number) = (offset as u32, bytes as u32, record.number);
        self.entries.push(record.entry(hash, offset));
        self.note_number(number);
        Handle { segment, offset, bytes, number }
    }

    fn note_number(&mut self, number: SeqNo) {
        self.newest = self.newest.max(number);
        self.newest_in_buffer = self.newest_in_buffer.max(number);
    }

    /// Lets later writes replace the value that was appended last, whose key has this hash.
    pub(crate) fn note_replaceable(&mut self, hash: KeyHash) {
        let entries = &self.entries;
        let hash_of = |at: &u32| entries.get(*at as usize).map(|entry| entry.hash);
        let last = entries.len() as u32 - 1;
        let is_same = |at: &u32| hash_of(at) == Some(hash);
        match self.replaceable.entry(hash.low(), is_same, |at| hash_of(at).map_or(0, KeyHash::low))
        {
            Slot::Occupied(mut slot) => *slot.get_mut() = last,
            Slot::Vacant(slot) => _ = slot.insert(last),
        }
    }

    /// Writes a value over the latest one of its key, and returns its handle, if that one is in the
    /// buffer, has the same length and is of an earlier write that no snapshot sees.
    pub(crate) fn replace(
        &mut self,
        record: &Record<'_>,
        hash: KeyHash,
        store: u64,
        is_seen: &dyn Fn(SeqNo, SeqNo) -> bool,
    ) -> Option<Handle> {
        let (segment, number, bytes) = (self.segment.number, record.number, record.bytes());
        let is_same = |at: &u32| self.entries.get(*at as usize).is_some_and(|it| it.hash == hash);
        let at = *self.replaceable.find(hash.low(), is_same)?;
        let entry = self.entries.get_mut(at as usize)?;
        let is_later = entry.number < number;
        let is_as_long = entry.bytes as usize == bytes;
        if !is_later || !is_as_long || is_seen(entry.number, number) {
            return None;
        }
        let offset = entry.offset;
        let begin = (offset as usize).checked_sub(self.begin)?;
        let there = self.buffer.get_mut(begin..begin + bytes)?;
        if !record.encode_over(place(segment, u64::from(offset), store), there) {
            return None;
        }
        entry.number = number;
        self.note_number(number);
        Some(Handle { segment, offset, bytes: bytes as u32, number })
    }

    /// Cuts the buffer: its records are a part that is to be written. No part is cut before.
    pub(crate) fn cut(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        self.replaceable = HashTable::new();
        let mut bytes = std::mem::take(&mut self.buffer);
        let counted = bytes.len() as u64;
        // A padding, unless the last record ends with a block.
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        let begin = self.begin;
        self.begin += bytes.len();
        let newest = std::mem::replace(&mut self.newest_in_buffer, SeqNo::ZERO);
        self.frozen = Some(Frozen { begin, bytes: Arc::new(bytes), newest, counted });
    }

    /// Drops the records that are not on the device.
    pub(crate) fn drop_unwritten(&mut self) {
        let end = self.written() as usize;
        self.replaceable = HashTable::new();
        (self.frozen, self.buffer, self.begin) = (None, Vec::new(), end);
        self.entries.retain(|entry| (entry.offset as usize) < end);
        self.newest = self.entries.iter().map(|entry| entry.number).max().unwrap_or(SeqNo::ZERO);
    }

    /// Returns the part that is to be written.
    pub(crate) fn frozen(&self) -> Option<&Frozen> {
        self.frozen.as_ref()
    }

    /// Notes that the cut part is on the device. Returns the bytes of its records.
    pub(crate) fn note_written(&mut self) -> u64 {
        self.frozen.take().map_or(0, |frozen| frozen.counted)
    }

    /// Returns whether all records are on the device.
    pub(crate) fn is_written(&self) -> bool {
        self.frozen.is_none() && self.buffer.is_empty()
    }

    /// Returns the bytes of records that are not on the device.
    pub(crate) fn buffered(&self) -> u64 {
        self.frozen.as_ref().map_or(0, |frozen| frozen.counted) + self.buffer.len() as u64
    }

    /// Returns the bytes of records on the device, with paddings.
    pub(crate) fn written(&self) -> u64 {
        self.frozen.as_ref().map_or(self.begin, |frozen| frozen.begin) as u64
    }

    /// Returns the bytes of a record that is not on the device, or `None` if it is.
    pub(crate) fn in_memory(&self, offset: usize, bytes: usize) -> Option<&[u8]> {
        if let Some(at) = offset.checked_sub(self.begin) {
            return self.buffer.get(at..at + bytes);
        }
        let frozen = self.frozen.as_ref()?;
        let at = offset.checked_sub(frozen.begin)?;
        frozen.bytes.get(at..at + bytes)
    }

    /// Returns the entries.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the offset of the footer, and the entries in their order. All records are on the
    /// device, and no more come.
    pub(crate) fn sorted_entries(&mut self) -> (usize, &[Entry]) {
        self.entries.sort_unstable();
        (self.begin, &self.entries)
    }

    /// Returns the largest number of a record; zero if there is none.
    pub(crate) fn newest(&self) -> SeqNo {
        self.newest
    }

    /// Returns the bytes of memory that are counted for its entries.
    pub(crate) fn entry_bytes(&self) -> u64 {
        self.entries.len() as u64 * ENTRY_MEMORY_BYTES
    }
}
