//! Keys of the skip list: owned ones that it keeps, and borrowed ones that it is searched by.

use std::borrow::Borrow;
use std::cmp::Ordering;

use codec::SeqNo;

use super::Target;

/// A key and a number.
#[derive(Debug)]
pub(super) struct EntryKey {
    key: Box<[u8]>,
    seqno: SeqNo,
}

/// Whatever stands for a place in the order of entries.
pub(super) trait AsTarget {
    fn target(&self) -> Target<'_>;
}

impl EntryKey {
    pub(super) fn new(key: &[u8], seqno: SeqNo) -> Self {
        Self { key: key.into(), seqno }
    }
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
