//! The examination of segments when a store is opened.
//!
//! After a crash a segment may have *void* records: their writes are above the number up to which
//! the index has everything, and the index does not have them. The journal has them, or they are
//! lost. A void record that counted would let the collector drop a live record before it.
//!
//! 1. Each segment that is open in the table, or that has a record above that number, is read
//!    record by record.
//! 2. For each record above that number the index is looked up. The record of a value counts if
//!    the key's handle names its place or its number: a write that was replayed has two equal
//!    records, and a handle of each may be in the index. A tombstone counts if the key is absent,
//!    and an inline marker if the value is in the index.
//! 3. Each segment gets a footer of the records that count, and is sealed. A segment without any is
//!    removed, once no table names it.
//!
//! If a crash breaks this off, the next opening examines the same segments again.

use codec::SeqNo;
use engine::{At, Result};

use crate::index_value::IndexValue;
use crate::segment::footer::Entry;
use crate::segment::record::{BLOCK_BYTES, Found, Kind, Walk};
use crate::segment_table::{Described, State};
use crate::store::Shared;
use crate::values::Values;

/// The records of a segment.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Each record, and its key.
    all: Vec<(Entry, Vec<u8>)>,
    /// The first offset at which there is no record.
    hole: Option<usize>,
}

/// Reads the records of a segment of `capacity` bytes.
///
/// # Errors
/// The device's. Bytes that are no records are in the result: behind the last write before a crash
/// there may be some.
pub(crate) fn read_records(values: &Values, described: &Described) -> Result<Records> {
    let geometry = &values.geometry;
    let end = match described.state {
        State::Sealed { records_bytes, .. } => records_bytes as usize,
        State::Open { .. } => described.place.count as usize * geometry.segment_bytes as usize,
    };
    let bytes = values.volumes.read(described.place, 0, end)?;
    let mut records = Records::default();
    let mut walk = Walk::new(&bytes, described.number, geometry.store);
    loop {
        match walk.next() {
            Ok(Found::Record(offset, record)) => {
                let entry = record.entry(geometry.secret.hash(record.key), offset as u32);
                records.all.push((entry, record.key.to_vec()));
            }
            Ok(Found::End) if walk.offset() >= bytes.len() => return Ok(records),
            _ => {
                records.hole.get_or_insert(walk.offset());
                // A write that a crash has cut short may have left later blocks.
                if !walk.skip_to_next_block() {
                    return Ok(records);
                }
            }
        }
    }
}

impl Shared {
    /// Examines the segments that a crash may have left with void records.
    pub(crate) fn examine(&self) -> Result<()> {
        let persisted = self.index.persisted();
        let doubtful = self.values.with_table(|table| {
            let is_doubtful = |described: &&Described| match described.state {
                State::Open { .. } => true,
                State::Sealed { newest, .. } => newest > persisted,
            };
            Ok(table.all.segments.values().filter(is_doubtful).copied().collect::<Vec<_>>())
        })?;
        let mut newest = SeqNo::ZERO;
        let mut empty = Vec::new();
        for described in doubtful {
            let records = read_records(&self.values, &described)?;
            // A damaged segment is left unchanged. A lookup finds its sound records by their
            // places, and returns the damage of the others.
            let hole = records.hole.unwrap_or(usize::MAX);
            if hole < durable_end(&described) {
                continue;
            }
            newest = records.all.iter().map(|(entry, _)| entry.number).fold(newest, SeqNo::max);
            let kept = self.without_void(described.number, &records, persisted)?;
            let end = end_of(&described, &records, &kept);
            // A record that counts was durable, and so were the bytes before it.
            if hole < end {
                continue;
            }
            match kept.is_empty() {
                true => empty.push(described),
                false => self.values.seal_examined(&described, end, &kept)?,
            }
        }
        self.values.remove_examined(&empty)?;
        if newest > persisted {
            match self.host.barrier.is_journaled() {
                true => self.host.barrier.holds(newest),
                false => self.host.sequence.found(newest),
            }
        }
        Ok(())
    }

    /// Returns the entries of the records that are not void, in the order of a footer.
    fn without_void(
        &self,
        segment: u64,
        records: &Records,
        persisted: SeqNo,
    ) -> Result<Vec<Entry>> {
        let (mut kept, doubtful): (Vec<_>, Vec<_>) =
            records.all.iter().partition(|(entry, _)| entry.number <= persisted);
        let keys: Vec<&[u8]> = doubtful.iter().map(|(_, key)| key.as_slice()).collect();
        let mut counts = vec![false; keys.len()];
        self.reads.multi_get(&*self.index, &keys, At::Newest, &mut |number, value| {
            let Some((entry, _)) = doubtful.get(number) else { return };
            let is_confirmed = match (entry.kind, value.map(IndexValue::decode)) {
                (Kind::Value, Some(Ok(IndexValue::Handle(handle)))) => {
                    let place = (handle.segment, handle.offset);
                    place == (segment, entry.offset) || handle.number == entry.number
                }
                (Kind::Tombstone, None) => true,
                (Kind::InlineMarker, Some(Ok(IndexValue::Inline(_)))) => true,
                _ => false,
            };
            if let Some(counts) = counts.get_mut(number) {
                *counts = is_confirmed;
            }
        })?;
        let confirmed = doubtful.iter().zip(counts).filter(|(_, counts)| *counts);
        kept.extend(confirmed.map(|(record, _)| *record));
        let mut entries: Vec<Entry> = kept.into_iter().map(|(entry, _)| *entry).collect();
        entries.sort_unstable();
        Ok(entries)
    }
}

/// Returns the end of the bytes that were durable, as the table says.
pub(crate) fn durable_end(described: &Described) -> usize {
    match described.state {
        State::Open { durable_bytes } => durable_bytes as usize,
        State::Sealed { records_bytes, .. } => records_bytes as usize,
    }
}

/// Returns the end of the records of a segment without void records at its end. Void records of a
/// write with a record that counts are whole, too.
fn end_of(described: &Described, records: &Records, kept: &[Entry]) -> usize {
    let end = |entry: &Entry| ((entry.offset + entry.bytes) as usize).next_multiple_of(BLOCK_BYTES);
    let kept = kept.iter().map(end).max().unwrap_or(0).max(durable_end(described));
    records.all.iter().fold(kept, |until, (entry, _)| match (entry.offset as usize) < until {
        true => until.max(end(entry)),
        false => until,
    })
}

impl Values {
    /// Seals a segment with these entries, which an examination has found.
    fn seal_examined(&self, described: &Described, end: usize, entries: &[Entry]) -> Result<()> {
        let Some(segment) = self.segment(described.number) else { return Ok(()) };
        let newest = entries.iter().map(|entry| entry.number).max().unwrap_or(SeqNo::ZERO);
        let (records_bytes, count) = (end as u32, entries.len() as u32);
        if described.state == (State::Sealed { records_bytes, entries: count, newest }) {
            return Ok(());
        }
        self.write_footer(&segment, records_bytes, entries, newest)
    }

    /// Commits what an examination has found, and removes segments without records.
    fn remove_examined(&self, empty: &[Described]) -> Result<()> {
        self.with_table(|table| {
            empty.iter().for_each(|described| table.remove(described.number));
            Ok(())
        })?;
        self.sync_and_commit()?;
        for described in empty {
            self.forget(described.number);
            self.volumes.release(described.place)?;
        }
        Ok(())
    }
}
