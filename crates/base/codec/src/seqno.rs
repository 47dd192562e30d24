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
    ///
    /// # Panics
    /// After [`SeqNo::MAX`], which no count of writes reaches; a number that was decoded may, so it
    /// goes through [`SeqNo::checked_next`].
    #[must_use]
    pub const fn next(self) -> Self {
        assert!(self.0 < u64::MAX, "sequence numbers ran out");
        Self(self.0 + 1)
    }

    /// The number after this one, unless this is [`SeqNo::MAX`].
    pub const fn checked_next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(next) => Some(Self(next)),
            None => None,
        }
    }
}

impl fmt::Display for SeqNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
