//! Offline verification of everything that a store has on a device.

use std::collections::BTreeSet;
use std::sync::Arc;

use codec::{Corruption, Reader, SeqNo};
use device::{Device, Mode};
use engine::{Error, Result, as_damage};
use flexspace::space::Offline;

use crate::error::{DATA, SUPERBLOCK, from_space};
use crate::index::START;
use crate::pair::{Pair, StoreHeader};
use crate::stored_index::{self, Wanted};

/// The findings of [`check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each piece that is not what was written, with its place.
    pub damage: Vec<Corruption>,
    /// Every write up to this is in the store's files.
    pub persisted: SeqNo,
    /// Intervals.
    pub intervals: u64,
    /// Pairs in them, including the ones that later pairs replace.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub pair_bytes: u64,
}

impl Report {
    /// Whether the store can be opened, and everything in it read.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Reads all that the store in `device` refers to, and verifies it. Changes nothing. The store must
/// not be open.
///
/// # Errors
/// Only the storage's own; damage is in the report.
pub fn check(device: &Arc<dyn Device>) -> Result<Report> {
    let mut report = Report::default();
    let examined = check_space(&**device, &mut report);
    examined.or_else(|error| report.note(error))?;
    // Several intervals may have a part of one block.
    let mut told = BTreeSet::new();
    report.damage.retain(|one| told.insert((one.file.clone(), one.offset, one.what.clone())));
    Ok(report)
}

fn check_space(device: &dyn Device, report: &mut Report) -> Result<()> {
    let Some(space) = open(device)? else { return Ok(()) };
    report.persisted = header(&space)?.persisted;
    // The greatest key of the intervals before.
    let mut before: Option<Vec<u8>> = None;
    for interval in intervals(&space) {
        let examined = examine(&space, &interval, &mut before, report);
        examined.or_else(|error| report.note(error))?;
    }
    // Not needed, but the next opening would read it.
    check_index(device, &space).or_else(|error| report.note(error))
}

fn check_index(device: &dyn Device, space: &Offline) -> Result<()> {
    let wanted = Wanted { life: space.life(), space_bytes: space.len() };
    let extents = space.extents(StoreHeader::BYTES as u64..space.len());
    let reading = stored_index::Reading::begin(device, wanted, extents)?;
    reading.map_or(Ok(0), stored_index::Reading::check).map(drop)
}

/// Opens the space of the store in `device`; `None` if none was made yet.
pub(crate) fn open(device: &dyn Device) -> Result<Option<Offline>> {
    if is_vacant(device)? {
        return Ok(None);
    }
    let space = Offline::open(device).map_err(from_space)?;
    Ok((!space.is_empty()).then_some(space))
}

/// Returns whether no store was made in `device` yet: a store that a crash interrupted while it was
/// made has no data.
///
/// # Errors
/// [`Error::Corruption`] if there are data, or the index of a store that was closed, but no
/// superblock.
pub(crate) fn is_vacant(device: &dyn Device) -> Result<bool> {
    if device.exists(SUPERBLOCK)? {
        return Ok(false);
    }
    // A close stores the index, and so of a store that was made.
    let what = match device.exists(DATA)? && device.open(DATA, Mode::Read)?.len()? > 0 {
        true => "the superblock is missing, but the store has data",
        false if device.exists(stored_index::FILE)? => {
            "the superblock is missing, but the store has an index"
        }
        false => return Ok(true),
    };
    Err(Corruption::new(what, 0).at(SUPERBLOCK, 0).into())
}

/// Returns the header in front of all pairs.
pub(crate) fn header(space: &Offline) -> Result<StoreHeader> {
    let bytes = read(space, 0, (StoreHeader::BYTES as u64).min(space.len()))?;
    Ok(StoreHeader::decode(&bytes).map_err(|damage| damage.at(DATA, 0))?)
}

/// The place of an interval in the space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interval {
    pub(crate) begin: u64,
    pub(crate) end: u64,
}

/// All of them, as the tags of the extents say.
pub(crate) fn intervals(space: &Offline) -> Vec<Interval> {
    let header = StoreHeader::BYTES as u64;
    let mut intervals: Vec<Interval> = Vec::new();
    for extent in space.extents(header..space.len()) {
        let end = extent.offset + u64::from(extent.length);
        match intervals.last_mut() {
            Some(last) if extent.extent.tag() != START => last.end = end,
            _ => intervals.push(Interval { begin: extent.offset, end }),
        }
    }
    intervals
}

/// Bytes of the space.
pub(crate) fn read(space: &Offline, begin: u64, end: u64) -> Result<Vec<u8>> {
    space.read(begin, end - begin).map_err(from_space)
}

impl Report {
    fn note(&mut self, error: Error) -> Result<()> {
        match as_damage(error) {
            Error::Corruption(damage) => {
                self.damage.push(damage);
                Ok(())
            }
            other => Err(other),
        }
    }
}

/// Goes through an interval: its first pair's key is its least, and above all before (X2).
fn examine(
    space: &Offline,
    &Interval { begin, end }: &Interval,
    before: &mut Option<Vec<u8>>,
    report: &mut Report,
) -> Result<()> {
    let bytes = read(space, begin, end)?;
    let damaged = |damage: Corruption| Error::from(damage.at(DATA, begin));
    let wrong = |what: &str| damaged(Corruption::new(what, 0));
    let mut fields = Reader::new(&bytes);
    let (mut first, mut greatest): (Option<&[u8]>, &[u8]) = (None, &[]);
    while !fields.is_empty() {
        let (_, pair) = Pair::take(&mut fields).map_err(damaged)?;
        if pair.key < *first.get_or_insert(pair.key) {
            return Err(wrong("an interval's first pair has not its least key"));
        }
        greatest = greatest.max(pair.key);
        report.pairs += 1;
        report.pair_bytes += (pair.key.len() + pair.value.map_or(0, <[u8]>::len)) as u64;
    }
    if let (Some(first), Some(before)) = (first, &before)
        && first <= before.as_slice()
    {
        return Err(wrong("an interval does not begin behind the one before it"));
    }
    report.intervals += 1;
    *before = Some(greatest.to_vec());
    Ok(())
}
