//! Offline verification of everything that a store has on a device.

use std::sync::Arc;

use codec::{Corruption, Reader, SeqNo};
use device::Device;
use engine::{Error, Result};
use flexspace::space::{self, Offline};

use crate::error::{DATA, from_space};
use crate::index::START;
use crate::pair::{Pair, StoreHeader};

/// What [`check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each piece that is not what was written, with its place.
    pub damage: Vec<Corruption>,
    /// Every write up to this is in the store's files.
    pub persisted: SeqNo,
    /// Intervals.
    pub intervals: u64,
    /// Pairs in them, with those that later ones replace.
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

/// Reads all that the store in `device` refers to, and verifies it. Changes nothing. The store must not
/// be open.
///
/// # Errors
/// Only the storage's own; damage is in the report.
pub fn check(device: &Arc<dyn Device>) -> Result<Report> {
    let mut report = Report::default();
    let space = match Offline::open(&**device) {
        Err(space::Error::Device(device::Error::NotFound { .. })) => return Ok(report),
        Err(error) => {
            report.note(from_space(error))?;
            return Ok(report);
        }
        Ok(space) => space,
    };
    if space.is_empty() {
        return Ok(report);
    }
    let header = StoreHeader::BYTES as u64;
    let read = space.read(0, header.min(space.len())).map_err(from_space);
    let decoded = read.and_then(|bytes| {
        StoreHeader::decode(&bytes).map_err(|damage| Error::from(damage.at(DATA, 0)))
    });
    match decoded {
        Ok(found) => report.persisted = found.persisted,
        Err(error) => {
            report.note(error)?;
            return Ok(report);
        }
    }
    let mut begins: Vec<u64> = Vec::new();
    for extent in space.extents(header..space.len()) {
        if extent.extent.tag() == START || begins.is_empty() {
            begins.push(extent.offset);
        }
    }
    let ends = begins.iter().skip(1).copied().chain([space.len()]);
    // The greatest key of the intervals before.
    let mut before: Option<Vec<u8>> = None;
    for (begin, end) in begins.iter().copied().zip(ends) {
        let examined = examine(&space, begin, end, &mut before, &mut report);
        if let Err(error) = examined {
            report.note(error)?;
        }
    }
    Ok(report)
}

impl Report {
    fn note(&mut self, error: Error) -> Result<()> {
        match error {
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
    begin: u64,
    end: u64,
    before: &mut Option<Vec<u8>>,
    report: &mut Report,
) -> Result<()> {
    let bytes = space.read(begin, end - begin).map_err(from_space)?;
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
