//! Flush: sealed memtables become tables of Level 0.
//!
//! 1. The oldest memtable that waits is taken, and all sealed ones of its Drange. If little of them
//!    is kept they are merged instead (`merge_memtables`), unless everything is to be durable.
//! 2. They are written to a table: for each key, the versions that [`Retention`] keeps. The table
//!    is durable, with its name. If there is very much, it becomes several tables, of successive
//!    keys.
//! 3. The journal reaches the newest write in it (law L3), and the newest write that a merge may
//!    have dropped (`state`, S4).
//! 4. The manifest's edit is committed: the table is in Level 0, and everything up to the least
//!    floor of the memtables that are left is persisted, as far as the journal reached.
//! 5. The next state has the table, and no longer the memtables.
//!
//! A failure leaves the memtables in place. If it was the journal's, or there was no room, a later
//! flush tries again, in the background after pauses that grow; meanwhile writes are taken as long
//! as memory has room for them (`admission.rs`). After any other failure the store turns read-only
//! (law L5). A failure in 4 leaves it open whether the edit counts, unless there was no room: the
//! table stays in place.
//!
//! # Invariants
//! - E1. A memtable is flushed after all that are older and may share a key with it. The oldest is
//!   flushed first, and a memtable that is passed over rests in a Drange that still exists, whose
//!   keys only memtables of the same Drange have (D2, S3).
//! - E2. All memtables of a Drange with several slots are flushed together, active ones included:
//!   writes alternate between them, so no order of tables would be the order of their versions. All
//!   of its slots change in one step, and the flush takes the memtables of that very state: of two
//!   writes of a key the later one is never in it without the earlier one.

use std::sync::Arc;

use codec::SeqNo;
use engine::{Error, GoOn, Result};
use memory_budget::MemoryBudget;
use sync::mutant;

use super::merge_memtables::walk;
use crate::memtable::Memtable;
use crate::planted::Planted;
use crate::state::State;
use crate::store::Shared;
use lsm_tree::compaction::CHECK_EVERY;
use lsm_tree::edit::Edit;
use lsm_tree::entry::{Entry, EntryCursor, Target};
use lsm_tree::range_deletes::RangeDelete;
use lsm_tree::retention::Retention;
use lsm_tree::table::ObsoleteFiles;
use lsm_tree::table::{Summary, Table, TableBuilder, TableId, TableOptions, TableStore};
use lsm_tree::version::Change;

/// The destination of tables, and how they are written.
pub(crate) struct Output<'a> {
    pub(crate) tables: &'a dyn TableStore,
    pub(crate) options: TableOptions,
    pub(crate) budget: &'a Arc<MemoryBudget>,
    pub(crate) go_on: &'a GoOn<'a>,
}

/// Tables that are written in sequence.
struct Run<'a> {
    output: &'a Output<'a>,
    /// The least and the greatest id of the memtables.
    ids: (u64, u64),
    table_bytes_max: u64,
    builder: Option<TableBuilder>,
    begun: Vec<TableId>,
    done: Vec<Summary>,
}

impl Run<'_> {
    fn push(&mut self, entry: &Entry<'_>, new_table: &dyn Fn() -> TableId) -> Result<()> {
        let is_full = self.builder.as_ref().is_some_and(|builder| {
            builder.bytes() >= self.table_bytes_max && builder.last_key() != entry.key
        });
        if is_full {
            self.end_table()?;
        }
        if self.builder.is_none() {
            let (id, Output { tables, options, budget, .. }) = (new_table(), self.output);
            self.builder = Some(TableBuilder::create(*tables, id, self.ids, options, budget)?);
            self.begun.push(id);
        }
        self.builder.as_mut().map_or(Ok(()), |builder| builder.push(entry))
    }

    fn end_table(&mut self) -> Result<()> {
        if let Some(builder) = self.builder.take() {
            self.done.push(builder.finish()?);
        }
        Ok(())
    }
}

/// The memtables that a flush is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The one that waits longest, and all of its Drange; resting memtables stay in memory.
    WhatWaitsLongest,
    /// All that are sealed: none is merged.
    Everything,
}

impl Shared {
    /// Makes everything durable that was applied before the call.
    pub(crate) fn flush(self: &Arc<Self>) -> Result<()> {
        self.health.check_writable()?;
        let number = self.admission.flushes.begin();
        let flushed = self.flush_all();
        self.note_flush(number, &flushed);
        flushed
    }

    fn flush_all(self: &Arc<Self>) -> Result<()> {
        // All writes applied before are in memtables of this state. This waits for no write that is
        // under way.
        let actives = self.open_state()?.actives.clone();
        // An empty memtable holds nothing, but its floor may be old: nothing was written since.
        let is_empty =
            |active: &Arc<Memtable>| active.lift_if_empty(|| self.host.sequence.visible());
        let full: Vec<_> = actives.into_iter().filter(|active| !is_empty(active)).collect();
        self.stopping(self.persist_range_deletes())?;
        self.seal(&full);
        self.flush_sealed(Wanted::Everything)?;
        self.persist_floor()
    }

    /// Flushes all sealed memtables, and persists everything up to the writes that are left in
    /// memory.
    pub(super) fn flush_for_deletes(self: &Arc<Self>) -> Result<()> {
        self.flush_sealed(Wanted::Everything)?;
        self.persist_floor()
    }

    fn persist_floor(&self) -> Result<()> {
        // A memtable that was made for the flush has the number of the store's newest write as its
        // floor, and other stores may have written since: the journal of all would be kept for
        // that.
        for active in &self.open_state()?.actives {
            active.lift_if_empty(|| self.host.sequence.visible());
        }
        let _flusher = self.background.flusher.lock();
        self.health.check_writable()?;
        let state = self.open_state()?;
        let floor = state.floor_without(&[]);
        let must_reach = state.must_reach(floor);
        drop(state);
        self.stopping(self.persist_up_to(floor, must_reach))
    }

    /// Everything up to `floor` is in tables: the manifest says so from now on, once the journal
    /// has reached `must_reach`.
    fn persist_up_to(&self, floor: SeqNo, must_reach: SeqNo) -> Result<()> {
        if floor <= self.manifest.persisted() {
            return Ok(());
        }
        let reached = self.host.barrier.reach(must_reach)?;
        self.commit(Change::default(), &[], reached.min(floor))
    }

    /// Flushes or merges sealed memtables, the oldest first. Memtables sealed after the call has
    /// begun are left to the next call: with writers that fill memtables at the speed of the
    /// flushes there would be no end.
    pub(crate) fn flush_sealed(self: &Arc<Self>, wanted: Wanted) -> Result<()> {
        let _flusher = self.background.flusher.lock();
        let youngest = self.state.load().sealed.first().map_or(0, |memtable| memtable.id());
        let all = wanted == Wanted::Everything;
        let upto = if all { youngest } else { 0 };
        loop {
            let flushed = self.stopping(self.flush_next(upto));
            // The budget may have become less since something was cached.
            self.cache.shrink();
            self.cache.freed().release();
            self.schedule_compactions();
            let is_over = self.state.load().sealed.iter().all(|memtable| memtable.id() > upto);
            if !flushed? || is_over {
                return Ok(());
            }
        }
    }

    /// Stops all later writes if this failed because of the store's own files.
    pub(crate) fn stopping<T>(&self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done
            && error.stops_writes()
        {
            self.health.fail(error);
        }
        done
    }

    /// Flushes or merges the memtable that waits longest, and all of its Drange; those up to the id
    /// `upto` wait too, and are not merged. Returns whether there was one.
    pub(crate) fn flush_next(self: &Arc<Self>, upto: u64) -> Result<bool> {
        self.health.check_writable()?;
        let state = self.state.load_full();
        let waits = |memtable: &&Arc<Memtable>| memtable.id() <= upto || state.is_due(memtable);
        let mut waiting = state.sealed.iter().filter(waits);
        let oldest = mutant!(Planted::YoungestFlushedFirst, waiting.next_back(), waiting.next());
        let Some(oldest) = oldest.cloned() else { return Ok(false) };
        let unit = state.sealed_of(oldest.drange());
        // The thread that replaced these may not have sealed them yet, and a writer may be writing.
        unit.iter().for_each(|memtable| memtable.seal());
        let may_merge = oldest.id() > upto && state.dranges.has(oldest.drange());
        if may_merge && self.merge_memtables(&unit)? {
            return Ok(true);
        }
        if !oldest.is_one_of_many() {
            return self.flush_unit(&state, &unit).map(|()| true);
        }
        // E2. A writer may have sealed one slot of it since the state was loaded.
        let state = self.seal_where(&|active| active.drange() == oldest.drange());
        let unit = state.sealed_of(oldest.drange());
        unit.iter().for_each(|memtable| memtable.seal());
        self.flush_unit(&state, &unit).map(|()| true)
    }

    /// Writes sealed memtables to tables, which are in Level 0 from then on.
    fn flush_unit(&self, state: &State, unit: &[Arc<Memtable>]) -> Result<()> {
        let ids: Vec<u64> = unit.iter().map(|memtable| memtable.id()).collect();
        self.persist_range_deletes()?;
        let output = Output {
            tables: &*self.tables.store,
            options: self.table_options(0),
            budget: &self.host.memory,
            go_on: &|| Ok(()),
        };
        let below = &state.version;
        let is_below = |key: &[u8]| below.may_have(key);
        let summaries = self.write_memtables(unit, SeqNo::MAX, &output, &is_below)?;
        let newest = unit.iter().map(|memtable| memtable.newest()).max().unwrap_or(SeqNo::ZERO);
        let floor = state.floor_without(&ids);
        let numbers = summaries.iter().map(|summary| summary.id).collect::<Vec<_>>();
        let stored_bytes = summaries.iter().map(|summary| summary.stored_bytes).sum();
        let reached = self.host.barrier.reach(state.must_reach(newest.max(floor)));
        let ready = reached.and_then(|reached| {
            let open = |summary| Ok((0, self.tables.open(summary)?));
            Ok((reached, summaries.into_iter().map(open).collect::<Result<Vec<_>>>()?))
        });
        let (reached, added) = match ready {
            Ok(ready) => ready,
            Err(error) => {
                numbers.iter().for_each(|id| abandon(&*self.tables.store, *id));
                return Err(error);
            }
        };
        // Below the newest write of the table nothing is missing in the journal: numbers above its
        // end are of writes that were refused, or are not journaled.
        let persisted = floor.min(reached.max(newest));
        self.commit_or_abandon(Change { removed: Vec::new(), added }, &ids, persisted)?;
        self.background.counts.note_flush(stored_bytes);
        Ok(())
    }

    /// Writes the versions in `memtables` up to `upto` to tables: durable, with their names.
    /// Returns none if no version is kept. `is_below` says whether there may be older versions of a
    /// key. An error leaves no table that this call began, and does not affect an earlier one.
    pub(crate) fn write_memtables(
        &self,
        memtables: &[Arc<Memtable>],
        upto: SeqNo,
        output: &Output<'_>,
        is_below: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Vec<Summary>> {
        let ids = || memtables.iter().map(|memtable| memtable.id());
        let ids = (ids().min().unwrap_or(0), ids().max().unwrap_or(0));
        let split = self.memory_split();
        let table_bytes_max = 2 * split.table_bytes.max(split.memtable_bytes);
        let mut run = Run {
            output,
            ids,
            table_bytes_max,
            builder: None,
            begun: Vec::new(),
            done: Vec::new(),
        };
        let built = self.build(memtables, upto, is_below, &mut run);
        let durable = built.and_then(|()| {
            run.end_table()?;
            if run.done.is_empty() { Ok(()) } else { output.tables.sync_names() }
        });
        if let Err(error) = durable {
            drop(run.builder);
            run.begun.iter().for_each(|id| abandon(output.tables, *id));
            return Err(error);
        }
        Ok(run.done)
    }

    fn build(
        &self,
        memtables: &[Arc<Memtable>],
        upto: SeqNo,
        is_below: &dyn Fn(&[u8]) -> bool,
        run: &mut Run<'_>,
    ) -> Result<()> {
        let sequence = &self.host.sequence;
        let is_seen = |older, newer| sequence.is_seen(older, newer);
        let sweep = &run.output.options.sweep;
        let mut retention = Retention::new(&is_seen, is_below, sweep);
        let mut all = walk(memtables);
        all.seek(Target::START)?;
        let mut entries = 0_u64;
        while let Some(entry) = all.entry() {
            entries += 1;
            if entries.is_multiple_of(CHECK_EVERY) {
                self.health.check_open()?;
                (run.output.go_on)()?;
            }
            if entry.seqno <= upto {
                let new_id = || self.tables.new_id(&self.host);
                retention.offer(&entry, &mut |kept| run.push(kept, &new_id))?;
            }
            all.next()?;
        }
        Ok(())
    }

    /// Commits a change of tables, as [`Shared::commit`] does. If there was no room for that, new
    /// tables are removed again; tables that only move stay.
    pub(crate) fn commit_or_abandon(
        &self,
        change: Change,
        flushed: &[u64],
        persisted: SeqNo,
    ) -> Result<()> {
        let number = |(_, table): &(usize, Arc<Table>)| table.summary().id.number;
        let was_there = |number: &u64| change.removed.iter().any(|(_, old)| old == number);
        let new: Vec<u64> = change.added.iter().map(number).filter(|one| !was_there(one)).collect();
        let committed = self.commit(change, flushed, persisted);
        if committed.as_ref().is_err_and(Error::is_retryable) {
            new.iter().for_each(|number| abandon_number(&*self.tables.store, *number));
        }
        committed
    }

    /// Commits a change of tables, and makes the next state. A failure stops all later commits,
    /// unless there was no room for the edit ([`edits`], N3).
    pub(crate) fn commit(&self, change: Change, flushed: &[u64], persisted: SeqNo) -> Result<()> {
        self.commit_with(change, flushed, persisted, persisted)
    }

    /// Makes the files that opening has found durable.
    pub(crate) fn make_durable(&self) -> Result<()> {
        let mut manifest = self.manifest.lock();
        self.health.check_writable()?;
        self.stopping(manifest.as_mut().ok_or(Error::Closed)?.make_durable())
    }

    /// Commits a change as [`Shared::commit`] does, with the range deletes up to the number
    /// `deletes_upto`, which the journal has. If everything up to `persisted` is to be persisted,
    /// these are among them: each was in a state before any thread could report it as finished.
    pub(crate) fn commit_with(
        &self,
        change: Change,
        flushed: &[u64],
        persisted: SeqNo,
        deletes_upto: SeqNo,
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        // The thread that held the lock before may have failed, and nothing is committed after that
        // (N3).
        self.health.check_writable()?;
        let manifest = manifest.as_mut().ok_or(Error::Closed)?;
        // Only the thread that holds the manifest changes the version.
        let state = self.state.load_full();
        let old = Arc::clone(&state.version);
        let version = old.after(&change);
        let pending = state.deletes.pending.iter();
        let is_persisted = |one: &&Arc<RangeDelete>| one.seqno <= deletes_upto;
        let persisted_deletes: Vec<_> = pending.filter(is_persisted).cloned().collect();
        let summarize = |(level, table): (usize, &Arc<Table>)| (level, table.summary().clone());
        let added = change.added.iter().map(|(level, table)| summarize((*level, table)));
        let edit = Edit {
            removed: change.removed.clone(),
            added: added.collect(),
            range_deletes: persisted_deletes.clone(),
        };
        let is_gone = |(level, number): &(usize, u64)| {
            // A table that only moves to another level stays.
            !change.added.iter().any(|(_, table)| table.summary().id.number == *number)
                && old.level(*level).iter().any(|table| table.summary().id.number == *number)
        };
        let committed = manifest.commit(&edit, persisted, || Edit {
            removed: Vec::new(),
            added: version.tables().map(summarize).collect(),
            range_deletes: state
                .deletes
                .durable
                .iter()
                .chain(&persisted_deletes)
                .cloned()
                .collect(),
        });
        // While the lock is held, so that a thread that waits for it learns of a failure.
        self.stopping(committed)?;
        self.manifest.note_persisted(manifest.persisted());
        // No pair is kept from here until the next state is there; keys of the memtables that are
        // removed have other versions in its tables (A1 and A2 of `cache`).
        let changing = self.cache.pairs().change();
        for memtable in state.sealed.iter().filter(|one| flushed.contains(&one.id())) {
            memtable.each_key(&mut |key| changing.forget(key));
        }
        let install = self.state.install.lock();
        let budget = &self.host.memory;
        let present = mutant!(Planted::InstalledOverOthers, self.state.load_full(), state);
        let next = present.with_version(version, flushed, &persisted_deletes, budget);
        let generation = next.generation;
        let number = next.version.number();
        let (metadata_bytes, metadata_bytes_max) = next.version.metadata_bytes();
        let has_ingested = next.version.newest_ingested() > present.version.newest_ingested();
        if has_ingested || next.deletes.all.len() < present.deletes.all.len() {
            changing.forget_all();
        }
        self.state.store(Arc::new(next));
        changing.done(number);
        self.cache.note_metadata(metadata_bytes, metadata_bytes_max);
        drop(install);
        self.cache.fit_clocks();
        self.state.open_cursors.leave_all_but(generation);
        let files = Arc::clone(&self.tables.obsolete) as Arc<dyn ObsoleteFiles>;
        for (level, number) in change.removed.iter().filter(|removed| is_gone(removed)) {
            let tables = old.level(*level).iter();
            tables
                .filter(|table| table.summary().id.number == *number)
                .for_each(|table| table.delete_on_drop(&files));
        }
        Ok(())
    }
}

/// Removes a table that nothing names. If that fails, the next opening of the store removes it.
fn abandon(tables: &dyn TableStore, id: TableId) {
    abandon_number(tables, id.number);
}

fn abandon_number(tables: &dyn TableStore, number: u64) {
    let _ = tables.remove(number);
}
