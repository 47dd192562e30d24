//! Whether a database fits the memory that it is opened with.
//!
//! Acknowledged data must not be refused when it is opened again. But the sums of a running engine
//! are not those of the same data replayed. So data up to a quarter above the setting is opened;
//! writes that grow are refused there until enough was deleted. Beyond that the setting was
//! lowered, and a lower setting is meant as a limit: nothing is opened.
//!
//! 1. The snapshots' sizes are summed up before any is loaded ([`check_snapshots`]).
//! 2. While the journal is replayed the sum in use is checked after each record ([`check_used`]).
//!
//! A refusal has the number of bytes that would hold all of it ([`memory_needed`]).
//!
//! Engines with a share of their own ([`crate::memory_shares`]) stay within it, whatever they hold;
//! only the least that they are opened with counts.

use std::collections::BTreeMap;

use codec::SeqNo;
use device::Device;
use engine::{At, MemoryUse, PairFootprint};

use crate::catalog::Catalog;
use crate::drivers::EngineKind;
use crate::error::{Error, Result};
use crate::keyspace_entry::KeyspaceInstance;
use crate::memory_needed::{self, Present, Snapshots};
use crate::memory_shares::MemoryShares;
use crate::options::{KeyspaceOptions, Options};
use crate::room_to_open::segment_lengths;

/// Refuses a setting that no database could be opened with.
pub(crate) fn check_setting(options: &Options) -> Result<()> {
    let (limit, needed) = (options.memory_bytes, options.memory_bytes_min());
    if limit < needed {
        return Err(Error::MemoryTooSmall { limit, needed });
    }
    Ok(options.engines.check()?)
}

/// Refuses snapshots that do not fit `limit`, and returns the bytes that they take. Costs one small
/// read a keyspace.
pub(crate) fn check_snapshots(device: &dyn Device, catalog: &Catalog, limit: u64) -> Result<u64> {
    let mut needed: u64 = 0;
    for entry in &catalog.keyspaces {
        if let MemoryUse::Data { footprint, .. } = entry.options.engine.driver().memory {
            let device = device.subdevice(&entry.dir())?;
            needed = needed.saturating_add(footprint(&*device)?.bytes);
        }
    }
    check_known(device, catalog, limit, needed)?;
    Ok(needed)
}

/// Refuses data of which `known` bytes are needed before anything of the journal is replayed.
pub(crate) fn check_known(
    device: &dyn Device,
    catalog: &Catalog,
    limit: u64,
    known: u64,
) -> Result<()> {
    if known <= opened_at_most(limit) {
        return Ok(());
    }
    let mut snapshots = Snapshots::new(limit);
    for entry in catalog.keyspaces.iter().filter(|entry| is_replayed_into_memory(entry.options)) {
        let files = device.subdevice(&entry.dir())?;
        snapshots.add(entry.id, entry.options.engine.driver(), &files)?;
    }
    Err(too_small(device, limit, known, snapshots.persisted_by_all().next(), &snapshots))
}

/// Returns the bytes of the journal, if any of it may have to be replayed into memory.
pub(crate) fn replayed_into_memory(device: &dyn Device, catalog: &Catalog) -> Result<u64> {
    let any = catalog.keyspaces.iter().any(|entry| is_replayed_into_memory(entry.options));
    if any { journal_bytes(device) } else { Ok(0) }
}

fn is_replayed_into_memory(options: KeyspaceOptions) -> bool {
    !options.engine.driver().has_share() && options.journaled
}

/// Refuses the rest of a replay that does not fit, after record `seqno` of it.
#[inline]
pub(crate) fn check_used(
    device: &dyn Device,
    shares: &MemoryShares,
    (seqno, journaled): (SeqNo, &Journaled<'_>),
) -> Result<()> {
    let (known, limit) = (shares.used_by_others(), shares.whole.limit());
    match known <= opened_at_most(limit) {
        true => Ok(()),
        false => Err(too_small(device, limit, known, seqno.next(), journaled)),
    }
}

/// The engines that the journal's records go to, by their ids.
pub(crate) type Journaled<'a> = BTreeMap<u32, &'a KeyspaceInstance>;

impl Present for Journaled<'_> {
    fn wants(&self, keyspace: u32, _seqno: SeqNo) -> Option<PairFootprint> {
        pair_footprint(self.get(&keyspace)?)
    }

    fn bytes(&self, keyspace: u32, key: &[u8]) -> u64 {
        let (mut value, instance) = (Vec::new(), self.get(&keyspace));
        let found = instance.map(|instance| instance.get_stored(key, At::Newest, &mut value));
        match found {
            Some(Ok(true)) => {
                let footprint = instance.and_then(|instance| pair_footprint(instance));
                footprint.map_or(0, |footprint| footprint(key.len(), value.len()))
            }
            _ => 0,
        }
    }
}

/// Returns the footprint of pairs of an engine that has all data in memory.
fn pair_footprint(instance: &KeyspaceInstance) -> Option<PairFootprint> {
    let kind: EngineKind = instance.engine.capabilities().name.parse().ok()?;
    match kind.driver().memory {
        MemoryUse::Data { pair_footprint, .. } => Some(pair_footprint),
        MemoryUse::Share { .. } => None,
    }
}

fn opened_at_most(limit: u64) -> u64 {
    limit.saturating_add(limit / 4)
}

/// Returns the error for data of which `known` bytes are needed, in addition to the journal's
/// growth from `from` on. An eighth of both is added, for values that are replaced during the
/// replay and pruned later.
#[cold]
fn too_small(
    device: &dyn Device,
    limit: u64,
    known: u64,
    from: SeqNo,
    present: &dyn Present,
) -> Error {
    let live = known.saturating_add(memory_needed::growth(device, from, limit, present));
    let needed = live.saturating_add(live / 8);
    Error::MemoryTooSmall { limit, needed }
}

fn journal_bytes(device: &dyn Device) -> Result<u64> {
    Ok(segment_lengths(device)?.into_iter().fold(0, u64::saturating_add))
}
