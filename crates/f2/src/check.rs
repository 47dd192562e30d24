//! Offline verification of everything that a store keeps on its device; nothing is changed.

use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::Device;
use engine::{Error, Result, Superblock};
use environment::Environment;

use crate::address::LogAddress;
use crate::checkpoint::{Identity, LogUnits, SUPERBLOCK, SUPERBLOCK_KIND, Standing};
use crate::cold_index::{self, CHUNKS};
use crate::hybrid_log::{SegmentHeader, stretches};
use crate::open::{COLD_LOG, HOT_LOG, StoredLog, decode_standing};
use crate::record::Stored;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that were verified, old versions and tombstones among them.
    pub records: u64,
    /// Bytes of the logs of records that were verified.
    pub bytes: u64,
    /// Entries of the cold index.
    pub entries: u64,
    /// Every write up to this number is in it.
    pub persisted: SeqNo,
    /// What is not what was written; the first damage ends the check.
    pub damage: Vec<Corruption>,
}

/// Verifies every record of the log that the superblock names. Reads all of it.
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
    let Identity { hot, cold, chunks, .. } = standing.identity;
    let nothing_is_written = Environment::real();
    let open = |name, span, units: LogUnits| {
        StoredLog::open(device, &nothing_is_written, name, span, units.background_geometry())
    };
    verify_records(&open(HOT_LOG, standing.hot, hot)?, report)?;
    if standing.identity.has_cold_log() {
        verify_records(&open(COLD_LOG, standing.cold, cold)?, report)?;
        let StoredLog { segments, geometry, span } = open(CHUNKS, standing.chunks, chunks)?;
        let restored = cold_index::rebuild(&segments, &geometry, span.begin, span.end)?;
        report.entries = restored.entries;
    }
    Ok(())
}

fn verify_records(log: &StoredLog, report: &mut Report) -> Result<()> {
    stretches(&log.segments, &log.geometry, log.span.begin, log.span.end, &mut |stretch| {
        report.bytes += stretch.len() as u64;
        stretch.records(&mut |_, _| {
            report.records += 1;
            Ok(())
        })
    })
}
