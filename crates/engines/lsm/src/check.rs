//! Offline verification of everything that a store has on a device.

use std::sync::Arc;

use codec::SeqNo;
use device::Device;
use engine::{Corruption, Error, Result};
use memory_budget::MemoryBudget;

use lsm_tree::cache::{NoCache, PieceCache};
use lsm_tree::edit::Edit;
use lsm_tree::entry::{EntryCursor, Target};
use lsm_tree::range_deletes::RangeDeletes;
use lsm_tree::table::{LocalTables, Properties, Reading, Table, TableCursor, TableStore, hash};
use lsm_tree::version::{Change, LEVELS, Version};

/// Bytes of one read.
const READ_BYTES: u64 = 256 << 10;

/// The result of [`check`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Each piece that differs from the written one, with its place.
    pub damage: Vec<Corruption>,
    /// The numbers of tables that a crash left of a flush or a compaction; harmless, and gone after
    /// the next opening.
    pub leftover: Vec<u64>,
    /// Every write up to this is in tables.
    pub persisted: SeqNo,
    /// The newest write of which anything is in them, above that.
    pub newest: SeqNo,
    /// Tables.
    pub tables: u64,
    /// Versions in them.
    pub entries: u64,
    /// Bytes of their keys and values.
    pub raw_bytes: u64,
    /// Range deletes that the manifest has.
    pub range_deletes: u64,
}

impl Report {
    /// Returns whether the store can be opened, and everything in it read.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Reads every file of the store in `device` and verifies every checksum. Changes nothing. The
/// store must not be open.
///
/// # Errors
/// Only the storage's own; damage is in the report.
pub fn check(device: &Arc<dyn Device>) -> Result<Report> {
    check_with(device, &LocalTables::on(Arc::clone(device)))
}

/// Checks, as [`check`] does, a store that was opened by [`crate::Store::open_with`] with `tables`.
///
/// # Errors
/// As [`check`].
pub fn check_with(device: &Arc<dyn Device>, tables: &Arc<dyn TableStore>) -> Result<Report> {
    let mut report = Report::default();
    let found = match edits::read::<Edit>(&**device) {
        Err(Error::Corruption(damage)) => {
            report.damage.push(damage);
            return Ok(report);
        }
        found => found?,
    };
    let Some((_, contents)) = found else { return Ok(report) };
    report.persisted = contents.committed.persisted;
    let budget = Arc::new(MemoryBudget::new(0));
    let cache: Arc<dyn PieceCache> = NoCache::new(&budget);
    let mut change = Change::default();
    let deletes = RangeDeletes::of(&contents.edit.range_deletes, &budget);
    report.range_deletes = contents.edit.range_deletes.len() as u64;
    report.newest = report.persisted.max(deletes.last());
    for (level, summary) in &contents.edit.added {
        let opened = Table::open(summary.clone(), tables, &cache);
        match opened.and_then(|table| examine(&table, &deletes, &mut report).map(|()| table)) {
            Ok(table) => change.added.push((*level, table)),
            Err(Error::Corruption(damage)) => report.damage.push(damage),
            Err(error) => return Err(error),
        }
    }
    let version = Version::default().after(&change);
    report.damage.extend((1..LEVELS).filter_map(|level| overlap(&version, level)));
    for number in tables.list()? {
        if !contents.edit.added.iter().any(|(_, summary)| summary.id.number == number) {
            report.leftover.push(number);
        }
    }
    Ok(report)
}

/// Walks over a whole table.
fn examine(table: &Arc<Table>, deletes: &RangeDeletes, report: &mut Report) -> Result<()> {
    table.source().check()?;
    let metadata = table.metadata()?;
    let wrong = |what: String| {
        let (file, offset) = table.source().place_of_metadata();
        Error::Corruption(Corruption { what, file, offset, newer: None })
    };
    let expected = &table.summary().properties;
    if metadata.properties != table.summary().written() {
        return Err(wrong("a table's properties are not those in the manifest".to_owned()));
    }
    let mut found = Properties {
        oldest: SeqNo::MAX,
        swept: expected.swept,
        first_memtable: expected.first_memtable,
        last_memtable: expected.last_memtable,
        fragments: expected.fragments.clone(),
        ..Properties::default()
    };
    let mut last: Option<(Vec<u8>, SeqNo)> = None;
    let mut cursor = TableCursor::new(Arc::clone(table), Reading::Ahead(READ_BYTES));
    cursor.seek(Target::START)?;
    while let Some(entry) = cursor.entry() {
        if let Some((key, seqno)) = &last
            && entry.target() <= (Target { key, seqno: *seqno })
        {
            return Err(wrong(format!("entry {} is out of order", found.entries)));
        }
        if !metadata.filter.may_contain(hash(entry.key)) {
            return Err(wrong(format!("the filter denies the key of entry {}", found.entries)));
        }
        let hider = deletes.next_above(entry.key, entry.seqno);
        if hider.is_some_and(|hider| hider <= expected.swept) {
            return Err(wrong(format!("a range delete hides entry {}", found.entries)));
        }
        if found.entries == 0 {
            found.smallest = entry.key.to_vec();
        }
        found.entries += 1;
        found.tombstones += u64::from(entry.value.is_none());
        found.raw_bytes += entry.bytes() as u64;
        found.oldest = found.oldest.min(entry.seqno);
        found.newest = found.newest.max(entry.seqno);
        last = Some((entry.key.to_vec(), entry.seqno));
        cursor.next()?;
    }
    found.largest = last.map(|(key, _)| key).unwrap_or_default();
    if found != *expected {
        return Err(wrong("a table's entries are not what its properties say".to_owned()));
    }
    report.tables += 1;
    report.newest = report.newest.max(found.newest).max(found.swept);
    report.entries += found.entries;
    report.raw_bytes += found.raw_bytes;
    Ok(())
}

/// Returns the damage if two tables of a level overlap (V2).
fn overlap(version: &Version, level: usize) -> Option<Corruption> {
    version.level(level).windows(2).find_map(|pair| {
        let [lower, upper] = pair else { return None };
        let (lower, upper) = (lower.summary(), upper.summary());
        (lower.properties.largest >= upper.properties.smallest).then(|| {
            let (lower, upper) = (lower.id.number, upper.id.number);
            let what = format!("tables {lower} and {upper} of level {level} overlap");
            Corruption::new(what, 0).at(edits::SUPERBLOCK, 0)
        })
    })
}
