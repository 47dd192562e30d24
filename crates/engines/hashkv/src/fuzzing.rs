//! The decoders as fuzz targets call them: with checksums that are right, so that every byte of the
//! input reaches a decoder. Each asserts that what is decoded has one encoding.

use codec::Corruption;

use crate::index_value::{INLINE, IndexValue};
use crate::segment::footer::{self, ENTRY_BYTES, PAGE_ENTRIES};
use crate::segment::record::{BLOCK_BYTES, Found, Walk, fields, place};
use crate::segment_table::Edit;

/// Decodes a record, whose checksum is added.
///
/// # Errors
/// The damage.
pub fn decode_record(bytes: &[u8]) -> Result<(), Corruption> {
    let (record, len) = fields(bytes)?;
    let mut again = Vec::new();
    record.encode(place(1, 0, 2), &mut again);
    assert_eq!(again.get(..len), bytes.get(..len), "a record has one encoding");
    again.resize(again.len().next_multiple_of(BLOCK_BYTES), 0);
    let mut walk = Walk::new(&again, 1, 2);
    assert_eq!(walk.next(), Ok(Found::Record(0, record)), "a walk finds it");
    assert_eq!(walk.next(), Ok(Found::End), "and nothing else");
    Ok(())
}

/// Decodes the entries of a footer, whose pages and checksums are added.
///
/// # Errors
/// The damage.
pub fn decode_footer(bytes: &[u8]) -> Result<(), Corruption> {
    let mut pages = Vec::new();
    for entries in bytes.chunks(PAGE_ENTRIES * ENTRY_BYTES) {
        let offset = pages.len() as u64;
        let mut page = entries.to_vec();
        page.resize(BLOCK_BYTES - 4, 0);
        page.extend_from_slice(&place(1, offset, 2).crc32c(&page).to_le_bytes());
        pages.extend_from_slice(&page);
    }
    let entries = footer::decode(&pages, bytes.len() / ENTRY_BYTES, 1, 0, 2)?;
    assert_eq!(footer::encode(&entries, 1, 0, 2), pages, "a footer has one encoding");
    Ok(())
}

/// Decodes a chain of edits of a segment table, each with its length in front. Returns the number
/// of segments.
///
/// # Errors
/// The damage.
pub fn decode_edits(bytes: &[u8]) -> Result<usize, Corruption> {
    Ok(<Edit as edits::Edit>::decode_chain(bytes)?.segments.len())
}

/// Decodes a value of the index.
///
/// # Errors
/// The damage.
pub fn decode_index_value(bytes: &[u8]) -> Result<(), Corruption> {
    let again = match IndexValue::decode(bytes)? {
        IndexValue::Inline(value) => [value, &[INLINE]].concat(),
        IndexValue::Handle(handle) => {
            let mut again = Vec::new();
            handle.encode(&mut again);
            again
        }
    };
    assert_eq!(again, bytes, "an index value has one encoding");
    Ok(())
}
