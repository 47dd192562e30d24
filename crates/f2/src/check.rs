//! Offline verification of everything that a store keeps on its device; nothing is changed.
//!
//! 1. The superblock, and the heads of the segments that it names.
//! 2. Every record of the hot log.
//! 3. Every chunk of the chunk log, and of each number the last one: these are the cold index.
//! 4. Every record of the cold log. An entry of the index that does not lead to the beginning of
//!    one, whose key has the entry's bits in its hash, is damage. A record that no entry leads to
//!    is dead, which is no damage: compaction leaves it behind.

use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::Device;
use engine::{Error, Result, Superblock};
use environment::Environment;

use crate::address::LogAddress;
use crate::checkpoint::{Identity, LogUnits, SUPERBLOCK, SUPERBLOCK_KIND, Standing};
use crate::cold_index::{CHUNKS, NamedRecords, encoded_again};
use crate::hybrid_log::{SegmentHeader, stretches};
use crate::key_hash::KeyHash;
use crate::open::{COLD_LOG, HOT_LOG, StoredLog, decode_standing};
use crate::position::Position;
use crate::record::Stored;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that were verified, old versions and tombstones among them.
    pub records: u64,
    /// Bytes of the logs of records that were verified.
    pub bytes: u64,
    /// Entries of the cold index: each leads to a record of the cold log, the newest of its key or
    /// an older one that compaction has not met yet.
    pub entries: u64,
    /// Records of the cold log that no entry leads to; compaction has not passed over them yet.
    pub dead: u64,
    /// Every write up to this number is in it.
    pub persisted: SeqNo,
    /// What is not what was written; the first damage ends the check.
    pub damage: Vec<Corruption>,
}

/// Verifies every record of the logs that the superblock names, and that the cold index and the cold
/// log belong together. Reads the hot and the cold log once, the chunk log twice. Memory: 16 bytes
/// for each entry of the cold index, 8 for each chunk, and a page.
///
/// # Errors
/// The storage's. Damage is no error but part of the report.
pub fn check(device: &Arc<dyn Device>) -> Result<Report> {
    let mut report = Report::default();
    match verify(device, &mut report) {
        Ok(()) => {}
        Err(Error::Corruption(damage)) => report.damage.push(damage),
        Err(other) => return Err(other),
    }
    Ok(report)
}

/// Walks over bytes as over a piece of the log that begins at `address` in a segment with this salt,
/// and answers how many records there are: the entry for whatever checks bytes offline.
///
/// # Errors
/// The damage, with its offset in the bytes.
pub fn check_records(
    bytes: &[u8],
    salt: u64,
    address: u64,
) -> std::result::Result<u64, Corruption> {
    let (mut at, mut records) = (0, 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let stored = Stored::decode(rest, salt, LogAddress::new(address).plus(at as u64))
            .map_err(|damage| Corruption::new(damage.0, at as u64))?;
        at += stored.bytes;
        records += u64::from(!stored.header.is_filler());
    }
    Ok(records)
}

/// Reads `bytes` as a chunk of the cold index, its name and then its entries, and answers what the same
/// chunk is written as: the entry for whatever checks bytes offline.
///
/// # Errors
/// The damage.
pub fn check_chunk(bytes: &[u8]) -> std::result::Result<Vec<u8>, Corruption> {
    encoded_again(bytes).map_err(|damage| Corruption::new(damage.0, 0))
}

/// Reads the first block of a segment and a superblock's payload, whichever it is.
///
/// # Errors
/// The damage to what the bytes look like.
pub fn check_heads(bytes: &[u8]) -> std::result::Result<(), Corruption> {
    SegmentHeader::decode(bytes).map(drop).or_else(|_| Standing::decode(bytes).map(drop))
}

fn verify(device: &Arc<dyn Device>, report: &mut Report) -> Result<()> {
    if !device.exists(SUPERBLOCK)? {
        return Ok(());
    }
    let superblock = Superblock::open(&**device, SUPERBLOCK, SUPERBLOCK_KIND)?;
    let standing = decode_standing(&superblock)?;
    report.persisted = standing.persisted;
    let identity = standing.identity;
    let nothing_is_written = Environment::real();
    let open = |name, span, units: LogUnits| {
        StoredLog::open(device, &nothing_is_written, name, span, units.background_geometry())
    };
    verify_records(&open(HOT_LOG, standing.hot, identity.hot)?, report, &mut |_, _| Ok(()))?;
    if identity.has_cold_log() {
        let cold = open(COLD_LOG, standing.cold, identity.cold)?;
        let chunks = open(CHUNKS, standing.chunks, identity.chunks)?;
        verify_cold(&cold, &chunks, identity, report)?;
    }
    Ok(())
}

fn verify_cold(
    cold: &StoredLog,
    chunks: &StoredLog,
    identity: Identity,
    report: &mut Report,
) -> Result<()> {
    let StoredLog { segments, geometry, span } = chunks;
    let mut named = NamedRecords::read(segments, geometry, span.begin, span.end)?;
    report.entries = named.len() as u64;
    let mut dead = 0;
    verify_records(cold, report, &mut |address, stored| {
        // No entry may lead to one that was given up, or to a tombstone.
        let may_live = !stored.header.is_invalid() && stored.value.is_some();
        let hash = KeyHash::of(stored.key, identity.hash_seed);
        let position = Position::of(hash, identity.index_bits);
        let lives = may_live && named.meet(address, position)?;
        dead += u64::from(!lives);
        Ok(())
    })?;
    report.dead = dead;
    Ok(named.finish()?)
}

fn verify_records(
    log: &StoredLog,
    report: &mut Report,
    with: &mut dyn FnMut(LogAddress, &Stored<'_>) -> Result<()>,
) -> Result<()> {
    stretches(&log.segments, &log.geometry, log.span.begin, log.span.end, &mut |stretch| {
        report.bytes += stretch.len() as u64;
        stretch.records(&mut |address, stored| {
            report.records += 1;
            with(address, stored)
        })
    })
}
