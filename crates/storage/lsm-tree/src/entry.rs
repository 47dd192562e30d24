//! One version of a key, and the order of versions everywhere: by key, the newest first.

use codec::SeqNo;
use engine::Result;
pub use engine::Target;

use crate::table::Missing;

/// A version of a key: a value, or `None` for a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The number of the write.
    pub seqno: SeqNo,
    /// The value, or `None` for a tombstone.
    pub value: Option<&'a [u8]>,
}

impl<'a> Entry<'a> {
    /// Returns its place in the order.
    #[inline]
    pub fn target(&self) -> Target<'a> {
        Target { key: self.key, seqno: self.seqno }
    }

    /// Returns the bytes of its key and value.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.map_or(0, <[u8]>::len)
    }
}

/// The result of a search for one key. A value was copied to the place that the caller passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The number of the write.
    pub seqno: SeqNo,
    /// Whether it is a value, rather than a tombstone.
    pub is_value: bool,
}

impl Found {
    /// Returns the same, or a tombstone if it is older than the range delete `hidden`.
    #[inline]
    pub fn unless_below(self, hidden: SeqNo) -> Self {
        if self.seqno < hidden { Self { seqno: hidden, is_value: false } } else { self }
    }

    /// Makes the result for `entry`, and copies its value to `into`.
    #[inline]
    pub fn copy(entry: &Entry<'_>, into: &mut Vec<u8>) -> Self {
        if let Some(value) = entry.value {
            into.clear();
            into.extend_from_slice(value);
        }
        Self { seqno: entry.seqno, is_value: entry.value.is_some() }
    }
}

/// The target of a seek.
#[derive(Clone, Copy, Debug)]
pub enum Aim<'a> {
    /// [`EntryCursor::seek`].
    At(Target<'a>),
    /// [`EntryCursor::seek_before`].
    Before(Option<Target<'a>>),
}

/// A walk over entries, one way: forward after [`EntryCursor::seek`], backward after
/// [`EntryCursor::seek_before`]. After an error the caller must seek again.
pub trait EntryCursor: Send {
    /// Prepares a seek. The next call must be that seek, or another `aim` with the same place.
    /// Returns the piece that the seek would have to read first, as far as that is known, and the
    /// blocks after it that the walk is expected to reach. Nothing is read here.
    fn aim(&mut self, _: Aim<'_>) -> Result<Option<Missing>> {
        Ok(None)
    }

    /// Decides whether later calls may wait for the device, as they may at first. Otherwise a call
    /// that would have to returns [`engine::Error::WouldWait`]; then the walk is not positioned.
    fn allow_reads(&mut self, _: bool) {}

    /// Goes to the first entry at or behind `to`.
    fn seek(&mut self, to: Target<'_>) -> Result<()>;

    /// Goes to the last entry before `to`, or the last of all.
    fn seek_before(&mut self, to: Option<Target<'_>>) -> Result<()>;

    /// Moves one entry forward, after `seek`.
    fn next(&mut self) -> Result<()>;

    /// Moves one entry backward, after `seek_before`.
    fn previous(&mut self) -> Result<()>;

    /// Returns the current entry; `None` at the end.
    fn entry(&self) -> Option<Entry<'_>>;
}
