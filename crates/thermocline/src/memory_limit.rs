//! Whether a database fits the memory that it is opened with.
//!
//! What was acknowledged must not be refused when it is opened again, and the sums of a running
//! engine are not those of the same data replayed, so up to a quarter above the setting is opened;
//! writes that grow are refused there until enough was deleted. Beyond that the setting was
//! lowered, and whoever lowered it means a bound: nothing is opened.
//!
//! 1. The snapshots' sizes are summed up before any is loaded ([`check_snapshots`]).
//! 2. While the journal is replayed the sum in use is looked at after each record ([`check_used`]).
//!
//! Engines with a share of their own ([`crate::memory_shares`]) stay within it, whatever they hold;
//! only the least that they are opened with counts.

use device::{Device, Mode};

use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::memory_shares::MemoryShares;
use crate::open::JOURNAL_DIR;
use crate::options::{EngineKind, KeyspaceOptions, Options};

/// Refuses a setting that no database could be opened with.
pub(crate) fn check_setting(options: &Options) -> Result<()> {
    let (limit, needed) = (options.memory_bytes, Options::MEMORY_BYTES_MIN);
    if limit < needed { Err(Error::MemoryTooSmall { limit, needed }) } else { Ok(()) }
}

/// Refuses snapshots that do not fit `limit`, and answers what they take. Costs one small read a
/// keyspace.
pub(crate) fn check_snapshots(device: &dyn Device, catalog: &Catalog, limit: u64) -> Result<u64> {
    let mut needed: u64 = 0;
    for entry in &catalog.keyspaces {
        if entry.options.engine == EngineKind::Memory {
            let device = device.subdevice(&entry.dir())?;
            needed = needed.saturating_add(memory::footprint(&*device)?);
        }
    }
    check_known(device, limit, needed)?;
    Ok(needed)
}

/// Refuses data of which `known` bytes are needed already.
pub(crate) fn check_known(device: &dyn Device, limit: u64, known: u64) -> Result<()> {
    if known <= opened_at_most(limit) { Ok(()) } else { Err(too_small(device, limit, known)) }
}

/// Bytes of the journal, if any of it may have to be replayed into memory.
pub(crate) fn replayed_into_memory(device: &dyn Device, catalog: &Catalog) -> Result<u64> {
    let is_kept =
        |options: KeyspaceOptions| options.engine == EngineKind::Memory && options.journaled;
    let any = catalog.keyspaces.iter().any(|entry| is_kept(entry.options));
    if any { journal_bytes(device) } else { Ok(0) }
}

/// Refuses to go on with a replay that does not fit.
#[inline]
pub(crate) fn check_used(device: &dyn Device, limit: u64, shares: &MemoryShares) -> Result<()> {
    check_known(device, limit, shares.used_by_others())
}

fn opened_at_most(limit: u64) -> u64 {
    limit.saturating_add(limit / 4)
}

/// `known` bytes are needed, and at most what the journal holds.
fn too_small(device: &dyn Device, limit: u64, known: u64) -> Error {
    let journal = journal_bytes(device).unwrap_or_default();
    Error::MemoryTooSmall { limit, needed: known.saturating_add(journal) }
}

fn journal_bytes(device: &dyn Device) -> Result<u64> {
    let mut bytes: u64 = 0;
    for entry in device.list(JOURNAL_DIR)? {
        let file = device.open(&device::join(JOURNAL_DIR, &entry.name), Mode::Read)?;
        bytes = bytes.saturating_add(file.len()?);
    }
    Ok(bytes)
}
