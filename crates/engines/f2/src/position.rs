//! The place of a key in the order in which everything of a store is walked: 64 bits of its hash.
//!
//! ```text
//!  63                                                          0
//! +---------------+----------------+----------------------------+
//! | base bucket   | tag, reversed  | further bits of the hash   |
//! +---------------+----------------+----------------------------+
//! ```
//!
//! The upper bits are the number of the key's chain in the hot index, so that chains are in this
//! order too. The cold index takes its chunks by the upper bits as well, by the number of bits that
//! it needs.

use crate::hash_index::ChainId;
use crate::key_hash::{KeyHash, TAG_BITS};

/// A key's place in the order of walks. Keys may share one, but hardly ever do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position(u64);

impl Position {
    /// The beginning of a walk.
    pub(crate) const FIRST: Self = Self(0);

    /// The position of keys with this hash in an index of `1 << base_bits` base buckets.
    pub(crate) const fn of(hash: KeyHash, base_bits: u32) -> Self {
        let below = u64::BITS - base_bits - TAG_BITS;
        let chain = ChainId::of(hash, base_bits).get();
        // Two bits of a hash mean nothing, so two of a position are always zero: the lowest.
        Self(chain << below | hash.above_bucket(base_bits) << 2)
    }

    /// Returns the first position behind those of `chain`, if there is one.
    pub(crate) fn behind(chain: ChainId, base_bits: u32) -> Option<Self> {
        let next = chain.get() + 1;
        let below = u64::BITS - base_bits - TAG_BITS;
        (next >> (u64::BITS - below) == 0).then_some(Self(next << below))
    }

    /// The position of this number.
    pub(crate) const fn of_number(number: u64) -> Self {
        Self(number)
    }

    /// The chain of the keys here.
    pub(crate) const fn chain(self, base_bits: u32) -> ChainId {
        ChainId::new(self.0 >> (u64::BITS - base_bits - TAG_BITS))
    }

    /// As a number.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}
