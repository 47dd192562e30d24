//! A footer: what is in a sealed segment, sorted by the hashes of the keys.
//!
//! # Format
//! Behind the records, from the next block on: pages of 4 KiB. A page has up to
//! [`PAGE_ENTRIES`] entries of [`ENTRY_BYTES`] bytes, zeros, and a CRC32C of the page's place and
//! all bytes before. An entry has:
//!
//! | size | field |
//! |---:|---|
//! | 16 | the key's hash, highest byte first |
//! | 8 | the number of the write |
//! | 1 | the kind of the record |
//! | 4 | its offset in the segment |
//! | 4 | its bytes |
//!
//! Entries are in the order of their hashes, then of their numbers, then of their offsets. The
//! segment table has their count.

use codec::{Corruption, Reader, SeqNo, Writer};

use super::record::{BLOCK_BYTES, Kind, place};
use crate::key_hash::{HASH_BYTES, KeyHash};

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = HASH_BYTES + 8 + 1 + 4 + 4;
const CHECKSUM_BYTES: usize = 4;
/// Entries of a full page.
pub(crate) const PAGE_ENTRIES: usize = (BLOCK_BYTES - CHECKSUM_BYTES) / ENTRY_BYTES;

/// One record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) hash: KeyHash,
    pub(crate) number: SeqNo,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
    pub(crate) kind: Kind,
}

/// Returns the bytes of a footer with `entries` entries.
pub(crate) fn footer_bytes(entries: usize) -> usize {
    entries.div_ceil(PAGE_ENTRIES) * BLOCK_BYTES
}

/// Returns the bytes of the footer of these entries, which are in order. The footer begins at
/// `offset` of its segment.
pub(crate) fn encode(entries: &[Entry], segment: u64, offset: usize, store: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(footer_bytes(entries.len()));
    for page in entries.chunks(PAGE_ENTRIES) {
        let begin = bytes.len();
        let mut out = Writer::new(&mut bytes);
        for entry in page {
            out.put_bytes(&entry.hash.to_bytes());
            out.put_u64(entry.number.get());
            out.put_u8(entry.kind.number());
            out.put_u32(entry.offset);
            out.put_u32(entry.bytes);
        }
        bytes.resize(begin + BLOCK_BYTES - CHECKSUM_BYTES, 0);
        let place = place(segment, (offset + begin) as u64, store);
        let checksum = place.crc32c(bytes.get(begin..).unwrap_or_default());
        Writer::new(&mut bytes).put_u32(checksum);
    }
    bytes
}

/// Decodes a footer of `count` entries that begins at `offset` of its segment.
///
/// # Errors
/// Bytes that no footer of this place has, with their offset in the segment.
pub(crate) fn decode(
    bytes: &[u8],
    count: usize,
    segment: u64,
    offset: usize,
    store: u64,
) -> Result<Vec<Entry>, Corruption> {
    if bytes.len() != footer_bytes(count) {
        return Err(Corruption::new("a footer has another length than its entries", offset as u64));
    }
    let mut entries: Vec<Entry> = Vec::with_capacity(count);
    for (index, page) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let at = offset + index * BLOCK_BYTES;
        let left = (count - entries.len()).min(PAGE_ENTRIES);
        decode_page(page, left, place(segment, at as u64, store), &mut entries)
            .map_err(|damage| Corruption::new(damage.what, at as u64))?;
    }
    if !entries.is_sorted() {
        return Err(Corruption::new("the entries of a footer are out of order", offset as u64));
    }
    Ok(entries)
}

fn decode_page(
    page: &[u8],
    count: usize,
    place: codec::Place,
    entries: &mut Vec<Entry>,
) -> Result<(), Corruption> {
    let mut reader = Reader::new(page);
    let content = reader.take_bytes(BLOCK_BYTES - CHECKSUM_BYTES)?;
    let checksum = reader.take_u32()?;
    reader.finish()?;
    if place.crc32c(content) != checksum {
        return Err(Corruption::new("the checksum of a footer's page is wrong", 0));
    }
    let mut reader = Reader::new(content);
    for _ in 0..count {
        let hash = KeyHash::of_bytes(reader.take_array()?);
        let number = SeqNo::new(reader.take_u64()?);
        let kind = reader.take_u8()?;
        let kind = Kind::of_number(kind)
            .ok_or_else(|| Corruption::new(format!("there are no records of kind {kind}"), 0))?;
        let (offset, bytes) = (reader.take_u32()?, reader.take_u32()?);
        entries.push(Entry { hash, number, offset, bytes, kind });
    }
    if reader.rest().iter().any(|byte| *byte != 0) {
        return Err(Corruption::new("the end of a footer's page is not zeros", 0));
    }
    Ok(())
}
