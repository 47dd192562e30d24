//! A block of the data file: bytes, and the checksum of their place; see
//! `docs/formats/flexspace.md`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used)]

use codec::{Corruption, Place};

/// Bytes of a block, the unit that is read and verified.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Bytes of a block that have addresses; the checksum follows.
pub(crate) const BLOCK_PAYLOAD_BYTES: usize = BLOCK_BYTES - 4;

fn place(segment: u32, block: u32, generation: u64) -> Place {
    Place { file: u64::from(segment), offset: u64::from(block), generation }
}

/// Puts the checksum behind the payload of a whole block.
///
/// # Panics
/// If it is no whole block.
pub(crate) fn seal_block(bytes: &mut [u8], segment: u32, block: u32, generation: u64) {
    let (payload, checksum) = bytes.split_at_mut(BLOCK_PAYLOAD_BYTES);
    let sum = place(segment, block, generation).crc32c(payload);
    checksum.copy_from_slice(&sum.to_le_bytes());
}

/// Returns the payload of a block.
///
/// # Errors
/// It is not the block that was written to this place of the segment in this generation.
pub(crate) fn decode_block(
    bytes: &[u8],
    segment: u32,
    block: u32,
    generation: u64,
) -> Result<&[u8], Corruption> {
    let damaged = || Corruption::new("a block is not what was written to its place", 0);
    let (payload, checksum) = bytes.split_at_checked(BLOCK_PAYLOAD_BYTES).ok_or_else(damaged)?;
    let sum = place(segment, block, generation).crc32c(payload).to_le_bytes();
    if checksum == sum { Ok(payload) } else { Err(damaged()) }
}
