//! The segment table on the device: which segments there are, as a chain of edits.
//!
//! # Format
//! `docs/formats/hashkv-table.md`. An edit begins with a byte of flags. The flags say whether the
//! geometry, the floor of segment numbers and the ranges of groups follow, and whether the index is
//! durable. Then come a list of
//! segments that are removed, and a list of segments that are added or changed.
//!
//! # Invariants
//! - T1. Two segments have no place in common.
//! - T2. All segments have numbers below the floor. It is raised far ahead of use, and an opening
//!   begins at it: a segment whose edit a crash has lost leaves its number unused.
//! - T3. The ranges of groups cover all positions, each once, and have the same number of bits.
//! - T4. A segment begins at the first place of its volume, or ends within [`PLACES`].

use std::collections::BTreeMap;

use codec::{Corruption, Format, Reader, SeqNo, Writer};
use edits::Kind;

use crate::key_hash::Secret;
use crate::segment::footer::footer_bytes;
use crate::segment::record::BLOCK_BYTES;
use crate::volumes::{self, PLACES, Place};

/// The header of the chain's file.
pub(crate) const FORMAT: Format = Format::new(*b"TCHKVTAB", 1, 0);

const HAS_GEOMETRY: u8 = 1;
const HAS_FLOOR: u8 = 2;
const HAS_RANGES: u8 = 4;
const HAS_INDEX: u8 = 8;
const FLAGS: u8 = HAS_GEOMETRY | HAS_FLOOR | HAS_RANGES | HAS_INDEX;
/// Bytes of a segment of one place, at most.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a segment, at most: of one with the longest value.
const BYTES_MAX: u64 = 1 << 30;
/// The fewest bytes of a segment's description, and of a range.
const SEGMENT_BYTES_MIN: usize = 8;
const RANGE_BYTES_MIN: usize = 2;

/// The properties of a store that stay the same for its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// The store's id: bytes of another store have another one.
    pub(crate) store: u64,
    pub(crate) secret: Secret,
    /// Bytes of a place of a volume, and of a segment of one place.
    pub(crate) segment_bytes: u32,
}

/// The positions of a group: those with the same first `bits` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    /// The first position.
    pub(crate) first: u64,
    pub(crate) bits: u8,
}

impl Range {
    /// Returns the last position.
    pub(crate) fn last(self) -> u64 {
        self.first | u64::MAX.checked_shr(u32::from(self.bits)).unwrap_or(0)
    }

    pub(crate) fn contains(self, position: u64) -> bool {
        (self.first..=self.last()).contains(&position)
    }

    /// Returns the ranges of all positions, 2^`bits` of them.
    pub(crate) fn all(bits: u8) -> Vec<Self> {
        let shift = u64::BITS - u32::from(bits);
        (0..1u64 << bits)
            .map(|index| Self { first: index.checked_shl(shift).unwrap_or(0), bits })
            .collect()
    }
}

/// How a segment is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It accepts records, or did so in the life of the store that wrote this.
    Open {
        /// Bytes of the records and paddings that were durable before this was written.
        durable_bytes: u32,
    },
    /// It has its footer.
    Sealed {
        /// Bytes of the records and paddings: the offset of the footer.
        records_bytes: u32,
        /// Entries of the footer.
        entries: u32,
        /// The largest number of a record.
        newest: SeqNo,
        /// Whether a job has filled it, and not writes.
        is_base: bool,
    },
}

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) number: u64,
    /// The positions of its records.
    pub(crate) range: Range,
    pub(crate) place: Place,
    pub(crate) state: State,
}

impl Described {
    /// Returns the end of its records that are durable.
    pub(crate) fn records_end(&self) -> usize {
        match self.state {
            State::Open { durable_bytes } => durable_bytes as usize,
            State::Sealed { records_bytes, .. } => records_bytes as usize,
        }
    }

    /// Returns the number of entries of its footer; 0 without one.
    pub(crate) fn entries(&self) -> u32 {
        match self.state {
            State::Open { .. } => 0,
            State::Sealed { entries, .. } => entries,
        }
    }

    /// Returns the end of its bytes that are durable: of its footer, if it has one.
    pub(crate) fn end(&self) -> usize {
        self.records_end() + footer_bytes(self.entries() as usize)
    }

    /// Returns the bytes of the device that it takes: up to the end of its footer, or the whole
    /// place without one.
    pub(crate) fn disk_bytes(&self, segment_bytes: u32) -> u64 {
        match self.state {
            State::Open { .. } => u64::from(self.place.count) * u64::from(segment_bytes),
            State::Sealed { .. } => self.end() as u64,
        }
    }

    /// Returns whether an edit may replace this by `next`: a segment grows, is sealed, or loses its
    /// footer, which an opening writes again without void records. An opening that has to try again
    /// may also repeat the state of an open segment.
    fn may_become(self, next: Self) -> bool {
        let is_same = Self { state: next.state, ..self } == next;
        is_same
            && match (self.state, next.state) {
                (State::Open { durable_bytes: now }, State::Open { durable_bytes: then }) => {
                    now <= then
                }
                (State::Open { durable_bytes }, State::Sealed { records_bytes, .. }) => {
                    durable_bytes <= records_bytes
                }
                (State::Sealed { records_bytes, .. }, State::Open { durable_bytes }) => {
                    records_bytes == durable_bytes
                }
                (State::Sealed { .. }, State::Sealed { .. }) => false,
            }
    }
}

/// A change of the segment table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) geometry: Option<Geometry>,
    /// No segment has this number, nor a greater one.
    pub(crate) floor: Option<u64>,
    /// The ranges of all groups.
    pub(crate) ranges: Option<Vec<Range>>,
    /// Whether the index is durable: without it, the store is damaged.
    pub(crate) has_index: bool,
    pub(crate) removed: Vec<u64>,
    /// Segments that come, or are sealed.
    pub(crate) put: Vec<Described>,
}

/// The contents after some edits.
#[derive(Debug, Default)]
pub(crate) struct All {
    pub(crate) geometry: Option<Geometry>,
    pub(crate) floor: u64,
    pub(crate) ranges: Vec<Range>,
    pub(crate) has_index: bool,
    pub(crate) segments: BTreeMap<u64, Described>,
}

impl edits::Edit for Edit {
    const KIND: Kind = Kind {
        superblock: *b"hashkv  ",
        format: FORMAT,
        prefix: "segments-",
        is_of_store: |name| volumes::file_number(name).is_some() || name == crate::INDEX_DIR,
    };

    type All = All;

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Writer::new(&mut bytes);
        let flag = |is_there: bool, flag: u8| if is_there { flag } else { 0 };
        out.put_u8(
            flag(self.geometry.is_some(), HAS_GEOMETRY)
                | flag(self.floor.is_some(), HAS_FLOOR)
                | flag(self.ranges.is_some(), HAS_RANGES)
                | flag(self.has_index, HAS_INDEX),
        );
        if let Some(geometry) = &self.geometry {
            out.put_u64(geometry.store);
            geometry.secret.0.into_iter().for_each(|half| out.put_u64(half));
            out.put_u32(geometry.segment_bytes);
        }
        if let Some(floor) = self.floor {
            out.put_varint(floor);
        }
        if let Some(ranges) = &self.ranges {
            out.put_varint(ranges.len() as u64);
            ranges.iter().for_each(|range| put_range(&mut out, *range));
        }
        out.put_varint(self.removed.len() as u64);
        self.removed.iter().for_each(|number| out.put_varint(*number));
        out.put_varint(self.put.len() as u64);
        self.put.iter().for_each(|segment| put_segment(&mut out, segment));
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, Corruption> {
        let mut reader = Reader::new(bytes);
        let flags = reader.take_u8()?;
        if flags & !FLAGS != 0 {
            return Err(reader.corruption(format!("flags {flags:#x} of an edit")));
        }
        let mut edit = Self { has_index: flags & HAS_INDEX != 0, ..Self::default() };
        if flags & HAS_GEOMETRY != 0 {
            let store = reader.take_u64()?;
            let secret = Secret([reader.take_u64()?, reader.take_u64()?]);
            edit.geometry = Some(Geometry { store, secret, segment_bytes: reader.take_u32()? });
        }
        if flags & HAS_FLOOR != 0 {
            edit.floor = Some(reader.take_varint_u64()?);
        }
        if flags & HAS_RANGES != 0 {
            let count = reader.take_count(RANGE_BYTES_MIN)?;
            let ranges: Result<_, _> = (0..count).map(|_| take_range(&mut reader)).collect();
            edit.ranges = Some(ranges?);
        }
        for _ in 0..reader.take_count(1)? {
            edit.removed.push(reader.take_varint_u64()?);
        }
        for _ in 0..reader.take_count(SEGMENT_BYTES_MIN)? {
            edit.put.push(take_segment(&mut reader)?);
        }
        reader.finish()?;
        Ok(edit)
    }

    fn apply(self, all: &mut All) -> Result<(), Corruption> {
        all.apply(self)
    }

    fn of_all(all: All) -> Self {
        all.as_edit()
    }
}

impl All {
    /// Returns the contents as one edit of an empty store.
    pub(crate) fn as_edit(&self) -> Edit {
        Edit {
            geometry: self.geometry,
            floor: Some(self.floor),
            // A store that a crash has left before its geometry has none.
            ranges: (!self.ranges.is_empty()).then(|| self.ranges.clone()),
            has_index: self.has_index,
            removed: Vec::new(),
            put: self.segments.values().copied().collect(),
        }
    }

    fn apply(&mut self, edit: Edit) -> Result<(), Corruption> {
        let damage = |what: String| Err(Corruption::new(what, 0));
        if edit.geometry.is_some() {
            if self.geometry.is_some_and(|known| Some(known) != edit.geometry) {
                return damage("the geometry of a store changes".to_owned());
            }
            self.geometry = edit.geometry;
            let segment_bytes = edit.geometry.map_or(0, |geometry| geometry.segment_bytes);
            if !is_segment_length(u64::from(segment_bytes)) {
                return damage(format!("a store has segments of {segment_bytes} bytes"));
            }
            if edit.ranges.is_none() {
                return damage("a geometry comes without ranges".to_owned());
            }
        }
        if let Some(floor) = edit.floor {
            if floor < self.floor {
                return damage(format!("the floor of segment numbers falls to {floor}"));
            }
            self.floor = floor;
        }
        if let Some(ranges) = edit.ranges {
            check_ranges(&ranges)?;
            self.ranges = ranges;
        }
        self.has_index |= edit.has_index;
        for number in edit.removed {
            if self.segments.remove(&number).is_none() {
                return damage(format!("segment {number} goes, and is not there"));
            }
        }
        for segment in edit.put {
            let number = segment.number;
            self.check_segment(&segment)?;
            if number >= self.floor {
                return damage(format!("segment {number} is not below the floor {}", self.floor));
            }
            let before = self.segments.insert(number, segment);
            if !before.is_none_or(|before| before.may_become(segment)) {
                return damage(format!("segment {number} comes twice"));
            }
        }
        Ok(())
    }
}

impl All {
    /// Checks that a segment fits the geometry and the groups.
    fn check_segment(&self, segment: &Described) -> Result<(), Corruption> {
        let Described { number, range, place, .. } = *segment;
        let segment_bytes = self.geometry.map_or(0, |geometry| u64::from(geometry.segment_bytes));
        let bytes = u64::from(place.count) * segment_bytes;
        let is_sound = is_segment_length(segment_bytes)
            && bytes <= BYTES_MAX
            && segment.end() as u64 <= bytes
            && place.volume < u32::MAX
            && self.ranges.binary_search(&range).is_ok();
        match is_sound {
            true => Ok(()),
            false => Err(Corruption::new(format!("segment {number} does not fit the store"), 0)),
        }
    }
}

/// Returns whether segments of a store may have this length.
fn is_segment_length(bytes: u64) -> bool {
    bytes.is_power_of_two() && (BLOCK_BYTES as u64..=SEGMENT_BYTES_MAX).contains(&bytes)
}

/// Checks invariant T3.
fn check_ranges(ranges: &[Range]) -> Result<(), Corruption> {
    let mut next = Some(0);
    let bits = ranges.first().map_or(0, |range| range.bits);
    for range in ranges {
        if next != Some(range.first) || range.bits != bits {
            return Err(Corruption::new("the ranges of groups do not follow one another", 0));
        }
        next = range.last().checked_add(1);
    }
    match next {
        None => Ok(()),
        Some(_) => Err(Corruption::new("the ranges of groups leave positions out", 0)),
    }
}

fn put_range(out: &mut Writer<'_>, range: Range) {
    out.put_u8(range.bits);
    let shift = u64::BITS - u32::from(range.bits);
    out.put_varint(range.first.checked_shr(shift).unwrap_or(0));
}

fn take_range(reader: &mut Reader<'_>) -> Result<Range, Corruption> {
    let bits = reader.take_u8()?;
    let index = reader.take_varint_u64()?;
    let is_known = u32::from(bits) < u64::BITS && index >> bits == 0;
    if !is_known {
        return Err(reader.corruption(format!("a range of {bits} bits has no number {index}")));
    }
    let shift = u64::BITS - u32::from(bits);
    Ok(Range { first: index.checked_shl(shift).unwrap_or(0), bits })
}

fn put_segment(out: &mut Writer<'_>, segment: &Described) {
    out.put_varint(segment.number);
    put_range(out, segment.range);
    let Place { volume, first, count } = segment.place;
    out.put_varint(u64::from(volume));
    out.put_varint(u64::from(first));
    out.put_varint(u64::from(count));
    match segment.state {
        State::Open { durable_bytes } => {
            out.put_u8(0);
            out.put_varint(u64::from(durable_bytes));
        }
        State::Sealed { records_bytes, entries, newest, is_base } => {
            out.put_u8(if is_base { 2 } else { 1 });
            out.put_varint(u64::from(records_bytes));
            out.put_varint(u64::from(entries));
            out.put_varint(newest.get());
        }
    }
}

fn take_segment(reader: &mut Reader<'_>) -> Result<Described, Corruption> {
    let number = reader.take_varint_u64()?;
    let range = take_range(reader)?;
    let volume = reader.take_varint_u32()?;
    let (first, count) = (reader.take_varint_u32()?, reader.take_varint_u32()?);
    // A longer segment has a volume of its own.
    let fits =
        count > 0 && (first == 0 || first.checked_add(count).is_some_and(|end| end <= PLACES));
    if !fits {
        return Err(reader.corruption(format!("a volume has no {count} places from {first} on")));
    }
    let state = match reader.take_u8()? {
        0 => State::Open { durable_bytes: reader.take_varint_u32()? },
        kind @ (1 | 2) => State::Sealed {
            records_bytes: reader.take_varint_u32()?,
            entries: reader.take_varint_u32()?,
            newest: SeqNo::new(reader.take_varint_u64()?),
            is_base: kind == 2,
        },
        state => return Err(reader.corruption(format!("a segment has no state {state}"))),
    };
    Ok(Described { number, range, place: Place { volume, first, count }, state })
}

#[cfg(test)]
mod tests;
