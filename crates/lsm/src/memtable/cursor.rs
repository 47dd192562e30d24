//! A walk over a memtable, which copies a few entries at a time, so that it holds nothing in
//! between.

use std::ops::Bound;
use std::sync::Arc;

use codec::SeqNo;
use engine::Result;
use sync::skip_list;

use super::Memtable;
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
    fn of(found: skip_list::Entry<'_>) -> Self {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        found.read_key(&mut key);
        let value = found.read_value(&mut value).then_some(value);
        Self { key, seqno: SeqNo::new(found.number()), value }
    }

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
        let before = |to: Target<'_>| entries.seek_before(to.key, to.seqno.get());
        let mut found = match (forward, from) {
            (true, Bound::Included(to)) => entries.seek(to.key, to.seqno.get()),
            (true, Bound::Excluded(to)) => entries.seek_after(to.key, to.seqno.get()),
            (true, Bound::Unbounded) => entries.first(),
            (false, Bound::Included(to) | Bound::Excluded(to)) => before(to),
            (false, Bound::Unbounded) => entries.last(),
        };
        while let Some(here) = found {
            let copied = Copied::of(here);
            let is_last = self.run.len() + 1 == self.run_len;
            found = match forward {
                _ if is_last => None,
                true => entries.next(here),
                false => before(copied.entry().target()),
            };
            self.run.push(copied);
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
