//! Addresses in segments and blocks.
//!
//! A segment has an address for each of its bytes, so that a shift finds the segment. Only the
//! first addresses are used: those of its blocks' payloads.

use super::format::{BLOCK_BYTES, BLOCK_PAYLOAD_BYTES};
use crate::extent::ADDRESS_BITS;

/// A segment's share that is the longest extent (Flex 4.2).
const EXTENT_SHARE: u32 = 32;

/// Sizes of a space's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    segment_bits: u32,
}

impl Geometry {
    /// The smallest segment: an extent is at least as long as a record of a few bytes.
    pub(crate) const SEGMENT_BYTES_MIN: u32 = 16 << 10;
    /// The largest.
    pub(crate) const SEGMENT_BYTES_MAX: u32 = 1 << 30;

    /// Segments of that many bytes, if that is a power of two within bounds.
    pub(crate) fn new(segment_bytes: u32) -> Option<Self> {
        let fits = (Self::SEGMENT_BYTES_MIN..=Self::SEGMENT_BYTES_MAX).contains(&segment_bytes);
        let is_sound = fits && segment_bytes.is_power_of_two();
        is_sound.then_some(Self { segment_bits: segment_bytes.trailing_zeros() })
    }

    pub(crate) fn segment_bytes(self) -> u32 {
        1 << self.segment_bits
    }

    /// Blocks of a segment.
    pub(crate) fn blocks(self) -> u32 {
        self.segment_bytes() / BLOCK_BYTES as u32
    }

    /// Returns the bytes of a segment that have addresses.
    pub(crate) fn payload_bytes(self) -> u32 {
        self.blocks() * BLOCK_PAYLOAD_BYTES as u32
    }

    /// Returns the bytes of the longest extent.
    pub(crate) fn extent_bytes_max(self) -> u32 {
        self.segment_bytes() / EXTENT_SHARE
    }

    /// Returns how many segments have addresses.
    pub(crate) fn segments_max(self) -> u32 {
        // The last one is left out: its end is the mark of holes.
        let count = (1_u64 << (ADDRESS_BITS - self.segment_bits)) - 1;
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Returns the segment of an address, and the offset in the segment's payload.
    pub(crate) fn place(self, address: u64) -> (u32, u32) {
        let inside = address & u64::from(self.segment_bytes() - 1);
        // An address has 48 bits, and a segment at least 14 of them; the offset inside has at most
        // 30.
        ((address >> self.segment_bits) as u32, inside as u32)
    }

    pub(crate) fn address(self, segment: u32, inside: u32) -> u64 {
        u64::from(segment) << self.segment_bits | u64::from(inside)
    }

    /// Returns the offset of a block in the file.
    pub(crate) fn file_offset(self, segment: u32, block: u32) -> u64 {
        (u64::from(segment) << self.segment_bits) + u64::from(block) * BLOCK_BYTES as u64
    }

    /// Returns whether `length` bytes at `address` are an extent of one segment.
    pub(crate) fn is_extent(self, address: u64, length: u64) -> bool {
        let (segment, inside) = self.place(address);
        address >> ADDRESS_BITS == 0
            && segment < self.segments_max()
            && length > 0
            && u64::from(inside) + length <= u64::from(self.payload_bytes())
    }
}
