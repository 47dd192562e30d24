//! A compaction as a value: the tables of a job, merged into tables of the level below. It runs
//! without a store, on any thread or in another process.
//!
//! All entries of the inputs are merged in order. The versions of each key that [`Retention`] keeps
//! go to a new table. A table ends at its size, or if it overlaps with too much of the level that
//! it goes to next, and never between two versions of a key (V2 of `version`).
//!
//! The new tables are durable, with their names, when the compaction ends. Until an edit names them
//! nothing has changed. The tables of a compaction that does not end are removed.

use std::sync::Arc;

use codec::SeqNo;
use engine::{Result, Sequence};
use memory_budget::{Account, MemoryBudget};
use sync::thread::yield_now;

use crate::entry::{Entry, EntryCursor, Target};
use crate::merge::Merged;
use crate::plan::compaction::Job;
use crate::retention::Retention;
use crate::table::{
    LevelCursor, Reading, Summary, Table, TableBuilder, TableCursor, TableId, TableOptions,
    TableStore,
};
use crate::version::{LEVELS, Version};

/// Bytes of one read of a walk over a table.
const AHEAD_BYTES_MIN: u64 = 4 << 10;
const AHEAD_BYTES_MAX: u64 = 256 << 10;
/// Entries between two calls of [`CompactionContext::control`].
pub const CHECK_EVERY: u64 = 1024;
/// Tables whose bytes a new table may overlap with, two levels below the job, before it ends: it is
/// merged with these when it goes there.
pub const OVERLAP_TABLES_MAX: u64 = 10;

/// The versions that snapshots show, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    /// The numbers of the snapshots, ascending.
    numbers: Vec<SeqNo>,
    /// Every later snapshot is at or above this number.
    horizon: SeqNo,
}

impl Pins {
    /// Returns the pins of a sequence now, for a compaction in which no version and no range delete
    /// has a number above `newest`. Waits for a snapshot that is being taken: it waits for writes
    /// that have numbers, and these wait for nothing (law L8).
    pub fn of(sequence: &Sequence, newest: SeqNo) -> Self {
        loop {
            if let Some(numbers) = sequence.pins_below(newest) {
                return Self::new(numbers, newest);
            }
            yield_now();
        }
    }

    /// Returns these pins: snapshots in any order, and a number that every later one is at or
    /// above.
    pub fn new(mut numbers: Vec<SeqNo>, horizon: SeqNo) -> Self {
        numbers.sort_unstable();
        Self { numbers, horizon }
    }

    /// Returns whether a snapshot, present or future, may be at or above `older` and below `newer`,
    /// so that it shows a version numbered `older` that `newer` replaces.
    pub fn are_between(&self, older: SeqNo, newer: SeqNo) -> bool {
        if older >= newer {
            return false;
        }
        let next = self.numbers.partition_point(|pin| *pin < older);
        newer > self.horizon || self.numbers.get(next).is_some_and(|pin| *pin < newer)
    }
}

/// The keys of the tables of a level, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The smallest and the largest key of each table, and its bytes on the device.
    tables: Vec<(Vec<u8>, Vec<u8>, u64)>,
}

impl Bounds {
    /// Returns the bounds of the tables of a level below Level 0 that overlap with these keys.
    fn of(version: &Version, level: usize, smallest: &[u8], largest: &[u8]) -> Self {
        let tables = version.overlapping(level, smallest, largest);
        let bounds = |table: &Arc<Table>| {
            let Summary { stored_bytes, properties, .. } = table.summary();
            (properties.smallest.clone(), properties.largest.clone(), *stored_bytes)
        };
        Self { tables: tables.iter().map(bounds).collect() }
    }

    /// Returns the bytes of memory that they take.
    fn memory(&self) -> u64 {
        let keys = |(smallest, largest, _): &(Vec<u8>, Vec<u8>, u64)| {
            smallest.capacity() + largest.capacity()
        };
        let keys: usize = self.tables.iter().map(keys).sum();
        (keys + self.tables.capacity() * size_of::<(Vec<u8>, Vec<u8>, u64)>()) as u64
    }

    /// Returns whether `key` is within the keys of one of the tables.
    fn have(&self, key: &[u8]) -> bool {
        let at = self.tables.partition_point(|(_, largest, _)| largest.as_slice() < key);
        self.tables.get(at).is_some_and(|(smallest, ..)| smallest.as_slice() <= key)
    }
}

/// A compaction: all that it needs to know besides the bytes of its tables.
#[derive(Clone, Debug)]
pub struct CompactionJob {
    /// The tables that are merged. The tables of each list are disjoint, and in order.
    pub inputs: Vec<Vec<Arc<Table>>>,
    /// The keys of each level below the new tables: it may have older versions of the job's keys.
    /// The new tables go to the first of these levels next, so a table ends before it overlaps with
    /// too much of it.
    pub below: Vec<Bounds>,
    /// The snapshots that keep versions.
    pub pins: Pins,
    /// The ids of the memtables that the entries came from.
    pub memtables: (u64, u64),
    /// How the new tables are built, with the range deletes: versions that these hide are left out.
    pub options: TableOptions,
    /// Bytes that the walks over the inputs read ahead, all in all.
    pub ahead_bytes: u64,
}

/// The surroundings in which a compaction runs.
pub struct CompactionContext<'a> {
    /// The place for the new tables.
    pub tables: &'a dyn TableStore,
    /// The budget that counts the memory of the compaction: the keys of the levels below, and the
    /// tables that are written.
    pub budget: &'a Arc<MemoryBudget>,
    /// Returns the id of the next table.
    pub next_id: &'a mut dyn FnMut() -> TableId,
    /// Called before the first entry, and then each [`CHECK_EVERY`] entries.
    ///
    /// # Errors
    /// The compaction ends with this error.
    pub control: &'a mut dyn FnMut() -> Result<Control>,
}

/// The next step of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// It continues.
    GoOn,
    /// It ends, and its tables are removed.
    Yield,
}

/// How a compaction has ended that did not fail.
#[derive(Debug)]
pub enum Compacted {
    /// The new tables are durable, with their names.
    Done {
        /// The new tables, in order.
        tables: Vec<Summary>,
    },
    /// Nothing of it counts. Its tables were removed.
    Yielded {
        /// Bytes that it wrote.
        written: u64,
    },
}

impl CompactionJob {
    /// Returns the compaction of a planned job of `version`. The new tables go to the level of the
    /// job. Tables of `version` below that level may move further down meanwhile, and stay below.
    pub fn new(
        job: &Job,
        version: &Version,
        pins: Pins,
        options: TableOptions,
        ahead_bytes: u64,
    ) -> Self {
        let claim = job.claim();
        let bounds = |level| Bounds::of(version, level, claim.smallest(), claim.largest());
        let inputs = match job.from {
            0 => job.upper.iter().map(|table| vec![Arc::clone(table)]).collect(),
            _ => vec![job.upper.clone()],
        };
        let lower = (!job.lower.is_empty()).then(|| job.lower.clone());
        Self {
            inputs: inputs.into_iter().chain(lower).collect(),
            below: (job.to + 1..LEVELS).map(bounds).collect(),
            pins,
            memtables: job.memtables(),
            options,
            ahead_bytes,
        }
    }

    /// Merges the inputs into new tables.
    ///
    /// # Errors
    /// The storage's; damage; those of [`CompactionContext::control`]. The tables that were begun
    /// are removed, as far as the storage can.
    pub fn run(&self, context: CompactionContext<'_>) -> Result<Compacted> {
        let CompactionContext { tables, budget, next_id, control } = context;
        let account = Arc::new(Account::new(budget));
        let _charge = account.charge(self.below.iter().map(Bounds::memory).sum());
        let mut outputs = Outputs {
            job: self,
            tables,
            budget,
            next_id,
            builder: None,
            passed: 0,
            overlapping: 0,
            numbers: Vec::new(),
            done: Vec::new(),
        };
        match self.merge(&mut outputs, control) {
            Ok(Control::GoOn) => Ok(Compacted::Done { tables: outputs.done }),
            Ok(Control::Yield) => {
                let written = outputs.written();
                outputs.abandon();
                Ok(Compacted::Yielded { written })
            }
            Err(error) => {
                outputs.abandon();
                Err(error)
            }
        }
    }

    fn merge(
        &self,
        outputs: &mut Outputs<'_>,
        control: &mut dyn FnMut() -> Result<Control>,
    ) -> Result<Control> {
        let mut merged = Merged::new(self.cursors());
        let is_seen = |older, newer| self.pins.are_between(older, newer);
        let is_below = |key: &[u8]| self.below.iter().any(|bounds| bounds.have(key));
        let mut retention = Retention::new(&is_seen, &is_below, &self.options.sweep);
        merged.seek(Target::START)?;
        let mut entries = 0_u64;
        while let Some(entry) = merged.entry() {
            if entries.is_multiple_of(CHECK_EVERY) && control()? == Control::Yield {
                return Ok(Control::Yield);
            }
            entries += 1;
            retention.offer(&entry, &mut |kept| outputs.push(kept))?;
            merged.next()?;
        }
        outputs.end_table()?;
        outputs.tables.sync_names()?;
        Ok(Control::GoOn)
    }

    /// Walks over the inputs.
    fn cursors(&self) -> Vec<Box<dyn EntryCursor>> {
        let read_bytes = self.ahead_bytes / self.inputs.len().max(1) as u64;
        let reading = Reading::Ahead(read_bytes.clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX));
        let cursor = |tables: &Vec<Arc<Table>>| -> Box<dyn EntryCursor> {
            match tables.as_slice() {
                [table] => Box::new(TableCursor::new(Arc::clone(table), reading)),
                _ => Box::new(LevelCursor::new(Arc::new(tables.clone()), reading)),
            }
        };
        self.inputs.iter().map(cursor).collect()
    }
}

/// The tables that a compaction has written so far.
struct Outputs<'a> {
    job: &'a CompactionJob,
    tables: &'a dyn TableStore,
    budget: &'a Arc<MemoryBudget>,
    next_id: &'a mut dyn FnMut() -> TableId,
    builder: Option<TableBuilder>,
    /// The first table of the next level that is not wholly before the last key.
    passed: usize,
    /// Bytes of the tables of the next level that the table overlaps with that is being written.
    overlapping: u64,
    /// The numbers of all, the one that is being written included.
    numbers: Vec<u64>,
    done: Vec<Summary>,
}

impl Outputs<'_> {
    fn push(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.pass(entry.key);
        let table_bytes = self.job.options.table_bytes;
        let is_full = self.builder.as_ref().is_some_and(|builder| {
            let is_large = builder.bytes() >= table_bytes
                || self.overlapping >= OVERLAP_TABLES_MAX * table_bytes;
            is_large && builder.last_key() != entry.key
        });
        if is_full {
            self.end_table()?;
        }
        if self.builder.is_none() {
            let id = (self.next_id)();
            let CompactionJob { memtables, options, .. } = self.job;
            let began = TableBuilder::create(self.tables, id, *memtables, options, self.budget);
            self.builder = Some(began?);
            self.overlapping = 0;
            self.numbers.push(id.number);
        }
        self.builder.as_mut().map_or(Ok(()), |builder| builder.push(entry))
    }

    /// Counts the tables of the next level that a table up to `key` overlaps with.
    fn pass(&mut self, key: &[u8]) {
        let Some(next) = self.job.below.first() else { return };
        let tables = next.tables.iter().skip(self.passed);
        for (_, _, bytes) in tables.take_while(|(_, largest, _)| largest.as_slice() < key) {
            self.passed += 1;
            self.overlapping += bytes;
        }
    }

    fn end_table(&mut self) -> Result<()> {
        if let Some(builder) = self.builder.take() {
            self.done.push(builder.finish()?);
        }
        Ok(())
    }

    /// Bytes that were written so far.
    fn written(&self) -> u64 {
        let done: u64 = self.done.iter().map(|summary| summary.stored_bytes).sum();
        done + self.builder.as_ref().map_or(0, TableBuilder::bytes)
    }

    /// Removes the tables that were begun; nothing names them.
    fn abandon(self) {
        let Self { builder, numbers, tables, .. } = self;
        drop(builder);
        for number in numbers {
            let _ = tables.remove(number);
        }
    }
}
