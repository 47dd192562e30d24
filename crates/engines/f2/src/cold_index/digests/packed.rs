//! A digest as words of memory.
//!
//! ```text
//!  word 0  | level, 4 | entries, 12 | shift, 4 | address of the chunk / 16, 44  |
//!  word 1  | slot, 26 | width, 6    | least address / 16 / 4096, 32             |
//!  bits      of each group of entries a 1 for each entry, then a 0: their tags begin alike
//!  bits      entries, without gaps: the rest of the tag's bits, then address / 16 above the least
//!            one, without the lowest bits that are 0 in all (shift), width bits
//! ```
//!
//! A digest keeps the first bits of a tag that the level has not lent. The entries are in the order
//! of their tags, so an entry's group gives the beginning of its tag. There is about one group for
//! each entry, and two bits an entry take the place of the log2 of the number of entries. If all
//! records have the same length, a power of two, their addresses end in zeros.
//!
//! It never leaves memory.

use std::ops::Range;

use crate::address::LogAddress;
use crate::cold_index::LEVEL_MAX;
use crate::cold_index::chunk::{ADDRESS_UNIT, Entry, TAG_BITS};

/// Words before the entries.
pub(super) const HEAD_WORDS: usize = 2;
/// Bits of a tag that are kept at most.
const KEPT_BITS: u32 = 8;
/// The least address is kept as a multiple of 2 to this power units, so the shift is no greater.
const BASE_SHIFT: u32 = 12;
const WIDTH_BITS: u32 = 6;
const BASE_BITS: u32 = 32;
const CHUNK_BITS: u32 = LogAddress::BITS - ADDRESS_UNIT.trailing_zeros();
const SHIFT_BITS: u32 = 4;
const COUNT_BITS: u32 = 12;
const COUNT_SHIFT: u32 = CHUNK_BITS + SHIFT_BITS;
const LEVEL_SHIFT: u32 = COUNT_SHIFT + COUNT_BITS;

const _: () = assert!(u64::BITS - WIDTH_BITS - BASE_BITS == 26);
const _: () = assert!(LEVEL_MAX < 1 << (u64::BITS - LEVEL_SHIFT));
const _: () = assert!(BASE_SHIFT < 1 << SHIFT_BITS);

/// Content of a digest's first two words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The chunk's address.
    pub(super) chunk: LogAddress,
    /// The level at which its entries are those of its number.
    pub(super) level: u32,
    pub(super) slot: usize,
    entries: usize,
    shift: u32,
    width: u32,
    base: u64,
}

impl Head {
    /// Returns the head of a digest of these entries; none if one of them, or the slot, does not
    /// fit into it.
    pub(super) fn of(
        slot: usize,
        level: u32,
        chunk: LogAddress,
        entries: &[Entry],
    ) -> Option<Self> {
        let units = || entries.iter().map(|entry| unit(*entry));
        let base = units().min().unwrap_or_default() >> BASE_SHIFT;
        let shift = units().fold(1 << BASE_SHIFT, |all, unit| all | unit).trailing_zeros();
        let most = units().max().unwrap_or_default() - (base << BASE_SHIFT);
        let is_reported = entries.len() < 1 << COUNT_BITS
            && slot < 1 << (u64::BITS - WIDTH_BITS - BASE_BITS)
            && base >> BASE_BITS == 0;
        let width = u64::BITS - (most >> shift).leading_zeros();
        is_reported.then_some(Self {
            chunk,
            level,
            slot,
            entries: entries.len(),
            shift,
            width,
            base,
        })
    }

    pub(super) const fn decode([first, second]: [u64; HEAD_WORDS]) -> Self {
        let slot = second >> (WIDTH_BITS + BASE_BITS);
        Self {
            chunk: LogAddress::new((first & ((1 << CHUNK_BITS) - 1)) * ADDRESS_UNIT),
            level: (first >> LEVEL_SHIFT) as u32,
            slot: slot as usize,
            entries: (first >> COUNT_SHIFT) as usize & ((1 << COUNT_BITS) - 1),
            shift: (first >> CHUNK_BITS) as u32 & ((1 << SHIFT_BITS) - 1),
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
            | (self.shift as u64) << CHUNK_BITS
            | (self.chunk.get() / ADDRESS_UNIT);
        [first, second]
    }

    /// Bits of a tag that are kept, and the number of these that the groups give.
    const fn tag_bits(self) -> (u32, u32) {
        let left = TAG_BITS - self.level;
        let kept = if left < KEPT_BITS { left } else { KEPT_BITS };
        let groups = if self.entries == 0 { 0 } else { self.entries.ilog2() };
        (kept, if groups < kept { groups } else { kept })
    }

    /// Returns the bits that are kept of a tag.
    const fn kept_of(self, tag: u32) -> u64 {
        let (kept, _) = self.tag_bits();
        (tag >> (TAG_BITS - self.level - kept)) as u64 & ((1 << kept) - 1)
    }

    /// Bits of an entry behind the groups.
    const fn entry_bits(self) -> u32 {
        let (kept, grouped) = self.tag_bits();
        kept - grouped + self.width
    }

    const fn group_bits(self) -> usize {
        self.entries + (1 << self.tag_bits().1)
    }

    /// Words of the whole digest.
    pub(super) const fn words(self) -> usize {
        let bits = self.group_bits() + self.entries * self.entry_bits() as usize;
        HEAD_WORDS + bits.div_ceil(u64::BITS as usize)
    }

    /// Appends the words behind the head.
    pub(super) fn pack(self, entries: &[Entry], into: &mut Vec<u64>) {
        let (kept, grouped) = self.tag_bits();
        let rest_bits = kept - grouped;
        let mut bits = Bits { into, word: 0, filled: 0 };
        let mut told = 0;
        for entry in entries {
            let group = self.kept_of(entry.tag()) >> rest_bits;
            debug_assert!(group >= told, "entries stand in the order of their tags");
            (told..group).for_each(|_| bits.push(0, 1));
            told = group;
            bits.push(1, 1);
        }
        (told..1 << grouped).for_each(|_| bits.push(0, 1));
        for entry in entries {
            let rest = self.kept_of(entry.tag()) & ((1 << rest_bits) - 1);
            let above = (unit(*entry) - (self.base << BASE_SHIFT)) >> self.shift;
            bits.push(above << rest_bits | rest, self.entry_bits());
        }
        bits.end();
    }

    /// Appends to `into` the addresses of the entries whose tags have the same kept bits as `tag`,
    /// in their order. `word_at` reads a word behind the head.
    pub(super) fn addresses(
        self,
        tag: u32,
        word_at: impl Fn(usize) -> u64,
        into: &mut Vec<LogAddress>,
    ) {
        let (kept, grouped) = self.tag_bits();
        let rest_bits = kept - grouped;
        let wanted = self.kept_of(tag);
        let rest = wanted & ((1 << rest_bits) - 1);
        for entry in self.group(wanted >> rest_bits, &word_at) {
            let at = self.group_bits() + entry * self.entry_bits() as usize;
            let bits = bits_at(&word_at, at, self.entry_bits());
            if bits & ((1 << rest_bits) - 1) == rest {
                let unit = ((bits >> rest_bits) << self.shift) + (self.base << BASE_SHIFT);
                into.push(LogAddress::new(unit * ADDRESS_UNIT));
            }
        }
    }

    /// The entries of a group.
    fn group(self, group: u64, word_at: &impl Fn(usize) -> u64) -> Range<usize> {
        let end = self.group_bits();
        let (mut at, mut first) = (0, 0);
        for _ in 0..group {
            let ones = ones_at(word_at, at, end);
            (at, first) = (at + ones + 1, first + ones);
        }
        first..first + ones_at(word_at, at, end)
    }
}

/// Returns `count` bits from `at` on.
fn bits_at(word_at: &impl Fn(usize) -> u64, at: usize, count: u32) -> u64 {
    let (word, skipped) = (at / u64::BITS as usize, at as u32 % u64::BITS);
    if count == 0 {
        return 0;
    }
    let mut bits = word_at(word) >> skipped;
    if skipped + count > u64::BITS {
        bits |= word_at(word + 1) << (u64::BITS - skipped);
    }
    bits & (u64::MAX >> (u64::BITS - count))
}

/// How many ones there are from `at` on before the next 0, or `end`.
fn ones_at(word_at: &impl Fn(usize) -> u64, at: usize, end: usize) -> usize {
    let mut ones = 0;
    while at + ones < end {
        let left = u64::BITS - (at + ones) as u32 % u64::BITS;
        let count = left.min((end - at - ones) as u32);
        let more = bits_at(word_at, at + ones, count).trailing_ones();
        ones += more as usize;
        if more < count {
            break;
        }
    }
    ones
}

/// Bits on their way into words.
struct Bits<'a> {
    into: &'a mut Vec<u64>,
    word: u64,
    filled: u32,
}

impl Bits<'_> {
    fn push(&mut self, bits: u64, count: u32) {
        self.word |= bits << self.filled;
        self.filled += count;
        if self.filled >= u64::BITS {
            self.into.push(self.word);
            self.filled -= u64::BITS;
            // The bits that did not fit.
            self.word = bits.checked_shr(count - self.filled).unwrap_or_default();
        }
    }

    fn end(self) {
        if self.filled > 0 {
            self.into.push(self.word);
        }
    }
}

fn unit(entry: Entry) -> u64 {
    entry.address().get() / ADDRESS_UNIT
}
