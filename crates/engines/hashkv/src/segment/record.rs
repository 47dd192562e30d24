//! A record: one version of a key in a segment.
//!
//! # Format
//! `docs/formats/hashkv-segment.md`:
//!
//! | size | field |
//! |---:|---|
//! | 1 | kind: 1 a value, 2 a tombstone, 3 an inline marker |
//! | 8 | the number of the write |
//! | varint | bytes of the key |
//! | varint | bytes of the value; 0 without one |
//! | each | the key, the value |
//! | 4 | CRC32C of the place and all bytes before |
//!
//! The place is the segment's number, the record's offset in it, and the store's id. A byte 0 in
//! the place of a kind begins a *padding*: zeros up to the end of the block. A block never begins
//! with a padding, so zeros at its beginning are the end of the records.

use codec::{Corruption, Place, Reader, SeqNo, VARINT_U32_BYTES_MAX, Writer, varint_len};

use super::footer::Entry;
use crate::key_hash::KeyHash;

/// Segments are written in blocks of this many bytes.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Kind and number.
const FIXED_BYTES: usize = 1 + 8;
const CHECKSUM_BYTES: usize = 4;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The key has this value.
    Value,
    /// The key was deleted.
    Tombstone,
    /// The pair is in the index from now on.
    InlineMarker,
}

impl Kind {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Value => 1,
            Self::Tombstone => 2,
            Self::InlineMarker => 3,
        }
    }

    pub(crate) fn of_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Value),
            2 => Some(Self::Tombstone),
            3 => Some(Self::InlineMarker),
            _ => None,
        }
    }
}

/// A record in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) number: SeqNo,
    pub(crate) key: &'a [u8],
    /// Empty without one.
    pub(crate) value: &'a [u8],
}

/// Returns the bytes of a record.
pub(crate) fn record_bytes(key_bytes: usize, value_bytes: usize) -> usize {
    let lengths = varint_len(key_bytes as u64) + varint_len(value_bytes as u64);
    FIXED_BYTES + lengths + key_bytes + value_bytes + CHECKSUM_BYTES
}

/// Returns the bytes of the value in a record of `bytes` bytes.
pub(crate) fn value_bytes(key_bytes: usize, bytes: usize) -> usize {
    let others = record_bytes(key_bytes, 0) - varint_len(0);
    let of_value = bytes.saturating_sub(others);
    // The length and the value.
    (1..=VARINT_U32_BYTES_MAX)
        .map(|of_length| of_value.saturating_sub(of_length))
        .find(|value| value + varint_len(*value as u64) == of_value)
        .unwrap_or(0)
}

impl Record<'_> {
    /// Returns the entry of a footer for a record at `offset`, whose key has this hash.
    pub(crate) fn entry(&self, hash: KeyHash, offset: u32) -> Entry {
        let (number, bytes, kind) = (self.number, self.bytes() as u32, self.kind);
        Entry { hash, number, offset, bytes, kind }
    }

    /// Returns its bytes in a segment.
    pub(crate) fn bytes(&self) -> usize {
        record_bytes(self.key.len(), self.value.len())
    }

    /// Appends it to `out`.
    pub(crate) fn encode(&self, place: Place, out: &mut Vec<u8>) {
        let begin = out.len();
        let mut writer = Writer::new(out);
        writer.put_u8(self.kind.number());
        writer.put_u64(self.number.get());
        writer.put_varint(self.key.len() as u64);
        writer.put_varint(self.value.len() as u64);
        writer.put_bytes(self.key);
        writer.put_bytes(self.value);
        let checksum = place.crc32c(out.get(begin..).unwrap_or_default());
        Writer::new(out).put_u32(checksum);
    }

    /// Writes it over the bytes of another record at the same place, if that is a value of the same
    /// key and length. Returns whether it is.
    pub(crate) fn encode_over(&self, place: Place, there: &mut [u8]) -> bool {
        let is_alike = |other: Record<'_>| {
            (other.kind, other.key, other.value.len()) == (self.kind, self.key, self.value.len())
        };
        if self.kind != Kind::Value || !fields(there).is_ok_and(|(other, _)| is_alike(other)) {
            return false;
        }
        let Some((content, checksum)) = there.split_last_chunk_mut::<CHECKSUM_BYTES>() else {
            return false;
        };
        // Lengths and key are those of the other record.
        if let Some(number) = content.get_mut(1..FIXED_BYTES) {
            number.copy_from_slice(&self.number.get().to_le_bytes());
        }
        let value = content.len().saturating_sub(self.value.len());
        if let Some(value) = content.get_mut(value..) {
            value.copy_from_slice(self.value);
        }
        *checksum = place.crc32c(content).to_le_bytes();
        true
    }
}

/// Decodes the record at the beginning of `bytes`, and verifies it.
///
/// # Errors
/// Bytes that no record of this place has.
pub(crate) fn decode(bytes: &[u8], place: Place) -> Result<Record<'_>, Corruption> {
    let (record, len) = fields(bytes)?;
    let (content, rest) = bytes.split_at(len);
    if Reader::new(rest).take_u32()? != place.crc32c(content) {
        return Err(Corruption::new("the checksum of a record is wrong", 0));
    }
    Ok(record)
}

/// Decodes the fields before a record's checksum, and returns their bytes too.
///
/// # Errors
/// Bytes that no record has.
pub(crate) fn fields(bytes: &[u8]) -> Result<(Record<'_>, usize), Corruption> {
    let mut reader = Reader::new(bytes);
    let kind = reader.take_u8()?;
    let kind = Kind::of_number(kind)
        .ok_or_else(|| Corruption::new(format!("there are no records of kind {kind}"), 0))?;
    let number = SeqNo::new(reader.take_u64()?);
    let key_bytes = reader.take_varint_u32()? as usize;
    let value_bytes = reader.take_varint_u32()? as usize;
    let key = reader.take_bytes(key_bytes)?;
    let value = reader.take_bytes(value_bytes)?;
    if kind != Kind::Value && !value.is_empty() {
        return Err(Corruption::new("a record without a value has bytes of one", 0));
    }
    Ok((Record { kind, number, key, value }, reader.taken().len()))
}

/// The next thing in the records of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// A record, and its offset.
    Record(usize, Record<'a>),
    /// The records end here.
    End,
}

/// A walk over the records of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    segment: u64,
    store: u64,
}

impl<'a> Walk<'a> {
    /// Begins at the first of `bytes`, all bytes of the segment that may have records.
    pub(crate) fn new(bytes: &'a [u8], segment: u64, store: u64) -> Self {
        Self { bytes, at: 0, segment, store }
    }

    /// Returns the offset behind the last record or padding.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// Continues at the beginning of the next block. Returns whether there is one.
    pub(crate) fn skip_to_next_block(&mut self) -> bool {
        self.at = (self.at + 1).next_multiple_of(BLOCK_BYTES);
        self.at < self.bytes.len()
    }

    /// Returns the next record, or the end.
    ///
    /// # Errors
    /// Damage, with the offset in the segment. The walk stays where it is.
    pub(crate) fn next(&mut self) -> Result<Found<'a>, Corruption> {
        if self.bytes.get(self.at) == Some(&0) && !self.at.is_multiple_of(BLOCK_BYTES) {
            let end = self.at.next_multiple_of(BLOCK_BYTES).min(self.bytes.len());
            let padding = self.bytes.get(self.at..end).unwrap_or_default();
            if padding.iter().any(|byte| *byte != 0) {
                return Err(Corruption::new("a padding is not zeros", self.at as u64));
            }
            self.at = end;
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.first().is_none_or(|kind| *kind == 0) {
            return Ok(Found::End);
        }
        let place = place(self.segment, self.at as u64, self.store);
        let record =
            decode(rest, place).map_err(|damage| Corruption::new(damage.what, self.at as u64))?;
        let at = self.at;
        self.at += record.bytes();
        Ok(Found::Record(at, record))
    }
}

/// Returns the place of a record.
pub(crate) fn place(segment: u64, offset: u64, store: u64) -> Place {
    Place { file: segment, offset, generation: store }
}
