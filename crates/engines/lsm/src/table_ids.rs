//! The identities of tables.

use std::sync::atomic::Ordering::Relaxed;

use lsm_tree::table::TableId;
use rand::Rng;

use crate::store::Shared;

impl Shared {
    /// A table's identity: its number may have been used before a crash, its nonce not.
    pub(crate) fn new_table(&self) -> TableId {
        let number = self.next_table.fetch_add(1, Relaxed);
        self.identity(number)
    }

    /// The identity of a table of this number.
    pub(crate) fn identity(&self, number: u64) -> TableId {
        let environment = &self.host.environment;
        let mut nonce = environment.random("lsm table").next_u64();
        let last = self.host.sequence.last().get();
        for part in [number, last, environment.wall().as_nanos() as u64] {
            nonce = codec::hash64(nonce, &part.to_le_bytes());
        }
        TableId { number, nonce }
    }
}
