//! Which versions a flush or a compaction keeps.
//!
//! # Invariants
//! - R1. The newest version of a key is kept, and every older one that a snapshot may show instead
//!   of its successor ([`engine::Sequence::is_seen`]).
//! - R2. A tombstone is dropped only where nothing older of its key is kept and nothing lies below:
//!   then its absence shows the same.

use codec::SeqNo;
use engine::Result;

use crate::entry::Entry;

/// Goes over the versions of all keys in their order, and says which are kept.
pub(crate) struct Retention<'a> {
    /// Whether a snapshot may show the first number, the second being its successor.
    is_seen: &'a dyn Fn(SeqNo, SeqNo) -> bool,
    /// Whether there may be older versions of a key than those that come by here.
    is_below: &'a dyn Fn(&[u8]) -> bool,
    key: Vec<u8>,
    /// The version of `key` that came by last and was not dropped.
    last: Option<SeqNo>,
    /// That version, if it is a tombstone that is kept only if an older version is.
    undecided: Option<SeqNo>,
}

impl<'a> Retention<'a> {
    /// Nothing came by yet.
    pub(crate) fn new(
        is_seen: &'a dyn Fn(SeqNo, SeqNo) -> bool,
        is_below: &'a dyn Fn(&[u8]) -> bool,
    ) -> Self {
        Self { is_seen, is_below, key: Vec::new(), last: None, undecided: None }
    }

    /// The next version comes by; `keep` gets what is kept, in order.
    pub(crate) fn offer(
        &mut self,
        entry: &Entry<'_>,
        keep: &mut dyn FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        match self.last {
            Some(newer) if self.key == entry.key => {
                if !(self.is_seen)(entry.seqno, newer) {
                    return Ok(());
                }
                if let Some(seqno) = self.undecided.take() {
                    keep(&Entry { key: &self.key, seqno, value: None })?;
                }
            }
            _ => {
                self.undecided = None;
                self.key.clear();
                self.key.extend_from_slice(entry.key);
            }
        }
        self.last = Some(entry.seqno);
        if entry.value.is_none() && !(self.is_below)(entry.key) {
            self.undecided = Some(entry.seqno);
            return Ok(());
        }
        keep(entry)
    }
}

#[cfg(test)]
mod tests;
