//! A whole copy of the store in another directory, while it runs.
//!
//! 1. Pin the present, and take the state. Its tables are copied unchanged, and its memtables are
//!    written to tables, as of the pin. The copy has the range deletes up to the pin too.
//! 2. The journal reaches the newest write in the copy (law L3), and the copy gets a manifest and a
//!    superblock.

use std::collections::BTreeSet;
use std::sync::Arc;

use codec::SeqNo;
use device::Device;
use engine::{GoOn, Pin, Result};
use memory_budget::Account;

use crate::background::flush::Output;
use crate::memtable::Memtable;
use crate::open_manifest::Manifest;
use crate::state::State;
use crate::store::Shared;
use lsm_tree::edit::Edit;
use lsm_tree::table::{LocalTables, Summary, Table, TableStore};

/// Bytes that are copied at a time.
const COPY_BYTES: u64 = 256 << 10;

impl Shared {
    /// Writes an openable copy of all writes that were applied before the call to `into`, which has
    /// no store yet.
    pub(crate) fn checkpoint(&self, into: &Arc<dyn Device>, go_on: &GoOn<'_>) -> Result<()> {
        self.health.check_open()?;
        Manifest::check_absent(&**into)?;
        let (pin, state) = self.pinned_state()?;
        let tables = LocalTables::on(Arc::clone(into));
        let mut edit = Edit::default();
        for (level, table) in state.version.tables() {
            self.health.check_open()?;
            let stored_bytes = self.copy(table, &*tables, go_on)?;
            edit.added.push((level, Summary { stored_bytes, ..table.summary().clone() }));
        }
        let (options, budget) = (self.table_options(0), &self.host.memory);
        let output = Output { tables: &*tables, options, budget, go_on };
        let dranges: BTreeSet<u64> = state.memtables().map(|memtable| memtable.drange()).collect();
        for drange in dranges {
            let of_it = |memtable: &&Arc<Memtable>| memtable.drange() == drange;
            let unit: Vec<_> = state.memtables().filter(of_it).cloned().collect();
            go_on()?;
            // Older memtables may have versions that a tombstone hides.
            let written = self.write_memtables(&unit, pin.seqno(), &output, &|_| true)?;
            edit.added.extend(written.into_iter().map(|summary| (0, summary)));
        }
        let seen = state.deletes.all.iter().filter(|delete| delete.seqno <= pin.seqno());
        edit.range_deletes = seen.cloned().collect();
        tables.sync_names()?;
        let newest = edit.added.iter().map(|(_, summary)| summary.properties.newest).max();
        let newest = newest.unwrap_or(SeqNo::ZERO);
        let reached = self.host.barrier.reach(newest.max(pin.seqno()))?;
        Manifest::write_copy(&**into, pin.seqno().min(reached.max(newest)), &edit)
    }

    /// Returns a pin of the present, and a state that shows it. No table of the state was ingested
    /// later: the journal does not have it, so writes that are replayed over the copy would be
    /// above it.
    fn pinned_state(&self) -> Result<(Arc<Pin>, Arc<State>)> {
        loop {
            let pin = self.host.sequence.pin();
            let state = arc_swap::Guard::into_inner(self.open_state()?);
            // Said before the state has such a table.
            if self.manifest.persisted() <= pin.seqno() {
                return Ok((pin, state));
            }
        }
    }

    /// Copies a table unchanged: its checksums cover its number, which stays. Returns the bytes
    /// that the copy takes.
    fn copy(&self, table: &Table, into: &dyn TableStore, go_on: &GoOn<'_>) -> Result<u64> {
        let summary = table.summary();
        let mut sink = into.create(summary.id, COPY_BYTES as usize)?;
        let charge = Account::new(&self.host.memory);
        let mut bytes = Vec::new();
        for (fragment, len) in (0..).zip(&summary.properties.fragments) {
            let mut offset = 0;
            while offset < *len {
                go_on()?;
                bytes.resize((len - offset).min(COPY_BYTES) as usize, 0);
                charge.set((sink.memory() + bytes.capacity()) as u64);
                table.source().read(fragment, offset, &mut bytes)?;
                sink.append(fragment, &bytes)?;
                offset += bytes.len() as u64;
            }
        }
        sink.finish(&table.source().metadata()?)
    }
}
