//! Compaction: the tables of a job, merged into tables of the level below.
//!
//! 1. A single table that overlaps with nothing below, and has no tombstones, moves: only the
//!    manifest changes. If range deletes hide all of the job's tables, the tables are only dropped.
//! 2. Otherwise the tables are merged into new ones ([`CompactionJob`]).
//! 3. The new tables are durable, with their names; then one edit removes the old ones and adds
//!    them.
//!
//! Until 3 nothing has changed. Tables that a failure leaves are removed immediately or when the
//! store is opened. So are the tables of a job that yields (`idle`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{Error, Result};
use lsm_tree::compaction::{
    Compacted, CompactionContext, CompactionJob, Control, OVERLAP_TABLES_MAX, Pins,
};
use lsm_tree::plan::compaction::Job;
use lsm_tree::table::{Summary, Table};
use lsm_tree::version::Change;
use workers::StopToken;

use crate::store::Shared;

impl Shared {
    /// Does a job. Errors leave the version unchanged, unless the commit failed for good; then the
    /// new tables stay until the store is opened.
    pub(crate) fn compact(self: &Arc<Self>, job: Job, stop: &StopToken) -> Result<()> {
        let removed = job.removed();
        if job.drops {
            self.commit(Change { removed, added: Vec::new() }, &[], SeqNo::ZERO)?;
            self.background.counts.drops.fetch_add(1, Relaxed);
            return Ok(());
        }
        if let Some(table) = job.moves()
            && !self.overlaps_too_much(&table, job.to + 1)
        {
            self.commit(Change { removed, added: vec![(job.to, table)] }, &[], SeqNo::ZERO)?;
            self.background.counts.moves.fetch_add(1, Relaxed);
            return Ok(());
        }
        let tables = match self.merge(&job, stop)? {
            Compacted::Done { tables } => tables,
            Compacted::Yielded { written } => {
                self.note_idle_job(&job, written, false);
                return Ok(());
            }
        };
        let written = tables.iter().map(|summary| summary.stored_bytes).sum();
        let added = self.open_merged(&tables, job.to)?;
        self.background.counts.note_compacted(job.bytes(), written);
        self.commit_or_abandon(Change { removed, added }, &[], SeqNo::ZERO)?;
        self.background.counts.compactions.fetch_add(1, Relaxed);
        if job.yields {
            self.note_idle_job(&job, written, true);
        }
        Ok(())
    }

    /// Step 2.
    fn merge(&self, job: &Job, stop: &StopToken) -> Result<Compacted> {
        let state = self.state.load();
        let (version, gone) = (Arc::clone(&state.version), state.gone);
        drop(state);
        let ahead_bytes = self.memory_split().job_bytes / 2;
        let options = self.table_options(job.to);
        let pins = Pins::of(&self.host.sequence, job.newest().max(options.sweep.newest()));
        let compaction = CompactionJob::new(job, &version, pins, options, ahead_bytes);
        compaction.run(CompactionContext {
            tables: &*self.tables.store,
            budget: &self.host.memory,
            next_id: &mut || self.tables.new_id(&self.host),
            control: &mut || {
                if stop.is_stopping() {
                    return Err(Error::Closed);
                }
                Ok(match job.yields && self.has_to_yield(gone) {
                    true => Control::Yield,
                    false => Control::GoOn,
                })
            },
        })
    }

    /// Opens new tables for a level, or removes all of them.
    fn open_merged(&self, tables: &[Summary], level: usize) -> Result<Vec<(usize, Arc<Table>)>> {
        let open = |summary: &Summary| -> Result<(usize, Arc<Table>)> {
            Ok((level, self.tables.open(summary.clone())?))
        };
        let opened: Result<_> = tables.iter().map(open).collect();
        if opened.is_err() {
            for summary in tables {
                let _ = self.tables.store.remove(summary.id.number);
            }
        }
        opened
    }

    /// Returns whether a table is better cut than moved, because of its overlap with a level.
    fn overlaps_too_much(&self, table: &Table, level: usize) -> bool {
        let properties = &table.summary().properties;
        let state = self.state.load();
        let below = state.version.overlapping(level, &properties.smallest, &properties.largest);
        let bytes: u64 = below.iter().map(|table| table.summary().stored_bytes).sum();
        bytes > (OVERLAP_TABLES_MAX + 2) * self.memory_split().table_bytes
    }
}
