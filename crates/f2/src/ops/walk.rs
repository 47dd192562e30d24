//! A walk over all live pairs, in the order of their positions, which is that of the index's chains.
//!
//! That order depends neither on what is written meanwhile nor on the index's growth: a pair that is
//! there all the while is met exactly once, also by a walk that is begun again at some key.
//!
//! What is collected is visited once nobody is protected, so it is in memory until then. Of values
//! as much is kept as there is room for (`walk_versions`); the others are looked up
//! again when they are visited, one by one.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Acquire;

use engine::{Result, Visit};

use super::look_up::{InMemory, LookUp};
use super::walk_versions::{Version, Versions};
use crate::address::LogAddress;
use crate::hash_index::ChainId;
use crate::hybrid_log::Place as Found;
use crate::position::Position;
use crate::record::Read;
use crate::store::Shared;

/// Where a walk begins: a position, and a key there.
pub(super) type Place<'a> = (Position, &'a [u8]);

impl Shared {
    /// Visits every live pair, from where `from` lies on. One read of the device for each record on
    /// disk; those of the cold log overlap.
    pub(crate) fn walk_pairs(&self, from: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        self.health.check_open()?;
        let from = from.map(|key| (self.index.position(self.hash(key)), key));
        match &self.cold {
            Some(cold) => self.walk_chunks(cold, from, visit),
            None => self.walk_chains(from, visit),
        }
    }

    /// With a single log: chain by chain.
    fn walk_chains(&self, from: Option<Place<'_>>, visit: &mut Visit<'_>) -> Result<()> {
        let mut after = from.and_then(|(position, _)| self.index.chain_at(position).before());
        loop {
            let truncations = self.truncations.load(Acquire);
            let mut versions = self.no_versions();
            let Some(chain) = self.next_chain_versions(after, &mut versions)? else {
                return Ok(());
            };
            if self.truncations.load(Acquire) != truncations {
                // What was copied to the tail meanwhile may be missing: the same chain again.
                continue;
            }
            if self.visit_versions(versions, from, visit)? == ControlFlow::Break(()) {
                return Ok(());
            }
            after = Some(chain);
        }
    }

    /// Collects what the next chain after `after` holds, memory and disk.
    pub(super) fn next_chain_versions(
        &self,
        after: Option<ChainId>,
        versions: &mut Versions,
    ) -> Result<Option<ChainId>> {
        let first = versions.len();
        let guard = self.epochs.protect();
        let Some((chain, head)) = self.index.next_chain(after) else { return Ok(None) };
        let on_disk = self.versions_in_memory(head, versions, first);
        drop(guard);
        self.versions_on_disk(on_disk, versions, first)?;
        Ok(Some(chain))
    }

    /// Visits what was collected, in order, but for what lies before `from`.
    pub(super) fn visit_versions(
        &self,
        mut versions: Versions,
        from: Option<Place<'_>>,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        let place = |key: &[u8]| self.index.position(self.hash(key));
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
                    // One that is gone by now is not visited.
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

    /// Where the key lies in the order of a walk.
    pub(crate) fn position(&self, key: &[u8]) -> u64 {
        self.index.position(self.hash(key)).get()
    }

    /// Reads a key without a place for it in the read cache: a walk comes by once.
    fn get_uncached(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        let hash = self.hash(key);
        let guard = self.epochs.protect();
        let looked = self.look_in_memory(hash, key, LogAddress::NONE, into);
        drop(guard);
        match looked {
            InMemory::Value => Ok(true),
            InMemory::Tombstone => Ok(false),
            InMemory::Beyond(beyond) => LookUp::new(hash, beyond, false).run(self, key, into),
        }
    }

    /// Collects the part of a chain that is in memory, and answers where it goes on on disk. The
    /// caller is protected.
    fn versions_in_memory(
        &self,
        head: LogAddress,
        versions: &mut Versions,
        first: usize,
    ) -> LogAddress {
        let mut at = self.cache.log_head(head);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        while at != LogAddress::NONE {
            match self.log.place(at) {
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

    fn versions_on_disk(
        &self,
        from: LogAddress,
        versions: &mut Versions,
        first: usize,
    ) -> Result<()> {
        let mut at = from;
        while at >= self.log.begin() && at != LogAddress::NONE {
            let previous = self.log.read_stored(at, |stored| {
                versions.add(stored.key, stored.value, first);
                stored.header.previous()
            })?;
            at = previous.unwrap_or(LogAddress::NONE);
        }
        Ok(())
    }
}
