//! The order of versions of keys in memtables and tables: by key, of one key the newest first.
//!
//! A [`Target`] is a place in that order. An [`EntryKey`] owns its key, as an ordered map in memory
//! needs it, and the map is searched by places that are borrowed ([`AsTarget`]): no search
//! allocates.

use std::borrow::Borrow;
use std::cmp::Ordering;

use codec::SeqNo;

/// A place in the order of versions. No version has the number zero, nor the largest one, so
/// [`Target::first_of`] is before all versions of a key and [`Target::behind`] after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The number of a version of it.
    pub seqno: SeqNo,
}

impl<'a> Target<'a> {
    /// Before everything.
    pub const START: Self = Self { key: b"", seqno: SeqNo::MAX };

    /// Before every version of `key`.
    pub fn first_of(key: &'a [u8]) -> Self {
        Self { key, seqno: SeqNo::MAX }
    }

    /// Behind every version of `key`.
    pub fn behind(key: &'a [u8]) -> Self {
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

/// A key and the number of a version of it, owned. It has the place of its target.
#[derive(Debug)]
pub struct EntryKey {
    key: Box<[u8]>,
    seqno: SeqNo,
}

impl EntryKey {
    /// Returns the place of this version, with a copy of the key.
    pub fn new(key: &[u8], seqno: SeqNo) -> Self {
        Self { key: key.into(), seqno }
    }
}

/// Any type that means a place in the order of versions.
pub trait AsTarget {
    /// That place.
    fn target(&self) -> Target<'_>;
}

impl AsTarget for EntryKey {
    fn target(&self) -> Target<'_> {
        Target { key: &self.key, seqno: self.seqno }
    }
}

impl AsTarget for Target<'_> {
    fn target(&self) -> Target<'_> {
        *self
    }
}

impl<'a> Borrow<dyn AsTarget + 'a> for EntryKey {
    fn borrow(&self) -> &(dyn AsTarget + 'a) {
        self
    }
}

impl Ord for dyn AsTarget + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.target().cmp(&other.target())
    }
}

impl PartialOrd for dyn AsTarget + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn AsTarget + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.target() == other.target()
    }
}

impl Eq for dyn AsTarget + '_ {}

impl Ord for EntryKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.target().cmp(&other.target())
    }
}

impl PartialOrd for EntryKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for EntryKey {
    fn eq(&self, other: &Self) -> bool {
        self.target() == other.target()
    }
}

impl Eq for EntryKey {}
