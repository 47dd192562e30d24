//! The choice of the versions that a flush or a compaction keeps.
//!
//! # Invariants
//! - R1. The newest version of a key is kept, and every older one that a snapshot may show instead
//!   of its successor ([`engine::Sequence::is_seen`]). A range delete that covers the key is a
//!   successor too, and no version of it needs to be kept: it also hides the versions below (G1 of
//!   `range_deletes`).
//! - R2. A tombstone is dropped only if no older version of its key is kept and none is below: then
//!   its absence shows the same.

use codec::SeqNo;
use engine::Result;

use crate::entry::Entry;
use crate::range_deletes::Sweep;

/// Goes over the versions of all keys in their order, and says which are kept.
pub struct Retention<'a> {
    /// Whether a snapshot may show the first number, the second being its successor.
    is_seen: &'a dyn Fn(SeqNo, SeqNo) -> bool,
    /// Whether there may be older versions of a key than the ones that are offered.
    is_below: &'a dyn Fn(&[u8]) -> bool,
    sweep: &'a Sweep,
    key: Vec<u8>,
    /// The version of `key` that was offered last and was not dropped.
    last: Option<SeqNo>,
    /// That version, if it is a tombstone that is kept only if an older version is.
    undecided: Option<SeqNo>,
}

impl<'a> Retention<'a> {
    /// Makes the state in which no version was offered yet.
    pub fn new(
        is_seen: &'a dyn Fn(SeqNo, SeqNo) -> bool,
        is_below: &'a dyn Fn(&[u8]) -> bool,
        sweep: &'a Sweep,
    ) -> Self {
        Self { is_seen, is_below, sweep, key: Vec::new(), last: None, undecided: None }
    }

    /// Offers the next version; `keep` gets the kept ones, in order.
    pub fn offer(
        &mut self,
        entry: &Entry<'_>,
        keep: &mut dyn FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        let newer = self.last.filter(|_| self.key == entry.key);
        let hider = self.sweep.hider(entry.key, entry.seqno);
        let successor = newer.into_iter().chain(hider).min();
        if successor.is_some_and(|successor| !(self.is_seen)(entry.seqno, successor)) {
            return Ok(());
        }
        if newer.is_none() {
            self.undecided = None;
            self.key.clear();
            self.key.extend_from_slice(entry.key);
        } else if let Some(seqno) = self.undecided.take() {
            keep(&Entry { key: &self.key, seqno, value: None })?;
        }
        self.last = Some(entry.seqno);
        if entry.value.is_none() && !(self.is_below)(entry.key) {
            self.undecided = Some(entry.seqno);
            return Ok(());
        }
        keep(entry)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
