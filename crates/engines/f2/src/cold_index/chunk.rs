//! A chunk's bytes: a record of the chunk log whose key is the chunk's name and whose value are its
//! entries.
//!
//! # Format
//! `docs/formats/f2-chunks.md`. Name and entries are words of 8 bytes, little-endian:
//! ```text
//!  name    63        32 31             0      entry   63        44 43                   0
//!         +------------+----------------+            +------------+----------------------+
//!         | level      | number         |            | tag        | address / 16         |
//!         +------------+----------------+            +------------+----------------------+
//! ```
//!
//! # Invariants
//! - K1. Entries are in the order of their tags; of equal tags the newest put is first.
//! - K2. A chunk has entries of its own number only: the tag's upper bits are the bits that its
//!   level has lent to the number.

use super::{BASE_BITS, LEVEL_MAX};
use crate::address::LogAddress;
use crate::position::Position;
use crate::record::{Damage, Shape, WORD_BYTES};

/// Bits of a position that an entry has.
pub(super) const TAG_BITS: u32 = 20;
/// Bytes of which the addresses of records are multiples, so an entry leaves out their lowest bits.
pub(super) const ADDRESS_UNIT: u64 = 16;
const ADDRESS_BITS: u32 = LogAddress::BITS - ADDRESS_UNIT.trailing_zeros();

const _: () = assert!(ADDRESS_BITS + TAG_BITS == u64::BITS, "an entry is a tag and an address");
const _: () = assert!(LEVEL_MAX < TAG_BITS, "a tag keeps some bits to tell entries apart");

/// Which chunk: how often the directory had been doubled, and the chunk's number then.
///
/// The number is the base chunk, and above it the tag's upper bits that the level has lent, the
/// first of them lowest. So a doubling moves no chunk, and adds an equal number of chunks behind
/// the existing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(super) level: u32,
    pub(super) number: usize,
}

/// The bits of a position that chunks know, without the lowest: the base chunk and the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix(pub(super) u32);

/// One record of the cold log, and the tag of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(u64);

/// A chunk as read from the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(super) name: Name,
    words: &'a [[u8; WORD_BYTES]],
}

impl Prefix {
    const BITS: u32 = BASE_BITS + TAG_BITS;

    pub(super) const fn of(position: Position) -> Self {
        Self((position.get() >> (u64::BITS - Self::BITS)) as u32)
    }

    /// The first position that begins so.
    pub(super) const fn position(self) -> Position {
        Position::of_number((self.0 as u64) << (u64::BITS - Self::BITS))
    }

    pub(super) const fn tag(self) -> u32 {
        self.0 & ((1 << TAG_BITS) - 1)
    }

    /// The same base chunk with another tag.
    pub(super) const fn with_tag(self, tag: u32) -> Self {
        Self(self.0 >> TAG_BITS << TAG_BITS | tag)
    }

    const fn base(self) -> usize {
        (self.0 >> TAG_BITS) as usize
    }

    /// The chunk at `level`.
    pub(super) const fn name(self, level: u32) -> Name {
        let lent = reversed(self.tag() >> (TAG_BITS - level), level);
        Name { level, number: self.base() | lent << BASE_BITS }
    }

    /// The last one of the same chunk at `level`.
    pub(super) const fn last_of_chunk(self, level: u32) -> Self {
        Self(self.0 | ((1 << (TAG_BITS - level)) - 1))
    }

    /// The one behind, if there is any.
    pub(super) fn next(self) -> Option<Self> {
        let next = self.0.checked_add(1)?;
        (u64::from(next) < 1 << Self::BITS).then_some(Self(next))
    }
}

const fn reversed(bits: u32, count: u32) -> usize {
    if count == 0 { 0 } else { (bits.reverse_bits() >> (u32::BITS - count)) as usize }
}

impl Name {
    /// Returns the name in its written form.
    pub(super) const fn word(self) -> u64 {
        (self.level as u64) << 32 | self.number as u64
    }

    fn decode(key: &[u8]) -> Result<Self, Damage> {
        let Ok(word) = <[u8; WORD_BYTES]>::try_from(key) else {
            return Err(Damage("a chunk's name has another length"));
        };
        let word = u64::from_le_bytes(word);
        let (level, number) = ((word >> 32) as u32, word as u32 as usize);
        if level > LEVEL_MAX || number >> (BASE_BITS + level) != 0 {
            return Err(Damage("a chunk's name makes no sense"));
        }
        Ok(Self { level, number })
    }

    /// The chunks that have this one's entries at a level that is no lower; none at a lower one.
    pub(super) fn at_level(self, level: u32) -> impl Iterator<Item = Self> {
        let halvings = level.checked_sub(self.level);
        let parts = halvings.map_or(0, |halvings| 1 << halvings);
        (0..parts).map(move |part: usize| Self {
            level,
            number: self.number | part << (BASE_BITS + self.level),
        })
    }

    const fn base(self) -> usize {
        self.number & ((1 << BASE_BITS) - 1)
    }

    /// Returns the bits that the chunk's tags begin with.
    const fn lent(self) -> u32 {
        reversed((self.number >> BASE_BITS) as u32, self.level) as u32
    }

    /// The first position of the chunk.
    pub(super) const fn first(self) -> Prefix {
        let tag = self.lent() << (TAG_BITS - self.level);
        Prefix((self.base() as u32) << TAG_BITS | tag)
    }

    /// Whether entries of this tag belong to the chunk. [K2]
    const fn has_tag(self, tag: u32) -> bool {
        tag >> (TAG_BITS - self.level) == self.lent()
    }
}

impl Entry {
    pub(super) fn new(tag: u32, address: LogAddress) -> Self {
        debug_assert!(address.get().is_multiple_of(ADDRESS_UNIT), "{address:?} is no record's");
        let unit = address.get() / ADDRESS_UNIT;
        Self(u64::from(tag) << ADDRESS_BITS | unit)
    }

    pub(super) const fn tag(self) -> u32 {
        (self.0 >> ADDRESS_BITS) as u32
    }

    pub(super) const fn address(self) -> LogAddress {
        LogAddress::new((self.0 & ((1 << ADDRESS_BITS) - 1)) * ADDRESS_UNIT)
    }
}

impl<'a> Chunk<'a> {
    /// Reads the key and the value of a record of the chunk log.
    ///
    /// # Errors
    /// Damage of the chunk.
    pub(crate) fn decode(key: &[u8], value: Option<&'a [u8]>) -> Result<Self, Damage> {
        let name = Name::decode(key)?;
        let Some(value) = value else { return Err(Damage("a chunk is a tombstone")) };
        let (words, []) = value.as_chunks() else {
            return Err(Damage("a chunk's entries are cut short"));
        };
        let chunk = Self { name, words };
        let mut before = 0;
        for entry in chunk.entries() {
            if !name.has_tag(entry.tag()) {
                return Err(Damage("a chunk has an entry of another chunk"));
            }
            if entry.tag() < before {
                return Err(Damage("a chunk's entries are not in order"));
            }
            if entry.address() == LogAddress::NONE {
                return Err(Damage("an entry of a chunk leads nowhere"));
            }
            before = entry.tag();
        }
        Ok(chunk)
    }

    /// # Errors
    /// The position belongs to another chunk.
    pub(super) fn must_cover(self, prefix: Prefix) -> Result<(), Damage> {
        match prefix.name(self.name.level) == self.name {
            true => Ok(()),
            false => Err(Damage("a chunk stands in the place of another")),
        }
    }

    /// All entries. [K1]
    pub(super) fn entries(self) -> impl Iterator<Item = Entry> {
        self.words.iter().map(|word| Entry(u64::from_le_bytes(*word)))
    }

    /// How many there are.
    pub(super) const fn len(self) -> usize {
        self.words.len()
    }

    /// Appends the addresses of a tag to `into`, the newest first.
    pub(super) fn addresses(self, tag: u32, into: &mut Vec<LogAddress>) {
        let tag_of = |word: &[u8; WORD_BYTES]| Entry(u64::from_le_bytes(*word)).tag();
        let first = self.words.partition_point(|word| tag_of(word) < tag);
        let same = self.words.iter().skip(first).take_while(|word| tag_of(word) == tag);
        into.extend(same.map(|word| Entry(u64::from_le_bytes(*word)).address()));
    }

    /// Those entries that belong to `name`, which the chunk covers.
    pub(super) fn part(self, name: Name) -> Vec<Entry> {
        self.entries().filter(|entry| name.has_tag(entry.tag())).collect()
    }
}

/// Returns the number of a chunk's entries that follow others of their tag. [K1]
pub(super) fn covered(entries: &[Entry]) -> usize {
    entries.windows(2).filter(|pair| pair[0].tag() == pair[1].tag()).count()
}

/// The value of a chunk of these entries.
pub(super) fn encode(entries: &[Entry], into: &mut Vec<u8>) {
    into.clear();
    into.extend(entries.iter().flat_map(|entry| entry.0.to_le_bytes()));
}

/// Returns the bytes that a chunk of `entries` entries takes in the chunk log.
pub(super) const fn record_bytes(entries: usize) -> usize {
    Shape { key_bytes: WORD_BYTES, value_bytes: entries * WORD_BYTES }.bytes()
}
