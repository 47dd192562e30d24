//! Offline verification of everything that a store needs of its device; nothing is changed. The
//! directory's snapshot is not read, without which a store opens as well.
//!
//! 1. The superblock, and the heads of the segments that it names.
//! 2. Every record of the hot log, and that its chain continues at a record of the same chain.
//! 3. Every chunk of the chunk log, and of each number the last one: these are the cold index.
//! 4. Every record of the cold log. An entry of the index that does not lead to the beginning of
//!    one, whose key has the entry's bits in its hash, is damage. A record that no entry leads to
//!    is dead, which is no damage: compaction leaves it behind.
//!
//! The check continues behind damage ([`crate::hybrid_log::inspect`]). It does not report
//! consequences of damage that it has reported: a chain or an entry that leads to a lost record. If
//! a chunk of the cold index was lost, it compares nothing with the index: another version of that
//! chunk, an outdated one, would be taken for it. A read that the device refuses ends the check.

mod chains;
mod salvage;

use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::Device;
use engine::{Error, Result};
use environment::Environment;

use crate::address::LogAddress;
use crate::checkpoint::{Committed, Identity, LogUnits, Span};
use crate::cold_index::{CHUNKS, NamedRecords, check_snapshot, encoded_again};
use crate::hash_index::ChainId;
use crate::hybrid_log::{Met, SegmentHeader, Segments, inspect};
use crate::key_hash::KeyHash;
use crate::open::{COLD_LOG, HOT_LOG, StoredLog, decode_committed, found_superblock};
use crate::position::Position;
use crate::record::Stored;
use chains::Chains;
pub use salvage::{SalvageReport, salvage};

/// Findings of a check.
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
    /// Data that differs from the data written, each with its place: the first [`DAMAGE_MAX`]
    /// pieces.
    pub damage: Vec<Corruption>,
    /// How many more there are.
    pub further_damage: u64,
}

/// Pieces of damage that a report lists.
pub const DAMAGE_MAX: usize = 100;

impl Report {
    fn note(&mut self, damage: Corruption) {
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(damage);
        } else {
            self.further_damage += 1;
        }
    }

    /// Returns the content of the superblock, if there is a store and it can be read.
    fn committed(&mut self, device: &Arc<dyn Device>) -> Result<Option<Committed>> {
        let found = found_superblock(&**device)
            .and_then(|superblock| superblock.as_ref().map(decode_committed).transpose());
        let committed = self.note_if_damaged(found)?.flatten();
        if let Some(committed) = &committed {
            committed.directory.refuse_newer(&**device)?;
        }
        Ok(committed)
    }

    /// Notes damage, and returns whole data, or the error that ends the check.
    fn note_if_damaged<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(whole) => Ok(Some(whole)),
            Err(Error::Corruption(damage)) => {
                self.note(damage);
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }
}

/// Stretches of a log that cannot be read, in the order of their addresses.
#[derive(Default)]
struct Lost(Vec<(LogAddress, LogAddress)>);

impl Lost {
    fn add(&mut self, from: LogAddress, to: LogAddress) {
        let at = self.0.partition_point(|(other, _)| *other <= from);
        self.0.insert(at, (from, to));
    }

    fn has(&self, address: LogAddress) -> bool {
        let behind = self.0.partition_point(|(from, _)| *from <= address);
        behind.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|(_, to)| address < *to)
    }
}

/// Verifies every record of the logs that the superblock names, every chain, and that the cold
/// index and the cold log belong together. Continues behind damage. Reads the hot and the cold log
/// once, the chunk log twice. Memory: 16 bytes for each record of the hot log, or, later, for each
/// entry of the cold index and 8 for each chunk; and some pages.
///
/// # Errors
/// The storage's. Damage is no error but part of the report.
pub fn check(device: &Arc<dyn Device>) -> Result<Report> {
    let mut report = Report::default();
    let Some(committed) = report.committed(device)? else { return Ok(report) };
    report.persisted = committed.persisted;
    let identity = committed.identity;
    let (hot, lost) = open(device, HOT_LOG, committed.hot, identity.hot, &mut report)?;
    verify_hot(&hot, lost, identity, &mut report)?;
    if identity.has_cold_log() {
        let (cold, lost) = open(device, COLD_LOG, committed.cold, identity.cold, &mut report)?;
        let (chunks, lost_chunks) =
            open(device, CHUNKS, committed.chunks, identity.chunks, &mut report)?;
        verify_cold(&cold, lost, &chunks, lost_chunks.0.is_empty(), identity, &mut report)?;
    }
    Ok(report)
}

/// Walks over bytes as over a piece of the log that begins at `address` in a segment with this
/// salt, and returns the number of records: the entry for tools that check bytes offline.
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

/// Reads `bytes` as a chunk of the cold index, its name and then its entries, and returns the same
/// chunk as it would be written: the entry for tools that check bytes offline.
///
/// # Errors
/// The damage.
pub fn check_chunk(bytes: &[u8]) -> std::result::Result<Vec<u8>, Corruption> {
    encoded_again(bytes).map_err(|damage| Corruption::new(damage.0, 0))
}

/// Reads `bytes` as a snapshot of the cold index's directory, and returns the number of its words:
/// the entry for tools that check bytes offline.
///
/// # Errors
/// The damage.
pub fn check_directory(bytes: &[u8]) -> std::result::Result<usize, Corruption> {
    check_snapshot(bytes)
}

/// Reads the first block of a segment and a superblock's payload, whichever it is.
///
/// # Errors
/// The damage to the structure that the bytes resemble.
pub fn check_heads(bytes: &[u8]) -> std::result::Result<(), Corruption> {
    SegmentHeader::decode(bytes).map(drop).or_else(|_| Committed::decode(bytes).map(drop))
}

/// Opens the segments of a log that can be opened, and returns the places of the others.
fn open(
    device: &Arc<dyn Device>,
    name: &'static str,
    span: Span,
    units: LogUnits,
    report: &mut Report,
) -> Result<(StoredLog, Lost)> {
    let geometry = units.background_geometry();
    let mut note = |error| match error {
        Error::Device(device::Error::NotFound { name }) => {
            report.note(Corruption::new("a segment of the log is missing", 0).at(&name, 0));
            Ok(())
        }
        error => report.note_if_damaged(Err::<(), _>(error)).map(drop),
    };
    let nothing_is_written = Environment::real().random(name);
    let (place, whole) = (Arc::clone(device), (span.begin, span.end));
    let segments =
        Segments::open_unless(place, name, geometry, whole, nothing_is_written, &mut note)?;
    let mut lost = Lost::default();
    let mut at = span.begin;
    while at < span.end {
        let number = geometry.segment(at);
        let next = geometry.segment_begin(number + 1);
        if segments.get(number).is_none() {
            lost.add(at, next);
        }
        at = next;
    }
    Ok((StoredLog { geometry, segments, span }, lost))
}

fn verify_hot(
    log: &StoredLog,
    mut lost: Lost,
    identity: Identity,
    report: &mut Report,
) -> Result<()> {
    let StoredLog { segments, geometry, span } = log;
    let mut chains = Chains::new(span.begin);
    inspect(segments, geometry, span.begin, span.end, &mut |met| match met {
        Met::Lost(from, to, damage) => {
            lost.add(from, to);
            report.note(damage);
        }
        Met::Record(stretch, address, stored) => {
            report.records += 1;
            report.bytes += stored.bytes as u64;
            let hash = KeyHash::of(stored.key, identity.hash_seed);
            let chain = ChainId::of(hash, identity.index_bits);
            let damage = chains.meet(stretch, address, stored, chain, &lost);
            damage.into_iter().for_each(|damage| report.note(damage));
        }
    })
}

fn verify_cold(
    cold: &StoredLog,
    mut lost: Lost,
    chunks: &StoredLog,
    mut are_chunks_whole: bool,
    identity: Identity,
    report: &mut Report,
) -> Result<()> {
    let StoredLog { segments, geometry, span } = chunks;
    let mut named =
        NamedRecords::read(segments, geometry, span.begin, span.end, &mut |_, damage| {
            are_chunks_whole = false;
            report.note(damage);
        })?;
    report.entries = named.len() as u64;
    let mut dead = 0;
    let StoredLog { segments, geometry, span } = cold;
    inspect(segments, geometry, span.begin, span.end, &mut |met| match met {
        Met::Lost(from, to, damage) => {
            lost.add(from, to);
            report.note(damage);
        }
        Met::Record(_, address, stored) => {
            report.records += 1;
            report.bytes += stored.bytes as u64;
            // No entry may lead to a discarded record, or to a tombstone.
            let may_live = !stored.header.is_invalid() && stored.value.is_some();
            let hash = KeyHash::of(stored.key, identity.hash_seed);
            let position = Position::of(hash, identity.index_bits);
            let mut astray = |to, damage| {
                if are_chunks_whole && !lost.has(to) {
                    report.note(damage);
                }
            };
            let lives = may_live && named.meet(address, position, &mut astray);
            dead += u64::from(!lives);
        }
    })?;
    report.dead = dead;
    named.finish(&mut |to, damage| {
        if are_chunks_whole && !lost.has(to) {
            report.note(damage);
        }
    });
    Ok(())
}
