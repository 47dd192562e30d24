//! The first part of a lookup: memtables from the youngest, and the cached pairs. The search of
//! tables (`search.rs`) follows: Level 0 from the youngest table, then one table of each level.
//!
//! The first version found at or below the requested number is the newest one: versions further
//! down are older (M2, V1, V3). If the lookup index knows better, one memtable or one table is
//! searched, and nothing else. A version below the newest range delete that covers the key, up to
//! the requested number, counts as a tombstone.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{Error, Result};
use sync::mutant;

use crate::memtable::Memtable;
use crate::planted::Planted;
use crate::search::Search;
use crate::state::State;
use crate::store::Shared;
use lsm_tree::entry::{Found, Target};
use lsm_tree::table::hash;

/// The result of a lookup in memory.
pub(crate) enum MemoryLookup<K> {
    /// It has ended.
    Found(Found),
    /// No memtable has a version.
    GoOn(Search<K>),
}

impl Shared {
    /// Looks for the newest version of `key` at or below `seqno` in memtables, first in the one
    /// that the lookup index names; then among the cached pairs. If it is in neither, the search of
    /// tables begins with the table that the index names.
    pub(crate) fn find_in_memory<K: AsRef<[u8]>>(
        &self,
        state: &State,
        key: K,
        seqno: SeqNo,
        into: &mut Vec<u8>,
    ) -> Result<MemoryLookup<K>> {
        let to = Target { key: key.as_ref(), seqno };
        let Some(partition) = state.partition_of(to.key) else {
            return Err(Error::Closed);
        };
        let hidden_in = |state: &State| state.deletes.all.newest(to.key, seqno);
        let hidden = hidden_in(state);
        let hint = self.lookups.index.load().get(hash(to.key));
        // An ingested table may have brought a newer version than the hint's: then the hint is not
        // used.
        let ingested = state.version.newest_ingested();
        let known_from = mutant!(Planted::OldHintBelieved, ingested, SeqNo::ZERO);
        let hint = hint.filter(|hint| (known_from..=seqno).contains(&hint.seqno));
        if hint.is_some_and(|hint| hint.seqno < hidden) {
            // No version is newer than that (U1).
            return Ok(MemoryLookup::Found(Found { seqno: hidden, is_value: false }));
        }
        if let Some(hint) = hint {
            let is_it = |memtable: &&Arc<Memtable>| memtable.id() == hint.memtable;
            let found = partition.memtables.iter().find(is_it).and_then(|it| it.get(to, into));
            if let Some(found) = found.filter(|found| found.seqno == hint.seqno) {
                self.lookups.counts.led.fetch_add(1, Relaxed);
                return Ok(MemoryLookup::Found(found.unless_below(hidden)));
            }
        }
        if let Some(found) = partition.find_in_memory(to, into) {
            return Ok(MemoryLookup::Found(found.unless_below(hidden)));
        }
        if let Some(since) = self.cache.pairs().get(to.key, seqno.get(), into) {
            let found = Found { seqno: SeqNo::new(since), is_value: true };
            return Ok(MemoryLookup::Found(found.unless_below(hidden)));
        }
        let hidden = mutant!(Planted::DeletesOfLater, hidden, hidden_in(&self.state.load()));
        let search = Search::new(key, seqno, &state.version, partition);
        Ok(MemoryLookup::GoOn(search.hidden_below(hidden).led_by(hint)))
    }
}
