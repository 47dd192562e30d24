//! A segment that is being filled: its records, and the part of them that is not on the device.
//!
//! ```text
//!  0               frozen.begin     begin               end
//!  | on the device | being written  | the buffer         |
//! ```

use std::sync::Arc;

use codec::SeqNo;

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
        self.newest = self.newest.max(number);
        self.newest_in_buffer = self.newest_in_buffer.max(number);
        Handle { segment, offset, bytes, number }
    }

    /// Cuts the buffer: its records are a part that is to be written. No part is cut before.
    pub(crate) fn cut(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
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
        (self.entries.len() * size_of::<Entry>()) as u64
    }
}
