//! One version of a key, and the order in which versions lie everywhere: by key, the newest first.

use std::cmp::Ordering;

use codec::SeqNo;
use engine::Result;

/// A version of a key: a value, or `None` for a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seqno: SeqNo,
    pub(crate) value: Option<&'a [u8]>,
}

/// A place in the order of entries. No entry has the number zero, nor the largest one, so
/// [`Target::first_of`] lies before all versions of a key and [`Target::behind`] after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seqno: SeqNo,
}

impl<'a> Target<'a> {
    /// Before everything.
    pub(crate) const START: Self = Self { key: b"", seqno: SeqNo::MAX };

    /// Before every version of `key`.
    pub(crate) fn first_of(key: &'a [u8]) -> Self {
        Self { key, seqno: SeqNo::MAX }
    }

    /// Behind every version of `key`.
    pub(crate) fn behind(key: &'a [u8]) -> Self {
        Self { key, seqno: SeqNo::ZERO }
    }
}

impl Ord for Target<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(other.key).then_with(|| other.seqno.cmp(&self.seqno))
    }
}

impl PartialOrd for Target<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> Entry<'a> {
    /// Where it lies.
    pub(crate) fn target(&self) -> Target<'a> {
        Target { key: self.key, seqno: self.seqno }
    }

    /// Bytes of its key and value.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.value.map_or(0, <[u8]>::len)
    }
}

/// What a search for one key has found; a value was copied to where the caller wanted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) seqno: SeqNo,
    /// Whether it is a value, rather than a tombstone.
    pub(crate) is_value: bool,
}

impl Found {
    /// The same, or a tombstone, if it is older than the range delete `hidden`.
    pub(crate) fn unless_below(self, hidden: SeqNo) -> Self {
        if self.seqno < hidden { Self { seqno: hidden, is_value: false } } else { self }
    }

    /// What `entry` is, its value copied to `into`.
    pub(crate) fn copy(entry: &Entry<'_>, into: &mut Vec<u8>) -> Self {
        if let Some(value) = entry.value {
            into.clear();
            into.extend_from_slice(value);
        }
        Self { seqno: entry.seqno, is_value: entry.value.is_some() }
    }
}

/// A walk over entries, one way: forward after [`EntryCursor::seek`], backward after
/// [`EntryCursor::seek_before`]. After an error it must be sought anew.
pub(crate) trait EntryCursor: Send {
    /// Goes to the first entry at or behind `to`.
    fn seek(&mut self, to: Target<'_>) -> Result<()>;

    /// Goes to the last entry before `to`, or the last of all.
    fn seek_before(&mut self, to: Option<Target<'_>>) -> Result<()>;

    /// One forward, after `seek`.
    fn next(&mut self) -> Result<()>;

    /// One backward, after `seek_before`.
    fn previous(&mut self) -> Result<()>;

    /// Where it stands; `None` at the end.
    fn entry(&self) -> Option<Entry<'_>>;
}
