//! Verification of every byte of a store that is not open.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use codec::{Corruption, SeqNo};
use device::Device;
use engine::{Error, Result, as_damage};

use crate::INDEX_DIR;
use crate::examine::read_records;
use crate::index_value::{Handle, IndexValue};
use crate::key_hash::KeyHash;
use crate::key_index::of_index;
use crate::open::check_index;
use crate::segment::footer::{self, Entry, footer_bytes};
use crate::segment::record::value_bytes;
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

/// The records of all segments.
#[derive(Default)]
struct Records {
    /// By segment and offset.
    by_place: HashMap<(u64, u32), Entry>,
    /// The bytes of those of base segments.
    moved: HashMap<(KeyHash, SeqNo), u32>,
}

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
    report.note(check_index(&**device, &all))?;
    if !device.exists(INDEX_DIR)? {
        return Ok(report);
    }
    let index = device.subdevice(INDEX_DIR)?;
    let found = lsm::check(&index).map_err(of_index)?;
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
    let mut records = Records::default();
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
    let found = read_records(volumes, &geometry, described)?;
    if let Some(damage) = found.damage {
        return Err(damaged(damage));
    }
    let number = described.number;
    let mut largest = SeqNo::ZERO;
    for (entry, _) in found.all {
        largest = largest.max(entry.number);
        records.by_place.insert((number, entry.offset), entry);
        if let State::Sealed { is_base: true, .. } = described.state {
            records.moved.insert((entry.hash, entry.number), entry.bytes);
        }
    }
    if let State::Sealed { records_bytes, entries, newest, .. } = described.state {
        let (offset, count) = (records_bytes as usize, entries as usize);
        let pages = volumes.read(described.place, offset as u64, footer_bytes(count))?;
        let entries = footer::decode(&pages, count, number, offset, geometry.store);
        let entries = entries.map_err(damaged)?;
        let is_there = |entry: &Entry| records.by_place.get(&(number, entry.offset)) == Some(entry);
        let expected = entries.iter().map(|entry| entry.number).max().unwrap_or(SeqNo::ZERO);
        if !entries.iter().all(is_there) || newest != expected {
            let what = "a footer does not agree with the records";
            return Err(damaged(Corruption::new(what, offset as u64)));
        }
    }
    Ok(largest)
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
            Ok(IndexValue::Handle(handle)) => match leads_to(records, geometry, all, (key, handle))
            {
                true => key.len() + value_bytes(key.len(), handle.bytes as usize),
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

/// Returns whether a handle leads to its record: where it was appended, or where a job has moved
/// it.
fn leads_to(
    records: &Records,
    geometry: Geometry,
    all: &All,
    (key, handle): (&[u8], Handle),
) -> bool {
    let hash = geometry.secret.hash(key);
    if all.segments.contains_key(&handle.segment) {
        let found = records.by_place.get(&(handle.segment, handle.offset));
        return found.is_some_and(|entry| {
            // A later write may have replaced the record.
            (entry.hash, entry.bytes) == (hash, handle.bytes) && entry.number >= handle.number
        });
    }
    records.moved.get(&(hash, handle.number)) == Some(&handle.bytes)
}
