//! Reading one key: memtables from the youngest, Level 0 from the youngest, one table of each other
//! level.
//!
//! The first version that is found at or below the number that is asked for is the newest such:
//! what lies further down is older (M2, V1, V3).

use std::sync::Arc;

use codec::SeqNo;
use engine::Result;

use crate::entry::{Found, Target};
use crate::search::{Progress, Search};
use crate::store::Shared;
use crate::table::Table;

impl Shared {
    /// The value of `key` as of `seqno`. Reads one data block of each table that the filters let
    /// through.
    pub(crate) fn get_at(&self, key: &[u8], seqno: SeqNo, into: &mut Vec<u8>) -> Result<bool> {
        Ok(self.find(key, seqno, into)?.is_some_and(|found| found.is_value))
    }

    /// The newest version of `key` at or below `seqno`.
    pub(crate) fn find(
        &self,
        key: &[u8],
        seqno: SeqNo,
        into: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let to = Target { key, seqno };
        let state = self.open_state()?;
        if let Some(found) = state.find_in_memory(to, into) {
            return Ok(Some(found));
        }
        // A search of tables may take long; holding the guard would keep a slot of the swap.
        let version = Arc::clone(&state.version);
        drop(state);
        let mut search = Search::new(key, seqno, version);
        let read = |table: &Table, piece| table.piece(piece).map(Some);
        match search.advance(None, into, &self.lookups, &read)? {
            Progress::Found(found) => Ok(Some(found)),
            Progress::Absent => Ok(None),
            Progress::Waits(..) => unreachable!("whatever it needs is read"),
        }
    }

    /// The newest version of `key`, as far as nothing has to be read: `None` if it would have to.
    pub(crate) fn find_at_once(
        &self,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<Option<Found>>> {
        let state = Arc::clone(&*self.open_state()?);
        if let Some(found) = state.find_in_memory(Target::first_of(key), into) {
            return Ok(Some(Some(found)));
        }
        let mut search = Search::new(key, SeqNo::MAX, Arc::clone(&state.version));
        let cached = |table: &Table, piece| Ok(table.cached(piece));
        Ok(match search.advance(None, into, &self.lookups, &cached)? {
            Progress::Found(found) => Some(Some(found)),
            Progress::Absent => Some(None),
            Progress::Waits(..) => None,
        })
    }
}
