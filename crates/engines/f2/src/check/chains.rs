//! The chains of the hot log: a record's chain continues at the beginning of an older one of the
//! same chain, or below the log's beginning, or nowhere.
//!
//! Records are met in the order of their addresses, and chains lead down, so the record at which a
//! chain continues was met before.

use codec::Corruption;

use super::Lost;
use crate::address::LogAddress;
use crate::hash_index::ChainId;
use crate::hybrid_log::Stretch;
use crate::record::{Damage, Stored};

/// A record, and its chain's name.
type Member = (LogAddress, ChainId);

const _: () = assert!(size_of::<Member>() == 16, "what `check` says that it takes");

/// The records that were met.
pub(super) struct Chains {
    begin: LogAddress,
    members: Vec<Member>,
}

impl Chains {
    /// None yet of a log that begins at `begin`.
    pub(super) fn new(begin: LogAddress) -> Self {
        Self { begin, members: Vec::new() }
    }

    /// Takes the next record. Returns the damage of the address at which its chain continues; an
    /// address at which a record was `lost` is none.
    pub(super) fn meet(
        &mut self,
        stretch: &Stretch,
        address: LogAddress,
        stored: &Stored<'_>,
        chain: ChainId,
        lost: &Lost,
    ) -> Option<Corruption> {
        self.members.push((address, chain));
        let previous = stored.header.previous();
        // A record that was never linked leads to an address that no walk uses.
        if stored.header.is_invalid() || previous < self.begin || previous == LogAddress::NONE {
            return None;
        }
        let found = self.members.binary_search_by_key(&previous, |(address, _)| *address);
        let what = match found.ok().and_then(|at| self.members.get(at)) {
            Some((_, other)) if *other == chain => return None,
            Some(_) => "a record's chain goes on at a record of another chain",
            None if lost.has(previous) => return None,
            None => "a record's chain goes on where no record begins",
        };
        Some(stretch.damage(address, Damage(what)))
    }
}
