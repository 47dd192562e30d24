//! A walk over all live pairs, in the order of their positions, that of the index's chains.
//!
//! That order depends neither on concurrent writes nor on the index's growth: a pair that is there
//! all the while is met exactly once, also by a walk that is begun again at some key.
//!
//! The walk collects a stretch of chains at a time: first the records in memory, then, in rounds,
//! the next record of each chain on disk. The reads of a round go to the device together, sorted by
//! their addresses in the log.
//!
//! Collected pairs are visited after the epoch is left, so they are in memory until then. Values
//! are kept while there is room for them (`walk_versions`); the others are looked up again when
//! they are visited, one by one, and the next stretch is shorter.

use std::ops::ControlFlow;
use std::sync::Arc;

use engine::{Result, Visit};
use workers::StopToken;

use super::disk_lookup::{DiskLookup, InMemory};
use super::walk_versions::{CHAINS_MIN, Version, Versions};
use crate::address::LogAddress;
use crate::hash_index::ChainId;
use crate::hybrid_log::{Place as Found, Wanted};
use crate::position::Position;
use crate::record::Read;
use crate::store::Shared;

/// The beginning of a walk: a position, and a key there.
pub(super) type Place<'a> = (Position, &'a [u8]);

/// The end of a stretch of chains.
pub(super) enum Cut {
    /// Behind this chain.
    Behind(ChainId),
    /// No more chains are wanted.
    AtEnd,
}

impl Shared {
    /// Visits every live pair, from `from` on. At most one read of the device for each record on
    /// disk; the reads of a stretch overlap.
    pub(crate) fn walk_pairs(
        self: &Arc<Self>,
        from: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        self.health.check_open()?;
        let from = from.map(|key| (self.hot.index.position(self.hash(key)), key));
        match &self.cold {
            Some(cold) => self.walk_chunks(cold, from, visit),
            None => self.walk_chains(from, visit),
        }
    }

    /// With a single log: a stretch of chains at a time.
    fn walk_chains(self: &Arc<Self>, from: Option<Place<'_>>, visit: &mut Visit<'_>) -> Result<()> {
        let mut after = from.and_then(|(position, _)| self.hot.index.chain_at(position).before());
        let mut chains = CHAINS_MIN;
        loop {
            let truncations = self.hot.truncations();
            let mut versions = self.no_versions();
            let Some(cut) = self.chain_versions(after, None, chains, &mut versions)? else {
                chains /= 2;
                continue;
            };
            if self.hot.truncations() != truncations {
                // Records that were copied to the tail meanwhile may be missing: the same chains
                // again.
                continue;
            }
            chains = versions.next_chains(chains);
            if self.visit_versions(versions, from, visit)? == ControlFlow::Break(()) {
                return Ok(());
            }
            match cut {
                Cut::Behind(chain) => after = Some(chain),
                Cut::AtEnd => return Ok(()),
            }
        }
    }

    /// Collects the records of at most `chains_max` chains behind `after`, none of them behind
    /// `end`. Returns `None` if there is no room for the keys of that many chains, unless it is
    /// one.
    pub(super) fn chain_versions(
        &self,
        after: Option<ChainId>,
        end: Option<ChainId>,
        chains_max: usize,
        versions: &mut Versions,
    ) -> Result<Option<Cut>> {
        let (mut last, mut on_disk) = (after, Vec::new());
        let mut cut = Cut::AtEnd;
        for _ in 0..chains_max {
            let first = versions.len();
            let guard = self.epochs.protect();
            let next = self.hot.index.next_chain(last);
            let next = next.filter(|(chain, _)| end.is_none_or(|end| *chain <= end));
            let Some((chain, head)) = next else {
                cut = Cut::AtEnd;
                break;
            };
            let at = self.versions_in_memory(head, versions, first);
            drop(guard);
            (last, cut) = (Some(chain), Cut::Behind(chain));
            if at != LogAddress::NONE {
                on_disk.push(at);
            }
            if versions.is_overfull() {
                break;
            }
        }
        let has_room = self.versions_on_disk(on_disk, versions)?;
        Ok((has_room || chains_max == 1).then_some(cut))
    }

    /// Visits the collected pairs, in order, except those before `from`.
    pub(super) fn visit_versions(
        self: &Arc<Self>,
        mut versions: Versions,
        from: Option<Place<'_>>,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        let place = |key: &[u8]| self.hot.index.position(self.hash(key));
        let pairs = versions.take();
        let mut order: Vec<_> =
            pairs.iter().map(|(key, version)| (place(key), key, version)).collect();
        order.sort_unstable_by_key(|(place, key, _)| (*place, key.as_slice()));
        let mut looked_up = Vec::new();
        for (place, key, version) in order {
            if from.is_some_and(|from| (place, key.as_slice()) < from) {
                continue;
            }
            let value = match version {
                Version::Tombstone => continue,
                Version::Value(value) => value,
                Version::LeftOut => {
                    // A pair that was removed since is not visited.
                    let is_there = self.get_uncached(key, &mut looked_up)?;
                    versions.charge_also(looked_up.capacity());
                    if !is_there {
                        continue;
                    }
                    &looked_up
                }
            };
            if visit(key, value) == ControlFlow::Break(()) {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The position of the key in the order of a walk.
    pub(crate) fn position(&self, key: &[u8]) -> u64 {
        self.hot.index.position(self.hash(key)).get()
    }

    /// Reads a key without a place for it in the read cache: a walk reads it once.
    fn get_uncached(self: &Arc<Self>, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let hash = self.hash(key);
        let guard = self.epochs.protect();
        let looked = self.look_in_memory(hash, key, LogAddress::NONE, into);
        drop(guard);
        match looked {
            InMemory::Value => Ok(true),
            InMemory::Tombstone => Ok(false),
            InMemory::Beyond(beyond) => {
                let lookup = DiskLookup::new(hash, beyond, false);
                self.lookups.pool.complete(self.begin_pending(lookup, None, key, into)?, into)
            }
        }
    }

    /// Collects the part of a chain that is in memory, and returns the address at which it
    /// continues on disk. The caller is protected.
    fn versions_in_memory(
        &self,
        head: LogAddress,
        versions: &mut Versions,
        first: usize,
    ) -> LogAddress {
        let mut at = self.cache.log_head(head);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while at != LogAddress::NONE {
            match self.hot.log.place(at) {
                Found::Memory(record) => {
                    record.read_key(&mut key);
                    let has_value = record.read(&mut value) == Read::Value;
                    versions.add(&key, has_value.then_some(&value), first);
                    at = record.header().previous();
                }
                Found::Disk => return at,
                Found::Truncated => return LogAddress::NONE,
            }
        }
        LogAddress::NONE
    }

    /// Collects the parts of chains that are on disk, from these records on: the newest record of
    /// each chain first, then the one before it of each, and so on. Returns whether there was room
    /// for the keys of several chains.
    fn versions_on_disk(
        &self,
        mut wanted: Vec<LogAddress>,
        versions: &mut Versions,
    ) -> Result<bool> {
        let stop = StopToken::default();
        let is_one = wanted.len() <= 1;
        loop {
            let begin = self.hot.log.begin();
            wanted.retain(|at| *at >= begin && *at != LogAddress::NONE);
            let has_room = is_one || !versions.is_overfull();
            if wanted.is_empty() || !has_room {
                return Ok(has_room);
            }
            let round = std::mem::take(&mut wanted).into_iter();
            let round = round.map(Wanted::from);
            self.hot.log.read_records(round.collect(), &stop, &mut |(), stored| {
                let has_room = is_one || !versions.is_overfull();
                if let Some(stored) = stored.filter(|_| has_room) {
                    // Keys of one chain are in no other.
                    versions.add(stored.key, stored.value, 0);
                    wanted.push(stored.header.previous());
                }
                Ok(())
            })?;
        }
    }
}
