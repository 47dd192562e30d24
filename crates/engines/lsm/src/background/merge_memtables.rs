//! Merging instead of flushing: sealed memtables of one Drange of which little is kept become one
//! memtable (the paper's section 4.2, which merges those of fewer than 100 keys).
//!
//! Merged entries are not persisted, and the floor of the new memtable is the least of its inputs'.
//! So the journal keeps their writes until it is too long for the host, which then flushes
//! everything. [`Retention`] decides which versions stay, as for a table; a tombstone stays if
//! older versions may be in tables. A first pass counts the versions that would stay, before
//! anything is copied. If there are too many by the time of the copy, since a snapshot sees more,
//! the copy is dropped.
//!
//! # Invariants
//! - H1. A tombstone is dropped only if no table covers its key, and no memtable outside of the
//!   inputs can have an older version. Older memtables with the same keys were flushed (E1), and
//!   the younger ones have later versions, unless the Drange has several slots: there every
//!   tombstone stays. Tables that come meanwhile are ingested, with later versions.
//! - H2. A merge may drop a tombstone before the journal has it, together with an older put that
//!   the journal has. The tombstone's number may be above the floor of every memtable: a writer
//!   with an old state writes to a memtable that already has a successor. So the state keeps the
//!   largest number of all inputs, also if the merge keeps nothing. The journal must reach that
//!   number before the manifest says that the put is persisted (`state`, S4). Otherwise a power cut
//!   could lose the tombstone alone, and the put would be neither in a table nor replayed.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{Op, Reservation, Result};

use crate::memtable::{Memtable, MemtableCursor, entry_bytes};
use crate::store::Shared;
use lsm_tree::entry::{Entry, EntryCursor, Target};
use lsm_tree::merge::Merged;
use lsm_tree::retention::Retention;
use lsm_tree::table::hash;

/// Part of a full memtable that a merged one takes at most. Merged memtables at rest, memtables
/// that are written to and memtables being merged fit into the memtables' share (`memory_split`).
const BYTES_PART: u64 = 2;

impl Shared {
    /// Replaces these memtables, which are sealed and all of one Drange, by one memtable if few of
    /// their entries are kept. Returns whether it did. The caller holds the flusher.
    pub(crate) fn merge_memtables(&self, inputs: &[Arc<Memtable>]) -> Result<bool> {
        if !self.options.merging || !self.visit_little(inputs, &mut |_| {})? {
            return Ok(false);
        }
        let mut is_all = false;
        let merged = Memtable::merged(inputs, |entered| {
            is_all = self.visit_little(inputs, &mut |entry| {
                let op = match entry.value {
                    Some(value) => Op::Put { key: entry.key, value },
                    None => Op::Delete { key: entry.key },
                };
                entered.insert(&op, entry.seqno, &mut Reservation::uncounted());
            })?;
            Ok(())
        })?;
        if !is_all {
            return Ok(false);
        }
        let install = self.state.install.lock();
        let next = self.state.load().with_merged(inputs, merged.clone());
        let generation = next.generation;
        self.state.store(Arc::new(next));
        drop(install);
        self.lead_to(merged)?;
        self.state.open_cursors.leave_all_but(generation);
        self.background.counts.merges.fetch_add(1, Relaxed);
        Ok(true)
    }

    /// Visits the entries of `inputs` that are kept, until they are more than a merged memtable may
    /// take. Returns whether it visited all of them.
    fn visit_little(
        &self,
        inputs: &[Arc<Memtable>],
        visit: &mut dyn FnMut(&Entry<'_>),
    ) -> Result<bool> {
        let (mut bytes, bytes_max) = (0, self.memory_split().memtable_bytes / BYTES_PART);
        self.visit_kept(inputs, &mut |entry| {
            bytes += entry_bytes(entry.key, entry.value);
            let is_little = bytes <= bytes_max;
            if is_little {
                visit(entry);
            }
            is_little
        })
    }

    /// Makes the lookup index lead to the entries of a merged memtable.
    fn lead_to(&self, merged: Option<Arc<Memtable>>) -> Result<()> {
        let Some(merged) = merged else { return Ok(()) };
        let (id, index) = (merged.id(), self.lookups.index.load());
        let mut all = walk(&[merged]);
        all.seek(Target::START)?;
        while let Some(entry) = all.entry() {
            index.lead(hash(entry.key), entry.seqno, id);
            all.next()?;
        }
        Ok(())
    }

    /// Visits the versions of each key that [`Retention`] keeps, as long as `visit` wants more.
    /// Returns whether it visited all of them.
    pub(crate) fn visit_kept(
        &self,
        inputs: &[Arc<Memtable>],
        visit: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Result<bool> {
        let is_seen = |older, newer| self.host.sequence.is_seen(older, newer);
        let sweep = self.sweep();
        let version = Arc::clone(&self.state.load().version);
        let is_shared = inputs.iter().any(|input| input.is_one_of_many());
        let is_below = |key: &[u8]| is_shared || version.may_have(key);
        let mut retention = Retention::new(&is_seen, &is_below, &sweep);
        let mut all = walk(inputs);
        all.seek(Target::START)?;
        let mut goes_on = true;
        while let Some(entry) = all.entry().filter(|_| goes_on) {
            retention.offer(&entry, &mut |kept| {
                goes_on = goes_on && visit(kept);
                Ok(())
            })?;
            all.next()?;
        }
        Ok(goes_on)
    }
}

/// A walk over the entries of memtables.
pub(crate) fn walk(memtables: &[Arc<Memtable>]) -> Merged {
    let mut sources: Vec<Box<dyn EntryCursor>> = Vec::new();
    for memtable in memtables {
        sources.push(Box::new(MemtableCursor::new(Arc::clone(memtable))));
    }
    Merged::new(sources)
}
