//! A walk over all live pairs, in the order of their positions, which is that of the index's chains.
//!
//! That order depends neither on what is written meanwhile nor on the index's growth: a pair that is
//! there all the while is met exactly once, also by a walk that is begun again at some key.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Acquire;

use engine::{Result, Visit};

use crate::address::LogAddress;
use crate::hash_index::ChainId;
use crate::hybrid_log::Place;
use crate::record::Read;
use crate::store::Shared;

/// What one chain holds: the newest record of each key, tombstones included.
#[derive(Default)]
struct Versions(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl Versions {
    /// Adds a record that is older than those before.
    fn add(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        if self.0.iter().all(|(known, _)| *known != key) {
            self.0.push((key, value));
        }
    }
}

impl Shared {
    /// Visits every live pair, beginning with the chain that `from` belongs to. One read of the
    /// device for each record on disk.
    pub(crate) fn walk_pairs(&self, from: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        self.health.check_open()?;
        let first = from.map(|key| self.index.chain_id(self.hash(key)));
        let mut after = first.and_then(ChainId::before);
        loop {
            let truncations = self.truncations.load(Acquire);
            let guard = self.epochs.protect();
            let Some((chain, head)) = self.index.next_chain(after) else { return Ok(()) };
            let mut versions = Versions::default();
            let on_disk = self.versions_in_memory(head, &mut versions);
            drop(guard);
            self.versions_on_disk(on_disk, &mut versions)?;
            if self.truncations.load(Acquire) != truncations {
                // What was copied to the tail meanwhile may be missing: the same chain again.
                continue;
            }
            let place = |key: &[u8]| self.index.position(self.hash(key));
            versions.0.sort_by_cached_key(|(key, _)| (place(key), key.clone()));
            let from = from.map(|from| (place(from), from));
            for (key, value) in &versions.0 {
                let is_before = from.is_some_and(|from| (place(key), key.as_slice()) < from);
                if let Some(value) = value
                    && !is_before
                    && visit(key, value) == ControlFlow::Break(())
                {
                    return Ok(());
                }
            }
            after = Some(chain);
        }
    }

    /// Where the key lies in the order of a walk.
    pub(crate) fn position(&self, key: &[u8]) -> u64 {
        self.index.position(self.hash(key)).get()
    }

    /// Collects the part of a chain that is in memory, and answers where it goes on on disk. The
    /// caller is protected.
    fn versions_in_memory(&self, head: LogAddress, versions: &mut Versions) -> LogAddress {
        let mut at = head;
        while at != LogAddress::NONE {
            match self.log.place(at) {
                Place::Memory(record) => {
                    let (mut key, mut value) = (Vec::new(), Vec::new());
                    record.read_key(&mut key);
                    let has_value = record.read(&mut value) == Read::Value;
                    versions.add(key, has_value.then_some(value));
                    at = record.header().previous();
                }
                Place::Disk => return at,
                Place::Truncated => return LogAddress::NONE,
            }
        }
        LogAddress::NONE
    }

    fn versions_on_disk(&self, from: LogAddress, versions: &mut Versions) -> Result<()> {
        let mut at = from;
        while at >= self.log.begin() && at != LogAddress::NONE {
            let previous = self.log.read_stored(at, |stored| {
                versions.add(stored.key.to_vec(), stored.value.map(<[u8]>::to_vec));
                stored.header.previous()
            })?;
            at = previous.unwrap_or(LogAddress::NONE);
        }
        Ok(())
    }
}
