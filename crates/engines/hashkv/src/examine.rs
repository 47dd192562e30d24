//! The examination of segments when a store is opened.
//!
//! After a crash a segment may have *void* records: their writes are above the number up to which
//! the index has everything, and the index does not have them. The journal has them, or they are
//! lost. A void record that counted would let the collector drop a live record before it.
//!
//! 1. Each segment that is open in the table, or that has a record above that number, is read
//!    record by record, up to the end of its durable bytes. The index names no record behind them.
//! 2. For each record above that number the index is looked up. The record of a value counts if
//!    the key's handle names its place or its number: a write that was replayed has two equal
//!    records, and a handle of each may be in the index. A tombstone counts if the key is absent,
//!    and an inline marker if the value is in the index.
//! 3. Once all segments are judged, each gets a footer of the records that count, and is sealed. A
//!    segment without any is removed, once no table names it.
//!
//! A retryable failure of step 3, for example of a full device, does not end the opening. The step
//! is then tried again before each flush of the index, before jobs and before a checkpoint. The
//! index becomes durable above its present number only afterwards. Otherwise the next opening would
//! take void records up to the new number for records that count.
//!
//! A segment with damage may have void records. It is not changed, and is *open* in the table, so
//! each opening finds it again and keeps jobs from its group.

use codec::{Corruption, SeqNo};
use engine::{At, Result};

use crate::index_value::IndexValue;
use crate::key_index::of_index;
use crate::segment::footer::Entry;
use crate::segment::record::{Found, Kind, Walk};
use crate::segment_table::{Described, Geometry, State};
use crate::store::Shared;
use crate::values::Values;
use crate::volumes::{Volumes, file_name};

/// The durable records of a segment.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Each record, and its key.
    pub(crate) all: Vec<(Entry, Vec<u8>)>,
    /// The first damage.
    pub(crate) damage: Option<Corruption>,
}

/// The outcome of an opening's examination.
pub(crate) struct Examined {
    verdicts: Vec<Verdict>,
    damaged: Vec<Described>,
}

/// The outcome of an examination of one segment.
struct Verdict {
    described: Described,
    /// The entries of the records that count.
    entries: Vec<Entry>,
}

/// Reads the durable records of a segment. Continues behind damage with the next block.
///
/// # Errors
/// The device's; [`engine::Error::Corruption`] if the table gives the segment more bytes than its
/// place has.
pub(crate) fn read_records(
    volumes: &Volumes,
    geometry: &Geometry,
    described: &Described,
) -> Result<Records> {
    if described.end() > described.place.count as usize * geometry.segment_bytes as usize {
        let what = "a segment is longer than its place";
        let base = volumes.offset(described.place);
        return Err(Corruption::new(what, 0).at(&file_name(described.place.volume), base).into());
    }
    let bytes = volumes.read(described.place, 0, described.records_end())?;
    let mut records = Records::default();
    let mut walk = Walk::new(&bytes, described.number, geometry.store);
    loop {
        let damage = match walk.next() {
            Ok(Found::Record(offset, record)) => {
                let hash = geometry.secret.hash(record.key);
                records.all.push((record.entry(hash, offset as u32), record.key.to_vec()));
                if described.range.contains(hash.position()) {
                    continue;
                }
                let what = "a record is in the segment of another group";
                records.damage.get_or_insert(Corruption::new(what, offset as u64));
                continue;
            }
            Ok(Found::End) if walk.offset() >= bytes.len() => return Ok(records),
            Ok(Found::End) => {
                let what = "the records of a segment end too soon";
                Corruption::new(what, walk.offset() as u64)
            }
            Err(damage) => damage,
        };
        records.damage.get_or_insert(damage);
        if !walk.skip_to_next_block() {
            return Ok(records);
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
        let (mut verdicts, mut damaged) = (Vec::new(), Vec::new());
        for described in doubtful {
            if let State::Sealed { newest: known, .. } = described.state {
                newest = newest.max(known);
            }
            // Until its void records are dropped.
            self.values.bar(&described, true);
            let read = read_records(&self.values.volumes, &self.values.geometry, &described);
            let records = match read {
                // Bytes that cannot be read are damage.
                Err(error) if !error.is_retryable() => {
                    damaged.push(described);
                    continue;
                }
                read => read?,
            };
            newest = records.all.iter().map(|(entry, _)| entry.number).fold(newest, SeqNo::max);
            // A lookup finds the sound records of a damaged segment by their places, and returns
            // the damage of the others.
            if records.damage.is_some() {
                damaged.push(described);
                continue;
            }
            let entries = self.without_void(described.number, &records, persisted)?;
            verdicts.push(Verdict { described, entries });
        }
        self.values.set_examined(Examined { verdicts, damaged });
        tolerated(self.values.finish_examination())?;
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
        let looked_up =
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
            });
        looked_up.map_err(of_index)?;
        let confirmed = doubtful.iter().zip(counts).filter(|(_, counts)| *counts);
        kept.extend(confirmed.map(|(record, _)| *record));
        let mut entries: Vec<Entry> = kept.into_iter().map(|(entry, _)| *entry).collect();
        entries.sort_unstable();
        Ok(entries)
    }
}

/// Ignores a retryable failure: the next opening does the rest.
pub(crate) fn tolerated(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if error.is_retryable() => Ok(()),
        done => done,
    }
}

impl Values {
    fn set_examined(&self, examined: Examined) {
        *self.gates.examined.lock() = Some(examined);
    }

    /// Does what the examination of the opening has found necessary, unless that is done: drops
    /// void records, and lets jobs collect the groups.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn finish_examination(&self) -> Result<()> {
        if self.gates.examined.lock().is_none() {
            return Ok(());
        }
        let _flusher = self.gates.flusher.lock();
        self.finish_examination_locked()
    }

    /// The same. The caller has the flusher's lock.
    pub(super) fn finish_examination_locked(&self) -> Result<()> {
        let mut examined = self.gates.examined.lock();
        let Some(Examined { verdicts, damaged }) = examined.as_ref() else { return Ok(()) };
        if verdicts.iter().any(Verdict::is_change) || damaged.iter().any(is_sealed) {
            // The verdicts depend on the state of the index, which may not be durable yet.
            self.make_index_durable()?;
        }
        self.failures.noted(self.carry_out(verdicts, damaged))?;
        let group = |described: &Described| self.group_number(described.range.first);
        let is_damaged = |number| damaged.iter().any(|described| group(described) == number);
        for Verdict { described, .. } in verdicts {
            self.bar(described, is_damaged(group(described)));
        }
        damaged.iter().for_each(|described| self.bar(described, true));
        *examined = None;
        Ok(())
    }

    /// Seals each segment with the entries that an examination has found, and removes segments
    /// without any. Damaged segments are open in the table from now on.
    fn carry_out(&self, verdicts: &[Verdict], damaged: &[Described]) -> Result<()> {
        let (empty, kept): (Vec<_>, Vec<_>) =
            verdicts.iter().partition(|verdict| verdict.entries.is_empty());
        let changed: Vec<_> = kept.into_iter().filter(|verdict| verdict.is_change()).collect();
        // First of all the space that needs no other: the device may be full.
        self.with_table(|table| {
            empty.iter().for_each(|verdict| table.remove(verdict.described.number));
            Ok(())
        })?;
        let unsealed = changed.iter().map(|verdict| &verdict.described).chain(damaged);
        self.unseal(unsealed)?;
        for Verdict { described, .. } in empty {
            self.remove(described.number)?;
        }
        for Verdict { described, entries } in changed {
            let Some(segment) = self.segment(described.number) else { continue };
            let newest = newest(entries);
            let end = described.records_end() as u32;
            let sealed = self.write_footer(&segment, end, entries, newest, false)?;
            // A crash may have left bytes behind it.
            self.volumes.trim(sealed.place, sealed.end())?;
            self.note_sealed(sealed)?;
        }
        self.sync_and_commit()
    }

    /// Notes durably, with all earlier changes, that segments have no footer. Those of sound
    /// segments are written again then, so each footer that the table names is whole.
    fn unseal<'s>(&self, segments: impl Iterator<Item = &'s Described>) -> Result<()> {
        self.with_table(|table| {
            for described in segments {
                if let State::Sealed { records_bytes, .. } = described.state {
                    let state = State::Open { durable_bytes: records_bytes };
                    table.put(Described { state, ..*described });
                }
            }
            Ok(())
        })?;
        self.sync_and_commit()
    }
}

fn is_sealed(described: &Described) -> bool {
    matches!(described.state, State::Sealed { .. })
}

impl Verdict {
    /// Returns whether the segment does not have this footer yet.
    fn is_change(&self) -> bool {
        let Self { described, entries } = self;
        let count = entries.len() as u32;
        match described.state {
            State::Open { .. } => true,
            State::Sealed { entries, .. } if entries != count => true,
            State::Sealed { .. } => false,
        }
    }
}

/// Returns the largest number of a record.
fn newest(entries: &[Entry]) -> SeqNo {
    entries.iter().map(|entry| entry.number).max().unwrap_or(SeqNo::ZERO)
}
