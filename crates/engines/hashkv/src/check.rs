//! Verification of every byte of a store that is not open.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::Device;
use engine::{Error, Result, as_damage};

use crate::INDEX_DIR;
use crate::examine::durable_end;
use crate::index_value::{Handle, IndexValue};
use crate::segment::footer::{self, Entry, footer_bytes};
use crate::segment::record::{Found, Walk};
use crate::segment_table::{All, Described, Edit, Geometry, State};
use crate::volumes::{self, Volumes, file_name};

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All damage that was found.
    pub damage: Vec<Corruption>,
    /// Every write up to this is in the index.
    pub persisted: SeqNo,
    /// The newest write of which anything is in the files.
    pub newest: SeqNo,
    /// Segments.
    pub segments: u64,
    /// Pairs.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub pair_bytes: u64,
}

impl Report {
    /// Returns whether the store can be opened, and everything in it read.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }

    fn note(&mut self, found: Result<()>) -> Result<()> {
        match found.map_err(as_damage) {
            Err(Error::Corruption(damage)) => self.damage.push(damage),
            other => other?,
        }
        Ok(())
    }
}

/// The records of all segments, by segment and offset.
type Records = HashMap<(u64, u32), Entry>;

/// Reads every file of the store in `device` and verifies every checksum, and that each handle of
/// the index leads to its record. Changes nothing. The store must not be open. Takes memory for
/// each record.
///
/// # Errors
/// Only the storage's own; damage is in the report.
pub fn check(device: &Arc<dyn Device>) -> Result<Report> {
    let mut report = Report::default();
    let mut all = All::default();
    match edits::read::<Edit>(&**device) {
        Ok(None) => return Ok(report),
        Ok(Some((_, contents))) => {
            if let Err(damage) = edits::Edit::apply(contents.edit, &mut all) {
                report.damage.push(damage.at(edits::SUPERBLOCK, 0));
                return Ok(report);
            }
        }
        Err(Error::Corruption(damage)) => {
            report.damage.push(damage);
            return Ok(report);
        }
        Err(error) => return Err(error),
    }
    let Some(geometry) = all.geometry else { return Ok(report) };
    let index = device.subdevice(INDEX_DIR)?;
    let found = lsm::check(&index)?;
    report.damage.extend(found.damage.into_iter().map(|damage| damage.in_dir(INDEX_DIR)));
    (report.persisted, report.newest) = (found.persisted, found.newest);
    let records = check_segments(device, geometry, &all, &mut report)?;
    if report.is_sound() {
        check_handles(&index, geometry, &all, &records, &mut report)?;
    }
    Ok(report)
}

/// Reads all segments, and returns their records.
fn check_segments(
    device: &Arc<dyn Device>,
    geometry: Geometry,
    all: &All,
    report: &mut Report,
) -> Result<Records> {
    let mut records = Records::new();
    let numbers: BTreeSet<u32> = all.segments.values().map(|it| it.place.volume).collect();
    let mut sound = BTreeSet::new();
    for number in numbers {
        let before = report.damage.len();
        report.note(volumes::check_headers(&**device, [number].into_iter()))?;
        if report.damage.len() == before {
            sound.insert(number);
        }
    }
    let volumes = Volumes::to_read(Arc::clone(device), geometry.segment_bytes);
    for described in all.segments.values().filter(|it| sound.contains(&it.place.volume)) {
        report.note(volumes.claim(described.place))?;
        let examined = examine(&volumes, geometry, described, &mut records);
        let newest = examined.as_ref().map_or(SeqNo::ZERO, |newest| *newest);
        report.newest = report.newest.max(newest);
        report.note(examined.map(|_| ()))?;
        report.segments += 1;
    }
    Ok(records)
}

/// Reads a segment, and returns the largest number of a record.
fn examine(
    volumes: &Volumes,
    geometry: Geometry,
    described: &Described,
    records: &mut Records,
) -> Result<SeqNo> {
    let base = volumes.offset(described.place);
    let damaged =
        |damage: Corruption| Error::Corruption(damage.at(&file_name(described.place.volume), base));
    let capacity = described.place.count as usize * geometry.segment_bytes as usize;
    let (records_bytes, footer) = match described.state {
        State::Open { .. } => (capacity, None),
        State::Sealed { records_bytes, entries, newest } => {
            let (offset, count) = (records_bytes as usize, entries as usize);
            if offset + footer_bytes(count) > capacity {
                return Err(damaged(Corruption::new("a segment is longer than its place", 0)));
            }
            (offset, Some((count, newest)))
        }
    };
    let whole = records_bytes + footer.map_or(0, |(count, _)| footer_bytes(count));
    let bytes = volumes.read(described.place, 0, whole)?;
    let (content, tail) = bytes.split_at(records_bytes);
    let found = walk(content, geometry, described);
    let found = match described.state {
        // Behind the last durable write before a crash anything may be.
        State::Open { durable_bytes } => match found {
            Err((_, damage)) if damage.offset < u64::from(durable_bytes) => {
                return Err(damaged(damage));
            }
            found => found.unwrap_or_else(|(entries, _)| entries),
        },
        State::Sealed { .. } => found.map_err(|(_, damage)| damaged(damage))?,
    };
    let mut newest = SeqNo::ZERO;
    for entry in &found {
        newest = newest.max(entry.number);
        records.insert((described.number, entry.offset), *entry);
    }
    if let Some((count, expected)) = footer {
        let number = described.number;
        let entries = footer::decode(tail, count, number, records_bytes, geometry.store);
        let entries = entries.map_err(damaged)?;
        let is_there = |entry: &Entry| records.get(&(number, entry.offset)) == Some(entry);
        let largest = entries.iter().map(|entry| entry.number).max().unwrap_or(SeqNo::ZERO);
        if !entries.iter().all(is_there) || largest != expected {
            let what = "a footer does not agree with the records";
            return Err(damaged(Corruption::new(what, records_bytes as u64)));
        }
    }
    Ok(newest)
}

/// Returns the records of a segment; with the damage, those before it.
fn walk(
    bytes: &[u8],
    geometry: Geometry,
    described: &Described,
) -> std::result::Result<Vec<Entry>, (Vec<Entry>, Corruption)> {
    let mut entries = Vec::new();
    let mut walk = Walk::new(bytes, described.number, geometry.store);
    loop {
        match walk.next() {
            Ok(Found::Record(offset, record)) => {
                let hash = geometry.secret.hash(record.key);
                entries.push(record.entry(hash, offset as u32));
                if !described.range.contains(hash.position()) {
                    let what = "a record is in the segment of another group";
                    return Err((entries, Corruption::new(what, offset as u64)));
                }
            }
            Ok(Found::End) if walk.offset() < durable_end(described) => {
                let what = "the records of a segment end too soon";
                return Err((entries, Corruption::new(what, walk.offset() as u64)));
            }
            Ok(Found::End) => return Ok(entries),
            Err(damage) => return Err((entries, damage)),
        }
    }
}

/// Verifies that each handle of the index leads to its record.
fn check_handles(
    index: &Arc<dyn Device>,
    geometry: Geometry,
    all: &All,
    records: &Records,
    report: &mut Report,
) -> Result<()> {
    let salvaged = lsm::salvage(index, &mut |op| {
        let (key, Some(value)) = (op.key(), op.value()) else { return ControlFlow::Continue(()) };
        report.pairs += 1;
        let bytes = match IndexValue::decode(value) {
            Ok(IndexValue::Inline(value)) => key.len() + value.len(),
            Ok(IndexValue::Handle(handle)) => match leads_to(records, geometry, key, handle) {
                true => handle.bytes as usize,
                false => {
                    let file = all.segments.get(&handle.segment);
                    let file = file.map_or(0, |segment| segment.place.volume);
                    let what = format!("the record of key \"{}\" is missing", key.escape_ascii());
                    let offset = u64::from(handle.offset);
                    report.damage.push(Corruption::new(what, offset).at(&file_name(file), 0));
                    0
                }
            },
            Err(damage) => {
                report.damage.push(damage.at(INDEX_DIR, 0));
                0
            }
        };
        report.pair_bytes += bytes as u64;
        ControlFlow::Continue(())
    })?;
    let lost = salvaged.lost.into_iter().map(|lost| lost.damage.in_dir(INDEX_DIR));
    report.damage.extend(lost);
    Ok(())
}

fn leads_to(records: &Records, geometry: Geometry, key: &[u8], handle: Handle) -> bool {
    records.get(&(handle.segment, handle.offset)).is_some_and(|entry| {
        entry.hash == geometry.secret.hash(key)
            && (entry.number, entry.bytes) == (handle.number, handle.bytes)
    })
}
