//! Walks over a memtable: of each key the newest version that a reader may see, or that a commit
//! takes.

use std::ops::Bound;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{AsTarget, Target};

use super::{MapEntry, Memtable};

/// A version of a key, where it lies in the memtable.
pub(crate) struct Update<'a>(MapEntry<'a>);

impl Update<'_> {
    pub(crate) fn key(&self) -> &[u8] {
        self.0.key().target().key
    }

    /// Its value; none for a tombstone.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        self.0.value().value.as_deref()
    }

    fn is_replaced(&self) -> bool {
        self.0.value().is_replaced.load(Relaxed)
    }

    fn seqno(&self) -> SeqNo {
        self.0.key().target().seqno
    }
}

/// A walk over the keys of a memtable, either way: of each the newest version above `above` and at or
/// below `upto`.
pub(crate) struct Walker<'a> {
    memtable: &'a Memtable,
    above: SeqNo,
    upto: SeqNo,
    /// Whether what is replaced counts (memtable, M6).
    has_replaced: bool,
    here: Option<Update<'a>>,
}

impl<'a> Walker<'a> {
    /// A walk that stands nowhere.
    pub(crate) fn new(memtable: &'a Memtable, above: SeqNo, upto: SeqNo) -> Self {
        Self { memtable, above, upto, has_replaced: true, here: None }
    }

    /// The same for a commit, over what is not marked as replaced; it walks forward alone.
    pub(crate) fn of_commit(memtable: &'a Memtable, above: SeqNo, upto: SeqNo) -> Self {
        Self { has_replaced: false, ..Self::new(memtable, above, upto) }
    }

    /// Where it stands.
    pub(crate) fn here(&self) -> Option<&Update<'a>> {
        self.here.as_ref()
    }

    /// Where it stands, and goes on to the next key.
    pub(crate) fn take(&mut self) -> Option<Update<'a>> {
        let update = self.here.take()?;
        let next = update.0.next();
        self.settle(next, Some(update.key()));
        Some(update)
    }

    /// Goes on to the next key.
    pub(crate) fn take_one(&mut self) {
        self.take();
    }

    /// Goes to the first key at or behind `key`, or behind it.
    pub(crate) fn seek(&mut self, key: Bound<&[u8]>) {
        let target = match key {
            Bound::Included(key) => Target::first_of(key),
            Bound::Excluded(key) => Target::behind(key),
            Bound::Unbounded => Target::first_of(&[]),
        };
        let first = self.memtable.entries.lower_bound(Bound::Included(&target as &dyn AsTarget));
        self.settle(first, None);
    }

    /// The first version from `entry` on that counts, of another key than `done`.
    fn settle(&mut self, mut entry: Option<MapEntry<'a>>, done: Option<&[u8]>) {
        self.here = None;
        let mut passed: Option<Update<'a>> = None;
        while let Some(found) = entry {
            let found = Update(found);
            let key = found.key();
            let is_done =
                done == Some(key) || passed.as_ref().is_some_and(|passed| passed.key() == key);
            if !is_done && found.seqno() <= self.upto {
                if found.seqno() > self.above && (self.has_replaced || !found.is_replaced()) {
                    self.here = Some(found);
                    return;
                }
                // What is older of this key counts as little.
                entry = found.0.next();
                passed = Some(found);
                continue;
            }
            entry = found.0.next();
        }
    }

    /// Goes to the last key before `key`, or at it.
    pub(crate) fn seek_back(&mut self, key: Bound<&[u8]>) {
        let entries = &self.memtable.entries;
        let target = match key {
            Bound::Included(key) => Some(Target::behind(key)),
            Bound::Excluded(key) => Some(Target::first_of(key)),
            Bound::Unbounded => None,
        };
        let mut bound = match &target {
            Some(target) => entries.upper_bound(Bound::Excluded(target as &dyn AsTarget)),
            None => entries.back(),
        };
        self.here = None;
        while let Some(last) = bound {
            // The oldest version of a key; the newest that counts is somewhere before it.
            let key = last.key().target().key;
            let wanted = Target { key, seqno: self.upto };
            let found = entries.lower_bound(Bound::Included(&wanted as &dyn AsTarget)).map(Update);
            if let Some(found) = found.filter(|found| found.key() == key)
                && found.seqno() > self.above
            {
                self.here = Some(found);
                return;
            }
            let before = Target::first_of(key);
            bound = entries.upper_bound(Bound::Excluded(&before as &dyn AsTarget));
        }
    }

    /// Goes back to the key before the one where it stands.
    pub(crate) fn step_back(&mut self) {
        if let Some(here) = self.here.take() {
            self.seek_back(Bound::Excluded(here.key()));
        }
    }
}
