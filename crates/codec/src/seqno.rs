//! The number that orders writes.

use std::fmt;

/// A write's place in the order of all writes to a database. Zero is before the first write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqNo(u64);

impl SeqNo {
    /// Before the first write.
    pub const ZERO: Self = Self(0);
    /// After every write.
    pub const MAX: Self = Self(u64::MAX);

    /// The sequence number with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// Its value.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
