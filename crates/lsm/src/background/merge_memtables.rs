//! Merging instead of flushing: sealed memtables of one Drange that hold few keys become one small
//! memtable (the paper's section 4.2).
//!
//! What is merged is not persisted, and the floor of the new memtable is the least of its inputs',
//! so the journal keeps their writes. Which versions stay, [`Retention`] says, as for a table; a
//! tombstone always stays, since older versions may lie in tables. Where it would be too much, the
//! copying ends there, and what was copied is dropped.

use std::sync::Arc;

use engine::{Op, Result};

use super::retention::Retention;
use crate::entry::{Entry, EntryCursor, Target};
use crate::memtable::{Memtable, MemtableCursor, entry_bytes};
use crate::merge::Merged;
use crate::store::Shared;
use crate::table::hash;

/// Memtables of fewer keys than this are merged.
const KEYS_MAX: usize = 100;
/// A merged memtable takes at most this part of a full one.
const BYTES_PART: u64 = 8;

impl Shared {
    /// Puts one memtable in the place of these, which are sealed and all of one Drange, if they
    /// have few keys, and small values; answers whether they had. The flusher is held.
    pub(crate) fn merge_memtables(&self, inputs: &[Arc<Memtable>]) -> Result<bool> {
        if !self.options.merging || !has_few_keys(inputs)? {
            return Ok(false);
        }
        let bytes_max = self.memory_split().memtable_bytes / BYTES_PART;
        let (mut kept, mut bytes, mut is_all) = (Vec::new(), 0, false);
        let merged = Memtable::merged(inputs, |entered| {
            is_all = self.visit_kept(inputs, &mut |entry| {
                bytes += entry_bytes(entry.key, entry.value);
                if bytes > bytes_max {
                    return false;
                }
                kept.push((hash(entry.key), entry.seqno));
                let op = match entry.value {
                    Some(value) => Op::Put { key: entry.key, value },
                    None => Op::Delete { key: entry.key },
                };
                entered.insert(&op, entry.seqno);
                true
            })?;
            Ok(())
        })?;
        if !is_all {
            return Ok(false);
        }
        let ids: Vec<u64> = inputs.iter().map(|input| input.id()).collect();
        let install = self.install.lock();
        let next = self.state.load().with_merged(&ids, merged);
        let generation = next.generation;
        self.state.store(Arc::new(next));
        drop(install);
        let id = ids.iter().copied().max().unwrap_or(0);
        let index = self.lookup_index.load();
        kept.iter().for_each(|(hash, seqno)| index.lead(*hash, *seqno, id));
        self.stands.leave_all_but(generation);
        Self::count(&self.background.merges, 1);
        Ok(true)
    }

    /// Visits of each key what [`Retention`] keeps, as long as `visit` wants more; answers whether
    /// that was all.
    pub(crate) fn visit_kept(
        &self,
        inputs: &[Arc<Memtable>],
        visit: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Result<bool> {
        let is_seen = |older, newer| self.host.sequence.is_seen(older, newer);
        let sweep = self.sweep();
        let mut retention = Retention::new(&is_seen, &|_| true, &sweep);
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

/// Whether memtables have few keys. Looks at no more of them than that many: from a key it goes to
/// the next one.
fn has_few_keys(memtables: &[Arc<Memtable>]) -> Result<bool> {
    let mut all = walk(memtables);
    all.seek(Target::START)?;
    let mut keys = 0;
    while let Some(entry) = all.entry() {
        keys += 1;
        if keys >= KEYS_MAX {
            return Ok(false);
        }
        let key = entry.key.to_vec();
        all.seek(Target::behind(&key))?;
    }
    Ok(true)
}
