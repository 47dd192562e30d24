//! Offline verification of everything that a store has on a device.

use device::Device;
use engine::{Corruption, Error, Result, SeqNo, Superblock};

use crate::open::{decode_committed, snapshot_numbers};
use crate::snapshot::format::{self, SUPERBLOCK, SUPERBLOCK_KIND};
use crate::snapshot::reader;

/// The findings of [`check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each piece that is not what was written, with its place.
    pub damage: Vec<Corruption>,
    /// Snapshot files that a crash left of a flush; harmless, and gone after the next opening.
    pub leftover: Vec<String>,
    /// Every write up to this is in the snapshot.
    pub persisted: SeqNo,
    /// Pairs in the snapshot.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub pair_bytes: u64,
}

impl Report {
    /// Whether the store can be opened.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Reads every file of the store in `device` and verifies every checksum. Changes nothing. The
/// store must not be open.
///
/// # Errors
/// Only the storage's own; damage is in the report.
pub fn check(device: &dyn Device) -> Result<Report> {
    let mut report = Report::default();
    match examine(device, &mut report) {
        Err(Error::Corruption(damage)) => report.damage.push(damage),
        other => other?,
    }
    Ok(report)
}

fn examine(device: &dyn Device, report: &mut Report) -> Result<()> {
    let numbers = snapshot_numbers(device)?;
    if !device.exists(SUPERBLOCK)? {
        return if numbers.is_empty() {
            Ok(())
        } else {
            let what = "the superblock is missing, but the store has snapshots";
            Err(Corruption::new(what, 0).at(SUPERBLOCK, 0).into())
        };
    }
    let committed = decode_committed(&Superblock::open(device, SUPERBLOCK, SUPERBLOCK_KIND)?)?;
    report.persisted = committed.persisted;
    let current = committed.snapshot.map(|summary| summary.identity.number);
    let others = numbers.into_iter().filter(|number| Some(*number) != current);
    report.leftover = others.map(format::file_name).collect();
    let Some(summary) = &committed.snapshot else { return Ok(()) };
    reader::read(device, summary, committed.persisted, &mut |key, value| {
        report.pairs += 1;
        report.pair_bytes += (key.len() + value.len()) as u64;
    })
}
