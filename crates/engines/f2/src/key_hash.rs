//! The hash of a key, and the use of its bits.
//!
//! ```text
//!  63 62 61          48 47                                     0
//! +-----+--------------+----------------------------------------+
//! |  -  | tag, 14 bits | bucket: as many low bits as it needs   |
//! +-----+--------------+----------------------------------------+
//! ```

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bits of a tag. The hash index lends the low ones to its bucket numbers as it grows.
pub(crate) const TAG_BITS: u32 = 14;
const TAG_SHIFT: u32 = 48;

/// A key's hash under the store's secret seed, so that no client can choose keys that collide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    /// The hash of `key`.
    pub(crate) fn of(key: &[u8], seed: u64) -> Self {
        Self(xxh3_64_with_seed(key, seed))
    }

    /// The number of the base bucket among `1 << bits`.
    pub(crate) const fn bucket(self, bits: u32) -> usize {
        (self.0 & ((1 << bits) - 1)) as usize
    }

    /// Returns the bits that distinguish the chains of one base bucket.
    pub(crate) const fn tag(self) -> u16 {
        (self.0 >> TAG_SHIFT) as u16 & ((1 << TAG_BITS) - 1)
    }

    /// The bits between those of the base bucket and those of the tag: `48 - bits` of them.
    pub(crate) const fn above_bucket(self, bits: u32) -> u64 {
        (self.0 & ((1 << TAG_SHIFT) - 1)) >> bits
    }

    /// Returns all bits of the hash, mixed again, so that they are independent of bucket and tag.
    pub(crate) const fn mixed(self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(u64::BITS / 2)
    }

    /// A hash with this bucket and tag, for tests of the code that uses these.
    #[cfg(test)]
    pub(crate) const fn from_parts(bucket: u64, tag: u16) -> Self {
        Self(bucket | (tag as u64) << TAG_SHIFT)
    }
}
