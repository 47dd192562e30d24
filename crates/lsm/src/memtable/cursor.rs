//! A walk over a memtable, which copies a few entries at a time, so that it holds nothing in
//! between.

use std::ops::Bound;
use std::sync::Arc;

use codec::SeqNo;
use engine::{AsTarget, Result};

use super::{Memtable, entry_of};
use crate::entry::{Entry, EntryCursor, Target};

/// Entries that are copied at a time, at most; each time twice as many as before.
const RUN_MAX: usize = 32;

/// A copied entry.
struct Copied {
    key: Vec<u8>,
    seqno: SeqNo,
    value: Option<Vec<u8>>,
}

impl Copied {
    fn entry(&self) -> Entry<'_> {
        Entry { key: &self.key, seqno: self.seqno, value: self.value.as_deref() }
    }
}

/// A walk over a memtable.
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    /// In the order of the walk.
    run: Vec<Copied>,
    at: usize,
    run_len: usize,
}

impl MemtableCursor {
    /// A walk that stands nowhere.
    pub(crate) fn new(memtable: Arc<Memtable>) -> Self {
        Self { memtable, run: Vec::new(), at: 0, run_len: 1 }
    }

    fn read(&mut self, from: Bound<Target<'_>>, forward: bool) {
        self.run.clear();
        self.at = 0;
        let entries = &self.memtable.entries;
        let bound = match &from {
            Bound::Included(target) => Bound::Included(target as &dyn AsTarget),
            Bound::Excluded(target) => Bound::Excluded(target as &dyn AsTarget),
            Bound::Unbounded => Bound::Unbounded,
        };
        let mut found =
            if forward { entries.lower_bound(bound) } else { entries.upper_bound(bound) };
        while let Some(here) = found {
            let entry = entry_of(&here);
            let value = entry.value.map(<[u8]>::to_vec);
            self.run.push(Copied { key: entry.key.to_vec(), seqno: entry.seqno, value });
            if self.run.len() == self.run_len {
                break;
            }
            found = if forward { here.next() } else { here.prev() };
        }
        self.run_len = (self.run_len * 2).min(RUN_MAX);
    }

    fn advance(&mut self, forward: bool) {
        if self.at + 1 < self.run.len() {
            self.at += 1;
            return;
        }
        let Some(last) = self.run.pop() else { return };
        self.read(Bound::Excluded(last.entry().target()), forward);
    }
}

impl EntryCursor for MemtableCursor {
    fn seek(&mut self, to: Target<'_>) -> Result<()> {
        self.run_len = 1;
        self.read(Bound::Included(to), true);
        Ok(())
    }

    fn seek_before(&mut self, to: Option<Target<'_>>) -> Result<()> {
        self.run_len = 1;
        self.read(to.map_or(Bound::Unbounded, Bound::Excluded), false);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.advance(true);
        Ok(())
    }

    fn previous(&mut self) -> Result<()> {
        self.advance(false);
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.run.get(self.at).map(Copied::entry)
    }
}
