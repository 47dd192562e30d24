//! A walk over a memtable, which copies a few entries at a time, so that it holds nothing in
//! between. Their memory is used again for the next ones.

use std::ops::Bound;
use std::sync::Arc;

use arena::skip_list;
use codec::SeqNo;
use engine::Result;

use super::Memtable;
use lsm_tree::entry::{Entry, EntryCursor, Target};

/// Most entries that are copied at a time; each time twice the number before.
const RUN_MAX: usize = 32;
/// Memory of a value that is not kept for the next one, in bytes.
const KEPT_MAX: usize = 64 << 10;

/// A copied entry.
#[derive(Default)]
struct Copied {
    key: Vec<u8>,
    seqno: SeqNo,
    value: Vec<u8>,
    is_tombstone: bool,
}

impl Copied {
    fn copy(&mut self, found: skip_list::Entry<'_>) {
        found.read_key(&mut self.key);
        if self.value.capacity() > KEPT_MAX {
            self.value = Vec::new();
        }
        self.is_tombstone = !found.read_value(&mut self.value);
        self.seqno = SeqNo::new(found.number());
    }

    fn entry(&self) -> Entry<'_> {
        let value = (!self.is_tombstone).then_some(self.value.as_slice());
        Entry { key: &self.key, seqno: self.seqno, value }
    }
}

/// A walk over a memtable.
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    /// In the order of the walk; after the first `copied` of them there is only memory.
    run: Vec<Copied>,
    copied: usize,
    at: usize,
    run_len: usize,
}

impl MemtableCursor {
    /// Makes a walk without a position.
    pub(crate) fn new(memtable: Arc<Memtable>) -> Self {
        Self { memtable, run: Vec::new(), copied: 0, at: 0, run_len: 1 }
    }

    fn read(&mut self, from: Bound<Target<'_>>, forward: bool) {
        self.copied = 0;
        self.at = 0;
        let entries = self.memtable.entries();
        let before = |to: Target<'_>| entries.seek_before(to.key, to.seqno.get());
        let mut found = match (forward, from) {
            (true, Bound::Included(to)) => entries.seek(to.key, to.seqno.get()),
            (true, Bound::Excluded(to)) => entries.seek_after(to.key, to.seqno.get()),
            (true, Bound::Unbounded) => entries.first(),
            (false, Bound::Included(to) | Bound::Excluded(to)) => before(to),
            (false, Bound::Unbounded) => entries.last(),
        };
        while let Some(here) = found {
            if self.run.len() == self.copied {
                self.run.push(Copied::default());
            }
            let Some(copied) = self.run.get_mut(self.copied) else { break };
            copied.copy(here);
            self.copied += 1;
            found = match forward {
                _ if self.copied == self.run_len => None,
                true => entries.next(here),
                false => before(copied.entry().target()),
            };
        }
        self.run_len = (self.run_len * 2).min(RUN_MAX);
    }

    fn advance(&mut self, forward: bool) {
        if self.at + 1 < self.copied {
            self.at += 1;
            return;
        }
        let Some(last) = self.copied.checked_sub(1) else { return };
        let last = self.run.swap_remove(last);
        self.read(Bound::Excluded(last.entry().target()), forward);
        self.run.push(last);
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
        self.run.get(self.at).filter(|_| self.at < self.copied).map(Copied::entry)
    }
}
