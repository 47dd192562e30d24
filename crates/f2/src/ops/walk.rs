//! A walk over all live pairs, in the order of their positions, which is that of the index's chains.
//!
//! That order depends neither on what is written meanwhile nor on the index's growth: a pair that is
//! there all the while is met exactly once, also by a walk that is begun again at some key.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Acquire;

use engine::{Result, Visit};

use crate::address::LogAddress;
use crate::hash_index::ChainId;
use crate::hybrid_log::Place as Found;
use crate::position::Position;
use crate::record::Read;
use crate::store::Shared;

/// Where a walk begins: a position, and a key there.
pub(super) type Place<'a> = (Position, &'a [u8]);

/// What one chain or chunk holds: the newest record of each key, tombstones included.
#[derive(Default)]
pub(super) struct Versions(pub(super) Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl Versions {
    /// Adds a record that is older than those before.
    pub(super) fn add(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        if self.0.iter().all(|(known, _)| *known != key) {
            self.0.push((key, value));
        }
    }
}

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
            let mut versions = Versions::default();
            let Some(chain) = self.next_chain_versions(after, &mut versions)? else {
                return Ok(());
            };
            if self.truncations.load(Acquire) != truncations {
                // What was copied to the tail meanwhile may be missing: the same chain again.
                continue;
            }
            if self.visit_versions(versions, from, visit) == ControlFlow::Break(()) {
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
        let guard = self.epochs.protect();
        let Some((chain, head)) = self.index.next_chain(after) else { return Ok(None) };
        let on_disk = self.versions_in_memory(head, versions);
        drop(guard);
        self.versions_on_disk(on_disk, versions)?;
        Ok(Some(chain))
    }

    /// Visits what was collected, in order, but for what lies before `from`.
    pub(super) fn visit_versions(
        &self,
        mut versions: Versions,
        from: Option<Place<'_>>,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let place = |key: &[u8]| self.index.position(self.hash(key));
        versions.0.sort_by_cached_key(|(key, _)| (place(key), key.clone()));
        for (key, value) in &versions.0 {
            let is_before = from.is_some_and(|from| (place(key), key.as_slice()) < from);
            if let Some(value) = value
                && !is_before
            {
                visit(key, value)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Where the key lies in the order of a walk.
    pub(crate) fn position(&self, key: &[u8]) -> u64 {
        self.index.position(self.hash(key)).get()
    }

    /// Collects the part of a chain that is in memory, and answers where it goes on on disk. The
    /// caller is protected.
    fn versions_in_memory(&self, head: LogAddress, versions: &mut Versions) -> LogAddress {
        let mut at = self.cache.log_head(head);
        while at != LogAddress::NONE {
            match self.log.place(at) {
                Found::Memory(record) => {
                    let (mut key, mut value) = (Vec::new(), Vec::new());
                    record.read_key(&mut key);
                    let has_value = record.read(&mut value) == Read::Value;
                    versions.add(key, has_value.then_some(value));
                    at = record.header().previous();
                }
                Found::Disk => return at,
                Found::Truncated => return LogAddress::NONE,
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
