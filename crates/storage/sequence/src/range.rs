//! Ranges of keys.

use std::ops::{Bound, RangeBounds};

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key up.
    Forward,
    /// From the largest key down.
    Backward,
}

/// A range of keys in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The lower end.
    pub start: Bound<Vec<u8>>,
    /// The upper end.
    pub end: Bound<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self { start: Bound::Unbounded, end: Bound::Unbounded }
    }

    /// Returns the keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        let mut after = prefix.to_vec();
        while after.last() == Some(&u8::MAX) {
            after.pop();
        }
        let end = match after.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(after)
            }
            None => Bound::Unbounded,
        };
        Self { start: Bound::Included(prefix.to_vec()), end }
    }

    /// Returns a copy of any range of byte strings.
    pub fn of<K: AsRef<[u8]>>(range: impl RangeBounds<K>) -> Self {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        Self { start: owned(range.start_bound()), end: owned(range.end_bound()) }
    }

    /// Returns whether `key` is in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        !self.begins_behind(key) && !self.ends_before(key)
    }

    /// Returns whether `key` is above the upper end.
    pub fn ends_before(&self, key: &[u8]) -> bool {
        match &self.end {
            Bound::Included(end) => key > end.as_slice(),
            Bound::Excluded(end) => key >= end.as_slice(),
            Bound::Unbounded => false,
        }
    }

    /// Returns the part of it that a walk in `direction` still has before it at `key`, that key
    /// included.
    #[must_use]
    pub fn from_key(&self, key: &[u8], direction: Direction) -> Self {
        let (mut range, at) = (self.clone(), Bound::Included(key.to_vec()));
        match direction {
            Direction::Forward if !self.begins_behind(key) => range.start = at,
            Direction::Backward if !self.ends_before(key) => range.end = at,
            _ => {}
        }
        range
    }

    /// Returns whether `key` is below the lower end.
    fn begins_behind(&self, key: &[u8]) -> bool {
        match &self.start {
            Bound::Included(start) => key < start.as_slice(),
            Bound::Excluded(start) => key <= start.as_slice(),
            Bound::Unbounded => false,
        }
    }

    /// Returns whether every key is in it.
    pub fn is_all(&self) -> bool {
        let starts = match &self.start {
            Bound::Included(start) => start.is_empty(),
            Bound::Excluded(_) => false,
            Bound::Unbounded => true,
        };
        starts && self.end == Bound::Unbounded
    }

    /// Returns whether no key can be in it, because its ends are in the wrong order.
    pub fn is_empty(&self) -> bool {
        match (&self.start, &self.end) {
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end))
            | (Bound::Excluded(start), Bound::Included(end)) => start >= end,
            _ => false,
        }
    }

    /// Returns the same keys as a half-open range: from one key on, before another one if there is
    /// one; `None` if none can be in it.
    pub fn half_open(&self) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        // The next key after one is the one with a zero behind it.
        let after = |key: &[u8]| [key, &[0]].concat();
        let start = match &self.start {
            Bound::Included(start) => start.clone(),
            Bound::Excluded(start) => after(start),
            Bound::Unbounded => Vec::new(),
        };
        let end = match &self.end {
            Bound::Included(end) => Some(after(end)),
            Bound::Excluded(end) => Some(end.clone()),
            Bound::Unbounded => None,
        };
        end.as_ref().is_none_or(|end| start < *end).then_some((start, end))
    }
}
