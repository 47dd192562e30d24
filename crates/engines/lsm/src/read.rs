//! Reading one key: memtables from the youngest, Level 0 from the youngest, one table of each other
//! level.
//!
//! The first version found at or below the requested number is the newest one: versions further
//! down are older (M2, V1, V3). If the lookup index knows better, one memtable or one table is
//! searched, and nothing else. A version below the newest range delete that covers the key, up to
//! the requested number, counts as a tombstone.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{Error, Result};

use crate::entry::{Found, Target};
use crate::memtable::Memtable;
use crate::planted::{Planted, is_planted};
use crate::search::{Progress, Search};
use crate::state::State;
use crate::store::Shared;
use crate::table::{Table, hash};

/// The result of a look-up in memory.
pub(crate) enum Sought<K> {
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
    ) -> Result<Sought<K>> {
        let to = Target { key: key.as_ref(), seqno };
        let Some(partition) = state.partition_of(to.key) else {
            return Err(Error::Closed);
        };
        let hidden = match is_planted(Planted::DeletesOfLater) {
            true => {
                sync::thread::yield_now();
                self.state.load().deletes.all.newest(to.key, seqno)
            }
            false => state.deletes.all.newest(to.key, seqno),
        };
        let hint = self.lookup_index.load().get(hash(to.key));
        // Nor is a hint used if an ingested table may have brought a newer version than the hint's.
        let known_from = match is_planted(Planted::OldHintBelieved) {
            true => SeqNo::ZERO,
            false => state.version.newest_ingested(),
        };
        let hint = hint.filter(|hint| (known_from..=seqno).contains(&hint.seqno));
        if hint.is_some_and(|hint| hint.seqno < hidden) {
            // No version is newer than that (U1).
            return Ok(Sought::Found(Found { seqno: hidden, is_value: false }));
        }
        if let Some(hint) = hint {
            let is_it = |memtable: &&Arc<Memtable>| memtable.id() == hint.memtable;
            let found = partition.memtables.iter().find(is_it).and_then(|it| it.get(to, into));
            if let Some(found) = found.filter(|found| found.seqno == hint.seqno) {
                self.lookups.led.fetch_add(1, Relaxed);
                return Ok(Sought::Found(found.unless_below(hidden)));
            }
        }
        if let Some(found) = partition.find_in_memory(to, into) {
            return Ok(Sought::Found(found.unless_below(hidden)));
        }
        if let Some(since) = self.cache.pairs().get(to.key, seqno.get(), into) {
            let found = Found { seqno: SeqNo::new(since), is_value: true };
            return Ok(Sought::Found(found.unless_below(hidden)));
        }
        let search = Search::new(key, seqno, &state.version, partition);
        Ok(Sought::GoOn(search.hidden_below(hidden).led_by(hint)))
    }

    /// Returns the value of `key` as of `seqno`. Reads one data block of each table that the
    /// filters let through.
    pub(crate) fn get_at(&self, key: &[u8], seqno: SeqNo, into: &mut Vec<u8>) -> Result<bool> {
        Ok(self.find(key, seqno, into)?.is_some_and(|found| found.is_value))
    }

    /// Returns the newest version of `key` at or below `seqno`.
    pub(crate) fn find(
        &self,
        key: &[u8],
        seqno: SeqNo,
        into: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let state = self.open_state()?;
        // A search of tables may take long; holding the guard would keep a slot of the swap.
        let mut search = match self.find_in_memory(&state, key, seqno, into)? {
            Sought::Found(found) => return Ok(Some(found)),
            Sought::GoOn(search) => search,
        };
        drop(state);
        let read = |table: &Table, piece| table.piece(piece).map(Some);
        match search.advance(None, into, (&self.lookups, &self.cache), &read)? {
            Progress::Found(found) => Ok(Some(found)),
            Progress::Absent => Ok(None),
            Progress::Waits(..) => unreachable!("whatever it needs is read"),
        }
    }

    /// Returns the newest version of `key` if that needs no read, and `None` if it does.
    pub(crate) fn find_at_once(
        &self,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<Option<Found>>> {
        let state = self.open_state()?;
        let mut search = match self.find_in_memory(&state, key, SeqNo::MAX, into)? {
            Sought::Found(found) => return Ok(Some(Some(found))),
            Sought::GoOn(search) => search,
        };
        drop(state);
        let cached = |table: &Table, piece| Ok(table.cached(piece));
        Ok(match search.advance(None, into, (&self.lookups, &self.cache), &cached)? {
            Progress::Found(found) => Some(Some(found)),
            Progress::Absent => Some(None),
            Progress::Waits(..) => None,
        })
    }
}
