//! Reading one key: memtables from the youngest, Level 0 from the youngest, one table of each other
//! level.
//!
//! The first version that is found at or below the number that is asked for is the newest such:
//! what lies further down is older (M2, V1, V3).

use codec::SeqNo;
use engine::Result;

use crate::entry::{Found, Target};
use crate::store::Shared;

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
        for memtable in &state.memtables {
            if let Some(found) = memtable.get(to, into) {
                return Ok(Some(found));
            }
        }
        // A search of tables may take long; holding the guard would keep a slot of the swap.
        let version = std::sync::Arc::clone(&state.version);
        drop(state);
        version.get(to, into, &self.lookups)
    }
}
