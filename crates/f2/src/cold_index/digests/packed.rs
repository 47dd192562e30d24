//! A digest as words of memory.
//!
//! ```text
//!  word 0  | level, 4 | entries, 12 | address of the chunk, 48         |
//!  word 1  | slot, 26    | width, 6 | least address / 16 / 4096, 32    |
//!  words   | entries, 8 + width bits each, without gaps: the tag's lowest bits, then
//!            address / 16 above the least one                          |
//! ```
//!
//! It never leaves memory.

use crate::address::LogAddress;
use crate::cold_index::LEVEL_MAX;
use crate::cold_index::chunk::{ADDRESS_UNIT, Entry};

/// Words before the entries.
pub(super) const HEAD_WORDS: usize = 2;
/// Bits of a tag that are kept.
const TAG_BITS: u32 = 8;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
/// The least address is kept in multiples of so many units.
const BASE_SHIFT: u32 = 12;
const WIDTH_BITS: u32 = 6;
const BASE_BITS: u32 = 32;
const COUNT_SHIFT: u32 = LogAddress::BITS;
const COUNT_BITS: u32 = 12;
const LEVEL_SHIFT: u32 = COUNT_SHIFT + COUNT_BITS;

const _: () = assert!(u64::BITS - WIDTH_BITS - BASE_BITS == 26);
const _: () = assert!(LEVEL_MAX < 1 << (u64::BITS - LEVEL_SHIFT));

/// What a digest's first two words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Where the chunk lies.
    pub(super) chunk: LogAddress,
    /// The level at which its entries are those of its number.
    pub(super) level: u32,
    pub(super) slot: usize,
    entries: usize,
    width: u32,
    base: u64,
}

impl Head {
    /// The head of a digest of these entries; none if one of them, or the slot, cannot be told in it.
    pub(super) fn of(
        slot: usize,
        level: u32,
        chunk: LogAddress,
        entries: &[Entry],
    ) -> Option<Self> {
        let units = || entries.iter().map(|entry| unit(*entry));
        let base = units().min().unwrap_or_default() >> BASE_SHIFT;
        let most = units().max().unwrap_or_default() - (base << BASE_SHIFT);
        let is_told = entries.len() < 1 << COUNT_BITS
            && slot < 1 << (u64::BITS - WIDTH_BITS - BASE_BITS)
            && base >> BASE_BITS == 0;
        let width = u64::BITS - most.leading_zeros();
        is_told.then_some(Self { chunk, level, slot, entries: entries.len(), width, base })
    }

    pub(super) const fn decode([first, second]: [u64; HEAD_WORDS]) -> Self {
        let slot = second >> (WIDTH_BITS + BASE_BITS);
        Self {
            chunk: LogAddress::new(first & ((1 << COUNT_SHIFT) - 1)),
            level: (first >> LEVEL_SHIFT) as u32,
            slot: slot as usize,
            entries: (first >> COUNT_SHIFT) as usize & ((1 << COUNT_BITS) - 1),
            width: (second >> BASE_BITS) as u32 & ((1 << WIDTH_BITS) - 1),
            base: second & ((1 << BASE_BITS) - 1),
        }
    }

    pub(super) const fn encode(self) -> [u64; HEAD_WORDS] {
        let second = (self.slot as u64) << (WIDTH_BITS + BASE_BITS)
            | (self.width as u64) << BASE_BITS
            | self.base;
        let first = (self.level as u64) << LEVEL_SHIFT
            | (self.entries as u64) << COUNT_SHIFT
            | self.chunk.get();
        [first, second]
    }

    /// Bits of an entry.
    const fn bits(self) -> u32 {
        TAG_BITS + self.width
    }

    /// Words of the whole digest.
    pub(super) const fn words(self) -> usize {
        HEAD_WORDS + (self.entries * self.bits() as usize).div_ceil(u64::BITS as usize)
    }

    /// Appends the words of the entries.
    pub(super) fn pack(self, entries: &[Entry], into: &mut Vec<u64>) {
        let (mut word, mut filled) = (0u64, 0);
        for entry in entries {
            let above = unit(*entry) - (self.base << BASE_SHIFT);
            let bits = above << TAG_BITS | u64::from(entry.tag()) & TAG_MASK;
            word |= bits << filled;
            filled += self.bits();
            if filled >= u64::BITS {
                into.push(word);
                filled -= u64::BITS;
                // What did not fit.
                word = bits >> (self.bits() - filled);
            }
        }
        if filled > 0 {
            into.push(word);
        }
    }

    /// The addresses of the entries whose tags end as `tag` does, in their order. `word_at` reads a word of the
    /// entries.
    pub(super) fn addresses(
        self,
        tag: u32,
        word_at: impl Fn(usize) -> u64,
        into: &mut Vec<LogAddress>,
    ) {
        let wanted = u64::from(tag) & TAG_MASK;
        let mask = (1 << self.bits()) - 1;
        for entry in 0..self.entries {
            let at = entry * self.bits() as usize;
            let (word, skipped) = (at / u64::BITS as usize, at as u32 % u64::BITS);
            let mut bits = word_at(word) >> skipped;
            if skipped + self.bits() > u64::BITS {
                bits |= word_at(word + 1) << (u64::BITS - skipped);
            }
            if bits & TAG_MASK == wanted {
                let unit = ((bits & mask) >> TAG_BITS) + (self.base << BASE_SHIFT);
                into.push(LogAddress::new(unit * ADDRESS_UNIT));
            }
        }
    }
}

fn unit(entry: Entry) -> u64 {
    entry.address().get() / ADDRESS_UNIT
}
