//! The steps of a write.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::limits::{KEY_BYTES_MAX, check_key, check_value};

/// One step of a write to one keyspace. Steps of one batch share a sequence number; of two steps on
/// one key the later one applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Give `key` the value `value`, whatever it had before.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its new value.
        value: &'a [u8],
    },
    /// Remove `key`; no error if it is not there.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Remove every key from `start` on, before `end` if there is one. In a batch it also removes
    /// keys that earlier steps have put there, and none of later ones. Engines that cannot refuse
    /// it ([`Error::Unordered`], [`Error::NoRangeDeletes`]).
    DeleteRange {
        /// The first key that is removed, if it is there.
        start: &'a [u8],
        /// The first one behind it that stays. A bound may be longer by a byte than a key.
        end: Option<&'a [u8]>,
    },
}

impl<'a> Op<'a> {
    /// Returns the key that this step is about, or the first one.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Op::Put { key, .. } | Op::Delete { key } => key,
            Op::DeleteRange { start, .. } => start,
        }
    }

    /// Returns the value that the key has afterwards; `None` if it is removed.
    pub fn value(&self) -> Option<&'a [u8]> {
        match self {
            Op::Put { value, .. } => Some(value),
            Op::Delete { .. } | Op::DeleteRange { .. } => None,
        }
    }

    /// Returns whether it removes a range.
    pub fn is_range(&self) -> bool {
        matches!(self, Op::DeleteRange { .. })
    }

    /// Returns whether it determines the state of `key`.
    pub fn decides(&self, key: &[u8]) -> bool {
        match self {
            Op::Put { key: own, .. } | Op::Delete { key: own } => *own == key,
            Op::DeleteRange { start, end } => *start <= key && end.is_none_or(|end| key < end),
        }
    }

    /// Returns the bytes of its key and value, or of its bounds.
    pub fn bytes(&self) -> usize {
        let more = match self {
            Op::Put { value, .. } => value.len(),
            Op::Delete { .. } => 0,
            Op::DeleteRange { end, .. } => end.map_or(0, <[u8]>::len),
        };
        self.key().len() + more
    }

    /// Accepts every step that all engines with this operation can hold.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`].
    pub fn check(&self) -> Result<()> {
        match self {
            Op::Put { key, value } => check_key(key).and_then(|()| check_value(value)),
            Op::Delete { key } => check_key(key),
            Op::DeleteRange { start, end } => {
                let bytes = start.len().max(end.map_or(0, <[u8]>::len));
                if bytes > KEY_BYTES_MAX + 1 { Err(Error::KeyTooLong { bytes }) } else { Ok(()) }
            }
        }
    }
}

/// Number of steps of a batch up to which each step is compared with all later ones.
const FEW_STEPS: usize = 8;

/// Returns the steps of a batch about one key each that no later step undoes, from the last one to
/// the first. No reader may see the effect of an earlier step: a key that is deleted and put in one
/// batch was never absent.
pub fn last_of_each_key<'a, 'b>(ops: &'a [Op<'b>]) -> impl Iterator<Item = &'a Op<'b>> {
    let mut seen = HashSet::new();
    let mut ranges: Vec<&Op<'_>> = Vec::new();
    ops.iter().enumerate().rev().filter_map(move |(index, op)| {
        if op.is_range() {
            ranges.push(op);
            return None;
        }
        let is_last = if ops.len() <= FEW_STEPS {
            let mut later = ops.get(index + 1..).unwrap_or_default().iter();
            !later.any(|later| later.decides(op.key()))
        } else {
            seen.insert(op.key()) && !ranges.iter().any(|range| range.decides(op.key()))
        };
        is_last.then_some(op)
    })
}

#[cfg(test)]
mod tests {
    use sequence::KeyRange;

    use super::*;

    #[test]
    fn of_a_batch_the_last_step_of_each_key_stands() {
        let put = |key, value| Op::Put { key, value };
        let (a, b, c): (&[u8], &[u8], &[u8]) = (b"a", b"b", b"c");
        let range = Op::DeleteRange { start: a, end: Some(c) };
        let steps =
            [put(a, b"1"), put(c, b"1"), range, put(a, b"2"), Op::Delete { key: a }, put(b, b"3")];
        let last = [put(b, b"3"), Op::Delete { key: a }, put(c, b"1")];
        assert!(last_of_each_key(&steps).eq(&last));
        // Many steps are searched in another way.
        let others: Vec<[u8; 1]> = (0..20).map(|number| [100 + number]).collect();
        let others = others.iter().map(|key| put(key, b"x"));
        let many: Vec<_> = others.chain(steps).collect();
        assert_eq!(last_of_each_key(&many).count(), 23);
        assert!(last_of_each_key(&many).take(3).eq(&last));
    }

    /// A range delete decides the keys that its range has.
    #[test]
    fn a_range_delete_decides_the_keys_of_its_range() {
        let keys = [&b""[..], b"a", b"a\0", b"b", b"ba", b"c"];
        for start in keys {
            for end in keys.map(Some).into_iter().chain([None]) {
                let range = match end {
                    Some(end) => KeyRange::of(start..end),
                    None => KeyRange::of(start..),
                };
                let op = Op::DeleteRange { start, end };
                for key in keys {
                    assert_eq!(op.decides(key), range.contains(key), "{op:?} and {key:?}");
                }
            }
        }
    }
}
