//! Changes of the index, many in one call.
//!
//! 1. The directory doubles until it has room for the new entries.
//! 2. The changes are grouped by chunk, and the present version of each chunk is read.
//! 3. The result of the changes is appended to the chunk log, protected, and installed by a
//!    compare-and-swap of the directory's word from the version that was read. A thread that loses
//!    marks its record invalid and starts over with the version that won [N2]. A chunk that the
//!    changes do not alter is not written.

use std::sync::atomic::Ordering::Relaxed;

use engine::{Error, Reservation, Result};
use workers::StopToken;

use super::ColdIndex;
use super::chunk::{Chunk, Entry, Name, Prefix, covered, encode, record_bytes};
use super::directory::Word;
use super::read_chunks::{Group, Outcome};
use crate::address::LogAddress;
use crate::cold::Covered;
use crate::position::Position;

/// Entries of one tag at which the tag is reported as crowded, and again at each multiple. Most of
/// them are versions of one key.
pub(crate) const CROWDED: usize = 8;

/// A change of the entries at one position.
///
/// Without `old`, `new` is put in front of the entries of its tag; without `new`, `old` is removed;
/// with both, `new` takes the place of `old`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) position: Position,
    pub(crate) old: LogAddress,
    pub(crate) new: LogAddress,
}

/// Result of many changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Applied {
    /// Entries that were put.
    pub(crate) put: u64,
    /// Entries that were taken out.
    pub(crate) taken: u64,
    /// Entries that were replaced.
    pub(crate) replaced: u64,
    /// Chunks that were written.
    pub(crate) chunks_written: u64,
    /// Changes whose `old` was not there, and which changed nothing.
    pub(crate) missed: Vec<Change>,
    /// Positions whose tags have entries to be merged: an entry that was put is the [`CROWDED`]th
    /// of its tag.
    pub(crate) crowded: Vec<Position>,
    /// Some of the records that were first of their tags until others were put in front of them.
    pub(crate) covered: Covered,
    /// Not all was done: the same changes may be applied again, since a put that is there already
    /// changes nothing.
    pub(crate) stopped: bool,
}

/// By how much a change of a chunk changes the index's counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    entries: i64,
    covered: i64,
}

/// A chunk's entries after its changes.
#[derive(Debug, Default)]
struct Edit {
    entries: Vec<Entry>,
    /// Increase of the number of entries that follow others of their tag.
    covered: i64,
    put: u64,
    taken: u64,
    replaced: u64,
    missed: Vec<Change>,
    crowded: Vec<Position>,
    covered_records: Vec<LogAddress>,
}

impl ColdIndex {
    /// Applies `changes`, those of one position in their order, and leaves them sorted by position.
    /// Each chunk is read once and written once, unless others change it meanwhile. Blocks; the
    /// caller is not protected.
    ///
    /// # Errors
    /// Damage with its place; the storage's; a chunk too long for a page. Some changes may have
    /// been applied then.
    pub(crate) fn apply(&self, changes: &mut [Change], stop: &StopToken) -> Result<Applied> {
        // Further bits of a position say nothing here, and the order of changes does.
        changes.sort_by_key(|change| Prefix::of(change.position));
        let changes = &*changes;
        let puts = changes.iter().filter(|change| change.old == LogAddress::NONE).count();
        self.grow_for(puts as u64);
        let mut applied = Applied::default();
        let mut value = Vec::new();
        let prefix_of = |index: usize| changes.get(index).map(|change| Prefix::of(change.position));
        let is_whole =
            self.with_chunks(0..changes.len(), &prefix_of, stop, &mut |group, chunk| {
                let of_chunk = changes[group.first..group.end].iter().copied();
                self.edit(group, chunk, of_chunk, &mut value, &mut applied)
            })?;
        applied.stopped = !is_whole;
        Ok(applied)
    }

    /// Applies the changes of one chunk.
    pub(super) fn edit(
        &self,
        group: Group,
        chunk: Option<Chunk<'_>>,
        changes: impl Iterator<Item = Change>,
        value: &mut Vec<u8>,
        applied: &mut Applied,
    ) -> Result<Outcome> {
        let edit = Edit::of(chunk, group.name, changes);
        if edit.changes_something() {
            let growth = edit.growth();
            let outcome = self.install(group.name, group.word, &edit.entries, growth, value)?;
            if outcome == Outcome::Again {
                return Ok(Outcome::Again);
            }
            applied.chunks_written += 1;
        }
        applied.put += edit.put;
        applied.taken += edit.taken;
        applied.replaced += edit.replaced;
        applied.missed.extend(edit.missed);
        applied.crowded.extend(edit.crowded);
        edit.covered_records.into_iter().for_each(|at| applied.covered.push(at));
        Ok(Outcome::Done)
    }

    /// Doubles the directory until it has room for `more` entries.
    pub(super) fn grow_for(&self, more: u64) {
        loop {
            let figures = self.figures();
            if figures.entries + more <= self.entries_room()
                || !self.directory.double(figures.level) && figures.level == super::LEVEL_MAX
            {
                return;
            }
        }
    }

    /// Appends a version of a chunk and makes it the present one, if `seen` still is. The index's
    /// counts change by `growth`.
    pub(super) fn install(
        &self,
        name: Name,
        seen: Word,
        entries: &[Entry],
        growth: Growth,
        value: &mut Vec<u8>,
    ) -> Result<Outcome> {
        if entries.len() > self.entries_max {
            let (bytes, limit) =
                (record_bytes(entries.len()), self.log.geometry.record_bytes_max());
            return Err(Error::RecordTooLong { engine: "f2", bytes, limit });
        }
        encode(entries, value);
        let bytes = record_bytes(entries.len()) as u64;
        let key = name.word().to_le_bytes();
        let changer = self.directory.changer();
        let installed = self.log.with_room(&Reservation::uncounted(), || {
            // Not appended for nothing, if that can be known.
            if !changer.has_level(name) || self.directory.load_at(name) != Some(seen) {
                return Ok(None);
            }
            let at = self.log.try_allocate(bytes)?;
            self.log.live(at).write(LogAddress::NONE, &key, Some(value));
            if changer.replace(name, seen, Word::new(at, entries.len())) {
                // Before the changer is dropped: a thread that counts keeps changers out [N5].
                self.entries.fetch_add(growth.entries, Relaxed);
                self.covered.fetch_add(growth.covered, Relaxed);
                return Ok(Some(at));
            }
            self.log.live(at).invalidate();
            Ok(None)
        })?;
        let Some(at) = installed else { return Ok(Outcome::Again) };
        self.digests.keep(name, at, entries);
        Ok(Outcome::Done)
    }
}

impl Edit {
    /// Applies `changes` to the part of `chunk` that belongs to `name`.
    fn of(chunk: Option<Chunk<'_>>, name: Name, changes: impl Iterator<Item = Change>) -> Self {
        let entries = chunk.map_or_else(Vec::new, |chunk| chunk.part(name));
        let mut edit = Self { entries, ..Self::default() };
        let before = covered(&edit.entries);
        changes.for_each(|change| edit.apply(change));
        edit.covered = covered(&edit.entries) as i64 - before as i64;
        edit
    }

    fn apply(&mut self, change: Change) {
        let tag = Prefix::of(change.position).tag();
        let first = self.entries.partition_point(|entry| entry.tag() < tag);
        let same = || self.entries[first..].iter().take_while(|entry| entry.tag() == tag);
        let place = |address| {
            let wanted = Entry::new(tag, address);
            same().position(|entry| *entry == wanted).map(|place| first + place)
        };
        if change.old == LogAddress::NONE {
            if place(change.new).is_none() {
                if (same().count() + 1).is_multiple_of(CROWDED) {
                    self.crowded.push(change.position);
                }
                self.covered_records.extend(same().next().map(|entry| entry.address()));
                // [K1]
                self.entries.insert(first, Entry::new(tag, change.new));
                self.put += 1;
            }
            return;
        }
        match place(change.old) {
            None => self.missed.push(change),
            Some(place) if change.new == LogAddress::NONE => {
                self.entries.remove(place);
                self.taken += 1;
            }
            Some(place) => {
                self.entries[place] = Entry::new(tag, change.new);
                self.replaced += 1;
            }
        }
    }

    fn growth(&self) -> Growth {
        Growth { entries: self.put as i64 - self.taken as i64, covered: self.covered }
    }

    fn changes_something(&self) -> bool {
        self.put + self.taken + self.replaced > 0
    }
}
