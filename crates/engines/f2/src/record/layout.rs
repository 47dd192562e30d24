//! The two words in front of every record, bit by bit.

use crate::address::LogAddress;

/// Bytes of a word.
pub(crate) const WORD_BYTES: usize = 8;
/// Records begin and end on multiples of this, so that even a filler has room for both words.
pub(crate) const ALIGNMENT: usize = 16;
/// Longest key that the state's field can say.
pub(crate) const KEY_BYTES_MAX: usize = (1 << State::KEY_BITS) - 1;
/// Longest value that the state's field can say.
pub(crate) const VALUE_BYTES_MAX: usize = (1 << State::VALUE_BITS) - 1;

const _: () = assert!(KEY_BYTES_MAX >= engine::KEY_BYTES_MAX);

/// Lengths of a record's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) key_bytes: usize,
    pub(crate) value_bytes: usize,
}

impl Shape {
    /// Words before the value.
    pub(crate) const fn value_at(self) -> usize {
        2 + self.key_bytes.div_ceil(WORD_BYTES)
    }

    /// Words of the value.
    pub(crate) const fn value_words(self) -> usize {
        self.value_bytes.div_ceil(WORD_BYTES)
    }

    /// The whole record's length in bytes.
    pub(crate) const fn bytes(self) -> usize {
        ((self.value_at() + self.value_words()) * WORD_BYTES).next_multiple_of(ALIGNMENT)
    }
}

/// Word 0: the address at which the chain continues, and the kind of this record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header(pub(crate) u64);

impl Header {
    const INVALID: u64 = 1 << 48;
    const FILLER: u64 = 1 << 49;
    /// Set in every record, so that no record begins with zeros.
    const PRESENT: u64 = 1 << 50;
    /// Of the read cache's records alone, so never on disk.
    pub(super) const HIT: u64 = 1 << 51;
    pub(super) const CHECK_SHIFT: u32 = 54;
    /// The bits that a checksum takes on disk.
    pub(super) const CHECK_MASK: u64 = !((1 << Self::CHECK_SHIFT) - 1);
    const KNOWN: u64 = ((1 << LogAddress::BITS) - 1) | Self::INVALID | Self::FILLER | Self::PRESENT;

    /// The header of a record whose chain continues at `previous`.
    pub(crate) const fn record(previous: LogAddress) -> Self {
        Self(previous.get() | Self::PRESENT)
    }

    /// The header of `bytes` that hold no record.
    pub(crate) const fn filler(bytes: u64) -> Self {
        Self(bytes | Self::FILLER | Self::PRESENT)
    }

    /// The same record, never linked or no longer.
    pub(crate) const fn invalidated(self) -> Self {
        Self(self.0 | Self::INVALID)
    }

    /// Returns the address at which the chain continues.
    pub(crate) const fn previous(self) -> LogAddress {
        LogAddress::new(self.0)
    }

    /// A filler's length in bytes.
    pub(crate) const fn filler_bytes(self) -> u64 {
        LogAddress::new(self.0).get()
    }

    pub(crate) const fn is_invalid(self) -> bool {
        self.0 & Self::INVALID != 0
    }

    /// Whether a record of the read cache was read since it was written.
    pub(crate) const fn is_hit(self) -> bool {
        self.0 & Self::HIT != 0
    }

    pub(crate) const fn is_filler(self) -> bool {
        self.0 & Self::FILLER != 0
    }

    /// Whether only bits with a meaning are set, and the one that always is.
    pub(crate) const fn is_sound(self) -> bool {
        self.0 & Self::PRESENT != 0 && self.0 & !Self::CHECK_MASK & !Self::KNOWN == 0
    }
}

/// Word 1: lengths, tombstone, lock, sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(pub(super) u64);

impl State {
    pub(super) const KEY_BITS: u32 = 16;
    pub(super) const VALUE_BITS: u32 = 25;
    const TOMBSTONE: u64 = 1 << 41;
    const LOCKED: u64 = 1 << 42;
    const SEALED: u64 = 1 << 43;
    const SEQUENCE: u64 = 1 << 44;
    pub(super) const CHECK_SHIFT: u32 = 42;
    /// The bits that a checksum takes on disk: lock, seal and sequence.
    pub(super) const CHECK_MASK: u64 = !((1 << Self::CHECK_SHIFT) - 1);

    pub(super) const fn new(shape: Shape, tombstone: bool) -> Self {
        let lengths = shape.key_bytes as u64 | (shape.value_bytes as u64) << Self::KEY_BITS;
        Self(lengths | if tombstone { Self::TOMBSTONE } else { 0 })
    }

    pub(super) const fn shape(self) -> Shape {
        Shape {
            key_bytes: (self.0 & ((1 << Self::KEY_BITS) - 1)) as usize,
            value_bytes: (self.0 >> Self::KEY_BITS & ((1 << Self::VALUE_BITS) - 1)) as usize,
        }
    }

    pub(super) const fn is_tombstone(self) -> bool {
        self.0 & Self::TOMBSTONE != 0
    }

    pub(super) const fn is_locked(self) -> bool {
        self.0 & Self::LOCKED != 0
    }

    /// Returns whether no thread may change the record in place any more: it was sealed, or its
    /// sequence is used up. A sequence that started again could show a reader two different moments
    /// as one.
    pub(super) const fn is_sealed(self) -> bool {
        self.0 & Self::SEALED != 0 || self.0 >> 44 == u64::MAX >> 44
    }

    pub(super) const fn locked(self) -> Self {
        Self(self.0 | Self::LOCKED)
    }

    pub(super) const fn sealed(self) -> Self {
        Self((self.0 | Self::SEALED) & !Self::LOCKED)
    }

    /// Returns the state to which a record is unlocked after a change.
    pub(super) const fn changed(self, value_bytes: usize, tombstone: bool) -> Self {
        let shape = Shape { value_bytes, ..self.shape() };
        let content = Self::new(shape, tombstone).0;
        let sequence = self.0 & !(Self::SEQUENCE - 1);
        Self(content | sequence.wrapping_add(Self::SEQUENCE))
    }

    /// Returns the word without the bits that only memory needs.
    pub(super) const fn content(self) -> Self {
        Self(self.0 & !Self::CHECK_MASK)
    }
}
