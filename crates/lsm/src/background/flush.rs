//! Flush: a sealed memtable becomes a table of Level 0.
//!
//! 1. The oldest memtable that waits is written to a table: of each key what [`Retention`] keeps.
//!    The table is durable, with its name.
//! 2. The journal reaches the newest write in it (law L3).
//! 3. The manifest's edit is committed: the table is in Level 0, and everything up to the next
//!    memtable's floor is persisted, as far as the journal reached.
//! 4. The next state has the table, and the memtable no more.
//!
//! A failure in 1 or 2 leaves the memtable where it is; a later flush tries again if it was the
//! journal's, and otherwise the store turns read-only (law L5). A failure in 3 leaves it open
//! whether the edit stands: the table stays where it is.

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

use codec::SeqNo;
use engine::{Error, MemoryBudget, Result};

use super::retention::Retention;
use crate::entry::{EntryCursor, Target};
use crate::manifest::Edit;
use crate::memtable::{Memtable, MemtableCursor};
use crate::store::{Shared, stops_writes};
use crate::table::{Summary, Table, TableBuilder, TableId, TableOptions, TableStore};
use crate::version::Change;

/// Where tables are written to, and how.
pub(crate) struct Output<'a> {
    pub(crate) tables: &'a dyn TableStore,
    pub(crate) options: TableOptions,
    pub(crate) budget: &'a Arc<MemoryBudget>,
}

impl Shared {
    /// Makes everything durable that was applied before the call.
    pub(crate) fn flush(self: &Arc<Self>) -> Result<()> {
        self.health.check_writable()?;
        // What was applied before is in memtables of this state. This waits for no write that is
        // under way: it may be one that waits for a flush, and this the thread to do that.
        let state = self.open_state()?;
        let active = state.active().ok_or(Error::Closed)?;
        // An empty memtable holds nothing, but its floor may be old: nothing was written since.
        if !active.lift_if_empty(|| self.host.sequence.visible()) {
            self.seal(active);
        }
        drop(state);
        self.flush_sealed()?;
        let _flusher = self.flusher.lock();
        self.health.check_writable()?;
        let floor =
            self.open_state()?.memtables.last().map_or(SeqNo::ZERO, |oldest| oldest.floor());
        self.stopping(self.persist_up_to(floor))
    }

    /// Everything up to the floor of the oldest memtable is in tables: the manifest says so from
    /// now on.
    fn persist_up_to(&self, floor: SeqNo) -> Result<()> {
        if floor <= self.persisted() {
            return Ok(());
        }
        let reached = self.host.barrier.reach(floor)?;
        self.commit(Change::default(), None, reached.min(floor))
    }

    /// Flushes all memtables that wait, the oldest first.
    pub(crate) fn flush_sealed(self: &Arc<Self>) -> Result<()> {
        let _flusher = self.flusher.lock();
        let flushed = self.stopping((|| {
            while self.flush_oldest()? {}
            Ok(())
        })());
        // The budget may have become less since something was cached.
        self.cache.shrink();
        self.schedule_compactions();
        flushed
    }

    /// Stops all later writes if this failed for what these files did.
    fn stopping(&self, done: Result<()>) -> Result<()> {
        if let Err(error) = &done
            && stops_writes(error)
        {
            self.health.fail(error);
        }
        done
    }

    /// Flushes the memtable that waits longest; answers whether there was one.
    fn flush_oldest(&self) -> Result<bool> {
        self.health.check_writable()?;
        let state = self.state.load_full();
        let Some((memtable, next)) = state.oldest_sealed() else { return Ok(false) };
        // Whoever put another in its place may not have sealed it yet, and somebody be writing to
        // it.
        memtable.seal();
        let id = self.new_table();
        let output = Output {
            tables: &*self.tables,
            options: self.options.tables(&self.memory_split()),
            budget: &self.host.memory,
        };
        let below = &state.version;
        let is_below = |key: &[u8]| {
            below.level(0).iter().any(|table| table.covers(key)) || below.is_below(0, key)
        };
        let summary = self.write_memtable(memtable, SeqNo::MAX, id, &output, &is_below)?;
        let newest = memtable.newest();
        let reached = match self.host.barrier.reach(newest.max(next.floor())) {
            Ok(reached) => reached,
            Err(error) => {
                if summary.is_some() {
                    abandon(&*self.tables, id);
                }
                return Err(error);
            }
        };
        // Below the newest write of the table nothing is missing in the journal: numbers above what
        // it holds are of writes that were refused, or are not journaled.
        let persisted = next.floor().min(reached.max(newest));
        let mut change = Change::default();
        if let Some(summary) = summary {
            Self::count(&self.background.flushed_bytes, summary.stored_bytes);
            change.added.push((0, Table::open(summary, &self.tables, &self.cache)?));
        }
        self.commit(change, Some(memtable.id()), persisted)?;
        Self::count(&self.background.flushes, 1);
        Ok(true)
    }

    /// Writes what is in `memtable` up to `upto` to a table: durable, with its name. `None` if
    /// nothing of it is kept. `is_below` says whether there may be older versions of a key. An
    /// error leaves no table behind that this call began, and does nothing to one that was there.
    pub(crate) fn write_memtable(
        &self,
        memtable: &Arc<Memtable>,
        upto: SeqNo,
        id: TableId,
        output: &Output<'_>,
        is_below: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Summary>> {
        let mut builder = None;
        let built = self.build(memtable, upto, id, output, is_below, &mut builder);
        let Some(builder) = builder else { return built.map(|()| None) };
        let finished = built.and_then(|()| builder.finish());
        let durable = finished.and_then(|summary| {
            output.tables.sync_names()?;
            Ok(Some(summary))
        });
        if durable.is_err() {
            abandon(output.tables, id);
        }
        durable
    }

    /// Fills a table, which begins with the first entry that is kept.
    fn build(
        &self,
        memtable: &Arc<Memtable>,
        upto: SeqNo,
        id: TableId,
        output: &Output<'_>,
        is_below: &dyn Fn(&[u8]) -> bool,
        builder: &mut Option<TableBuilder>,
    ) -> Result<()> {
        let sequence = &self.host.sequence;
        let is_seen = |older, newer| sequence.is_seen(older, newer);
        let mut retention = Retention::new(&is_seen, is_below);
        let mut cursor = MemtableCursor::new(Arc::clone(memtable));
        let memtables = (memtable.id(), memtable.id());
        cursor.seek(Target::START)?;
        let mut entries = 0_u64;
        while let Some(entry) = cursor.entry() {
            entries += 1;
            if entries.is_multiple_of(CHECK_EVERY) {
                self.health.check_open()?;
            }
            if entry.seqno <= upto {
                retention.offer(&entry, &mut |kept| {
                    if builder.is_none() {
                        let Output { tables, options, budget } = output;
                        let began = TableBuilder::create(*tables, id, memtables, options, budget);
                        *builder = Some(began?);
                    }
                    builder.as_mut().map_or(Ok(()), |builder| builder.push(kept))
                })?;
            }
            cursor.next()?;
        }
        Ok(())
    }

    /// Commits a change of tables, and makes the next state. A failure stops all later commits.
    pub(crate) fn commit(
        &self,
        change: Change,
        flushed: Option<u64>,
        persisted: SeqNo,
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        // Whoever held the lock before may have failed, and nothing is committed after that (N3).
        self.health.check_writable()?;
        let manifest = manifest.as_mut().ok_or(Error::Closed)?;
        // Only whoever holds the manifest changes the version.
        let old = Arc::clone(&self.state.load().version);
        let version = old.after(&change);
        let summarize = |(level, table): (usize, &Arc<Table>)| (level, table.summary().clone());
        let added = change.added.iter().map(|(level, table)| summarize((*level, table)));
        let edit = Edit { removed: change.removed.clone(), added: added.collect() };
        let committed = manifest.commit(&edit, persisted, || Edit {
            removed: Vec::new(),
            added: version.tables().map(summarize).collect(),
        });
        // While the lock is held, so that whoever waits for it learns of a failure.
        self.stopping(committed)?;
        self.persisted.fetch_max(manifest.persisted().get(), Release);
        let install = self.install.lock();
        let next = self.state.load().with_version(version, flushed);
        let generation = next.generation;
        self.state.store(Arc::new(next));
        drop(install);
        self.stands.leave_all_but(generation);
        let is_gone = |(level, number): &(usize, u64)| {
            // A table that only moves to another level stays.
            !change.added.iter().any(|(_, table)| table.summary().id.number == *number)
                && old.level(*level).iter().any(|table| table.summary().id.number == *number)
        };
        for (level, number) in change.removed.iter().filter(|removed| is_gone(removed)) {
            let tables = old.level(*level).iter();
            tables
                .filter(|table| table.summary().id.number == *number)
                .for_each(|table| table.doom());
        }
        Ok(())
    }
}

/// Removes a table that nothing names. What cannot be removed now goes when the store is opened.
fn abandon(tables: &dyn TableStore, id: TableId) {
    let _ = tables.remove(id.number);
}

/// Entries after which long work looks whether the store was closed.
pub(crate) const CHECK_EVERY: u64 = 1024;
