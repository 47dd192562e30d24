//! Compaction: the tables of a job, merged into tables of the level below.
//!
//! 1. A single table that overlaps with nothing below, and has no tombstones, moves: only the
//!    manifest changes.
//! 2. Otherwise all entries of the job are merged in order. The versions of each key that
//!    [`Retention`] keeps go to a new table. A table ends at its size, or if it overlaps with too
//!    much of the level that it goes to next, and never between two versions of a key (V2). If
//!    range deletes hide all of the job's tables, nothing is read: the tables are only dropped.
//! 3. The new tables are durable, with their names; then one edit removes the old ones and adds
//!    them.
//!
//! Until 3 nothing has changed. Tables that a failure leaves are removed immediately or when the
//! store is opened. So are the tables of a job that yields (`idle`).

use std::sync::Arc;

use codec::SeqNo;
use engine::{Error, Result};
use workers::StopToken;

use super::flush::CHECK_EVERY;
use super::plan_compaction::Job;
use super::retention::Retention;
use crate::entry::{Entry, EntryCursor, Target};
use crate::merge::Merged;
use crate::store::Shared;
use crate::table::{LevelCursor, Reading, Summary, Table, TableBuilder, TableCursor, TableOptions};
use crate::version::{Change, Version};

/// Bytes of one read of a walk over a table.
const AHEAD_BYTES_MIN: u64 = 4 << 10;
const AHEAD_BYTES_MAX: u64 = 256 << 10;

/// Tables whose bytes a new table may overlap with, two levels below the job, before it ends: it is
/// merged with these when it goes there.
const OVERLAP_TABLES_MAX: u64 = 10;

/// The overlap of the table that is being written with the level two below the job.
struct Overlap {
    version: Arc<Version>,
    level: usize,
    /// The first table that is not wholly before the last key.
    index: usize,
    bytes: u64,
}

impl Overlap {
    /// Moves to `key`; returns the bytes of the tables that a table up to there overlaps with.
    fn pass(&mut self, key: &[u8]) -> u64 {
        let tables = self.version.level(self.level).iter().skip(self.index);
        let passed = tables.take_while(|table| table.summary().properties.largest.as_slice() < key);
        for table in passed {
            self.index += 1;
            self.bytes += table.summary().stored_bytes;
        }
        self.bytes
    }
}

/// The tables that a job has written so far.
struct Outputs<'a> {
    shared: &'a Shared,
    options: TableOptions,
    memtables: (u64, u64),
    builder: Option<TableBuilder>,
    overlap: Overlap,
    /// The numbers of all, the one that is being written included.
    numbers: Vec<u64>,
    done: Vec<Summary>,
}

/// How a job has ended that did not fail.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Done,
    /// Nothing of it counts.
    GaveWay,
}

impl Outputs<'_> {
    fn push(&mut self, entry: &Entry<'_>) -> Result<()> {
        let overlapping = self.overlap.pass(entry.key);
        let table_bytes = self.options.table_bytes;
        let is_full = self.builder.as_ref().is_some_and(|builder| {
            let is_large =
                builder.bytes() >= table_bytes || overlapping >= OVERLAP_TABLES_MAX * table_bytes;
            is_large && builder.last_key() != entry.key
        });
        if is_full {
            self.end_table()?;
        }
        if self.builder.is_none() {
            let id = self.shared.new_table();
            let (tables, budget) = (&*self.shared.tables, &self.shared.host.memory);
            let began = TableBuilder::create(tables, id, self.memtables, &self.options, budget);
            self.builder = Some(began?);
            self.overlap.bytes = 0;
            self.numbers.push(id.number);
        }
        self.builder.as_mut().map_or(Ok(()), |builder| builder.push(entry))
    }

    fn end_table(&mut self) -> Result<()> {
        if let Some(builder) = self.builder.take() {
            self.done.push(builder.finish()?);
        }
        Ok(())
    }

    /// The tables that are done, open, for a level.
    fn open(&self, level: usize) -> Result<Vec<(usize, Arc<Table>)>> {
        let Shared { tables, cache, .. } = self.shared;
        let open = |summary: &Summary| -> Result<(usize, Arc<Table>)> {
            Ok((level, Table::open(summary.clone(), tables, cache)?))
        };
        self.done.iter().map(open).collect()
    }

    /// Bytes that were written so far.
    fn written(&self) -> u64 {
        let done: u64 = self.done.iter().map(|summary| summary.stored_bytes).sum();
        done + self.builder.as_ref().map_or(0, TableBuilder::bytes)
    }

    /// Removes the tables that were begun; nothing names them.
    fn abandon(self) {
        drop(self.builder);
        for number in self.numbers {
            let _ = self.shared.tables.remove(number);
        }
    }
}

impl Shared {
    /// Does a job. Errors leave the version unchanged, unless the commit failed for good; then the
    /// new tables stay until the store is opened.
    pub(crate) fn compact(self: &Arc<Self>, job: Job, stop: &StopToken) -> Result<()> {
        let removed = job.removed();
        if job.drops {
            self.commit(Change { removed, added: Vec::new() }, &[], SeqNo::ZERO)?;
            Self::count(&self.background.drops, 1);
            return Ok(());
        }
        if let Some(table) = job.moves()
            && !self.overlaps_too_much(&table, job.to + 1)
        {
            self.commit(Change { removed, added: vec![(job.to, table)] }, &[], SeqNo::ZERO)?;
            Self::count(&self.background.moves, 1);
            return Ok(());
        }
        // Tables below may move further down meanwhile, and stay below.
        let version = Arc::clone(&self.state.load().version);
        let mut outputs = Outputs {
            shared: self,
            options: self.table_options(job.to),
            memtables: job.memtables(),
            builder: None,
            overlap: Overlap {
                version: Arc::clone(&version),
                level: job.to + 1,
                index: 0,
                bytes: 0,
            },
            numbers: Vec::new(),
            done: Vec::new(),
        };
        let opened = match self.merge_job(&job, &version, &mut outputs, stop) {
            Ok(Ended::Done) => outputs.open(job.to),
            Ok(Ended::GaveWay) => {
                self.note_idle_job(&job, outputs.written(), false);
                outputs.abandon();
                return Ok(());
            }
            Err(error) => Err(error),
        };
        let written = outputs.written();
        let added = match opened {
            Ok(added) => added,
            Err(error) => {
                outputs.abandon();
                return Err(error);
            }
        };
        Self::count(&self.background.compacted_read_bytes, job.bytes());
        Self::count(&self.background.compacted_bytes, written);
        self.commit_or_abandon(Change { removed, added }, &[], SeqNo::ZERO)?;
        Self::count(&self.background.compactions, 1);
        if job.gives_way {
            self.note_idle_job(&job, written, true);
        }
        Ok(())
    }

    /// Returns whether a table is better cut than moved, because of its overlap with a level.
    fn overlaps_too_much(&self, table: &Table, level: usize) -> bool {
        let properties = &table.summary().properties;
        let state = self.state.load();
        let below = state.version.overlapping(level, &properties.smallest, &properties.largest);
        let bytes: u64 = below.iter().map(|table| table.summary().stored_bytes).sum();
        bytes > (OVERLAP_TABLES_MAX + 2) * self.memory_split().table_bytes
    }

    fn merge_job(
        &self,
        job: &Job,
        version: &Version,
        outputs: &mut Outputs<'_>,
        stop: &StopToken,
    ) -> Result<Ended> {
        let gone = self.state.load().gone;
        let mut merged = Merged::new(cursors(job, self.memory_split().job_bytes));
        let is_seen = |older, newer| self.host.sequence.is_seen(older, newer);
        let is_below = |key: &[u8]| version.is_below(job.to, key);
        let sweep = outputs.options.sweep.clone();
        let mut retention = Retention::new(&is_seen, &is_below, &sweep);
        merged.seek(Target::START)?;
        let mut entries = 0_u64;
        while let Some(entry) = merged.entry() {
            if entries.is_multiple_of(CHECK_EVERY) {
                if stop.is_stopping() {
                    return Err(Error::Closed);
                }
                if job.gives_way && self.has_to_give_way(gone) {
                    return Ok(Ended::GaveWay);
                }
            }
            entries += 1;
            retention.offer(&entry, &mut |kept| outputs.push(kept))?;
            merged.next()?;
        }
        outputs.end_table()?;
        self.tables.sync_names()?;
        Ok(Ended::Done)
    }
}

/// Walks over the tables of a job, which together read half of its memory ahead.
fn cursors(job: &Job, job_bytes: u64) -> Vec<Box<dyn EntryCursor>> {
    let sources = if job.from == 0 { job.upper.len() + 1 } else { 2 };
    let at_once = (job_bytes / 2 / sources as u64).clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX);
    let reading = Reading::Ahead(at_once);
    let mut cursors: Vec<Box<dyn EntryCursor>> = Vec::new();
    if job.from == 0 {
        for table in &job.upper {
            cursors.push(Box::new(TableCursor::new(Arc::clone(table), reading)));
        }
    } else {
        cursors.push(Box::new(LevelCursor::new(Arc::new(job.upper.clone()), reading)));
    }
    cursors.push(Box::new(LevelCursor::new(Arc::new(job.lower.clone()), reading)));
    cursors
}
