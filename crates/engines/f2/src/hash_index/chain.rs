//! Which chain: the base bucket and the tag, which stay the same however often the table doubles.

use crate::key_hash::{KeyHash, TAG_BITS};

/// A chain as an operation addresses it.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    pub(super) base: usize,
    pub(super) tag: u16,
}

/// A chain's name and its place in the order of [`super::HashIndex::next_chain`].
///
/// The base bucket, then the tag with its bits reversed. A doubling cuts the chains of a bucket by
/// the lowest bit of the tag that was not used yet. So in this order a bucket's chains are always
/// neighbours, at every level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChainId(u64);

impl Chain {
    #[inline]
    pub(super) const fn of(hash: KeyHash, base_bits: u32) -> Self {
        Self { base: hash.bucket(base_bits), tag: hash.tag() }
    }

    /// The number of the bucket that holds the chain at `level`.
    #[inline]
    pub(super) const fn number(self, base_bits: u32, level: u32) -> usize {
        let lent = self.tag as usize & ((1 << level) - 1);
        self.base | lent << base_bits
    }

    pub(super) const fn id(self) -> ChainId {
        ChainId((self.base as u64) << TAG_BITS | reversed(self.tag) as u64)
    }
}

impl ChainId {
    /// The chain of keys with this hash in an index of `1 << base_bits` base buckets.
    pub(crate) const fn of(hash: KeyHash, base_bits: u32) -> Self {
        Chain::of(hash, base_bits).id()
    }

    /// As a number, for a cursor or a file. Smaller than `1 << (base_bits + TAG_BITS)`.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// The chain of this number.
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The chain before this one in the order of a walk, whether it exists or not.
    pub(crate) fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }

    pub(super) const fn chain(self) -> Chain {
        let tag = self.0 as u16 & ((1 << TAG_BITS) - 1);
        Chain { base: (self.0 >> TAG_BITS) as usize, tag: reversed(tag) }
    }
}

const fn reversed(tag: u16) -> u16 {
    tag.reverse_bits() >> (u16::BITS - TAG_BITS)
}
