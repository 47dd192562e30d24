//! The address at which a record begins in a log: one number for memory and disk alike.

use std::fmt;

/// A byte offset into a log that only grows; 48 bits, of which the highest is kept for records of
/// the read cache. No record is ever at [`LogAddress::NONE`].
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogAddress(u64);

impl LogAddress {
    /// Bits of an address.
    pub(crate) const BITS: u32 = 48;
    /// The end of a chain.
    pub(crate) const NONE: Self = Self(0);

    /// The greatest end of a log: a log can be written this number of bytes in its life, 128 TiB.
    pub(crate) const END: Self = Self(Self::CACHED);

    const CACHED: u64 = 1 << (Self::BITS - 1);
    const MASK: u64 = (1 << Self::BITS) - 1;

    /// The address `raw`; bits above the 48th are dropped.
    pub(crate) const fn new(raw: u64) -> Self {
        Self(raw & Self::MASK)
    }

    /// As a number.
    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    /// Returns the address of the record `at` bytes into the read cache: above every address of the
    /// log.
    pub(crate) const fn cached(at: u64) -> Self {
        Self::new(at | Self::CACHED)
    }

    /// Whether this is an address of the read cache.
    pub(crate) const fn is_cached(self) -> bool {
        self.0 & Self::CACHED != 0
    }

    /// Returns the place of a cached address in the read cache.
    pub(crate) const fn in_cache(self) -> u64 {
        self.0 & !Self::CACHED
    }

    /// `bytes` further on.
    pub(crate) const fn plus(self, bytes: u64) -> Self {
        Self::new(self.0 + bytes)
    }
}

impl fmt::Debug for LogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}
