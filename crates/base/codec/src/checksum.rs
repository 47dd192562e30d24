//! Checksums: of bytes alone, of bytes and their place, of bytes and the bytes before them.
//!
//! A checksum of the content alone does not notice a block that was written to the wrong offset.
//! Nor does it notice one that the disk never wrote, so that an older and equally valid block is
//! still there. Hence [`Place`] for pieces that are found by their position, and [`chain`] for
//! pieces that are found by reading from the start.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The CRC32C (Castagnoli) of `bytes`.
///
/// ```
/// assert_eq!(thermocline_codec::crc32c(b"123456789"), 0xe306_9283);
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// The place that a piece of a file belongs to: a piece found anywhere else fails its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file's number, unique in its directory.
    pub file: u64,
    /// The byte in that file at which the piece begins.
    pub offset: u64,
    /// How often this place has been written or the file's number reused; zero if neither happens.
    pub generation: u64,
}

impl Place {
    /// The CRC32C of this place followed by `bytes`.
    ///
    /// ```
    /// use thermocline_codec::Place;
    /// let here = Place { file: 3, offset: 4096, generation: 1 };
    /// let there = Place { offset: 8192, ..here };
    /// assert_ne!(here.crc32c(b"page"), there.crc32c(b"page"));
    /// ```
    pub fn crc32c(self, bytes: &[u8]) -> u32 {
        // One call for all three: the calls cost more than their 24 bytes.
        let place = [self.file, self.offset, self.generation].map(u64::to_le_bytes);
        ::crc32c::crc32c_append(::crc32c::crc32c(place.as_flattened()), bytes)
    }
}

/// The checksum of a record in a chain: of `previous`, the checksum of the record before, followed
/// by `bytes`, the record's own bytes without any checksum field.
///
/// A record that was left behind by an earlier life of the file has another predecessor, so it does
/// not continue the chain. The first record of a file chains from something that is unique to the
/// file (the checksum of its header, say).
///
/// `previous` goes in as four bytes rather than as the running state of the CRC. The state right
/// after a message and its own CRC is the same for every message. So a format that stored a
/// checksum just before the next record's bytes would chain nothing.
pub fn chain(previous: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(::crc32c::crc32c(&previous.to_le_bytes()), bytes)
}

/// [`chain`] of bytes in two parts.
///
/// ```
/// use thermocline_codec::{chain, chain_parts};
/// assert_eq!(chain_parts(7, b"wa", b"rm"), chain(7, b"warm"));
/// ```
pub fn chain_parts(previous: u32, first: &[u8], second: &[u8]) -> u32 {
    ::crc32c::crc32c_append(chain(previous, first), second)
}

/// The xxh3 hash of `bytes` under `seed`; stable for ever, so formats may store it.
///
/// Tables that outsiders choose the keys of take a secret, random seed.
pub fn hash64(seed: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, seed)
}
