//! Ingestion: pairs that arrive in order become tables, outside of memtables, and all of these are
//! added atomically, as one write.
//!
//! 1. Pairs are written to tables sequentially. No manifest names these, and they have no number
//!    yet. Writes, flushes and compactions continue concurrently.
//! 2. The tables are durable, with their names. If Level 0 is full, the ingestion waits for
//!    compactions, as writers do: the tables of many successive ingestions may all be put into
//!    Level 0.
//! 3. The host keeps all other writes out. Memtables are flushed: in a table of Level 0 their
//!    content would be above the ingested tables, though it is older.
//! 4. The active memtables are replaced by others, and the ingested tables take an id between the
//!    old and the new ones: so Level 0 has an order (V1). Then the write gets its number.
//! 5. Each table gets a level (`lsm_tree::plan::ingest`), which no job enters meanwhile.
//! 6. The journal reaches the number (law L3). One edit of the manifest has all tables, their
//!    number, and that everything up to it is persisted: no replay puts an older write on top.
//! 7. The next state has them all.
//!
//! An ingestion that is abandoned, or refused, before step 6 leaves only files, which are removed,
//! at the latest when the store is opened. A crash in step 6 leaves all tables or none, as the
//! superblock has it.
//!
//! # Invariants
//! - H1. No memtable has a version of a lower number once the tables are in the version.
//! - H2. No get that the lookup index leads is led past an ingested table (`version`,
//!   `newest_ingested`).
//! - H3. A reader that looked a key up before learns that the key was written since (law L7): the
//!   version has the number of the last ingestion, and a lookup for an update compares that.

use std::sync::Arc;

use admission::Admits;
use codec::SeqNo;
use engine::{Demand, Error, Ingestion, Result, Wait, check_key, check_value};
use sync::mutant;

use crate::memtable::Memtable;
use crate::planted::Planted;
use crate::store::Shared;
use lsm_tree::entry::Entry;
use lsm_tree::range_deletes::Sweep;
use lsm_tree::table::{Summary, TableBuilder, TableId, TableOptions, UNNUMBERED};
use lsm_tree::version::{Change, LEVELS};

/// Pairs that are being ingested.
pub(crate) struct SortedTables {
    shared: Arc<Shared>,
    options: TableOptions,
    builder: Option<TableBuilder>,
    last_key: Option<Vec<u8>>,
    /// The tables that were begun, and that nothing names.
    begun: Vec<TableId>,
    done: Vec<Summary>,
    /// The id for the tables, once nothing is in memory.
    memtable: Option<u64>,
    /// Why nothing more is taken.
    failure: Option<Error>,
}

impl SortedTables {
    /// Begins an ingestion, without any pair.
    pub(crate) fn begin(shared: &Arc<Shared>) -> Result<Self> {
        shared.health.check_writable()?;
        let options = shared.table_options(LEVELS - 1);
        Ok(Self {
            shared: Arc::clone(shared),
            options: TableOptions { sweep: Sweep::default(), ..options },
            builder: None,
            last_key: None,
            begun: Vec::new(),
            done: Vec::new(),
            memtable: None,
            failure: None,
        })
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let is_full = self
            .builder
            .as_ref()
            .is_some_and(|builder| builder.bytes() >= self.options.table_bytes);
        if is_full {
            self.end_table()?;
        }
        let builder = match &mut self.builder {
            Some(builder) => builder,
            None => {
                let id = self.shared.tables.new_id(&self.shared.host);
                let (tables, budget) = (&*self.shared.tables.store, &self.shared.host.memory);
                let begun = TableBuilder::create(tables, id, (0, 0), &self.options, budget)?;
                self.begun.push(id);
                self.builder.insert(begun)
            }
        };
        builder.push(&Entry { key, seqno: UNNUMBERED, value: Some(value) })
    }

    fn end_table(&mut self) -> Result<()> {
        if let Some(builder) = self.builder.take() {
            self.done.push(builder.finish()?);
        }
        Ok(())
    }

    /// Ends the last table. On return all tables are durable, with their names.
    fn end(&mut self) -> Result<()> {
        self.shared.health.check_writable()?;
        self.failure.clone().map_or(Ok(()), Err)?;
        let ended = self.end_table().and_then(|()| match self.begun.is_empty() {
            true => Ok(()),
            false => self.shared.tables.store.sync_names(),
        });
        self.noting(ended)
    }

    /// Records a failure, which ends the ingestion. If the device had no room, there is no other
    /// harm; any other failure of the device stops writes (law L5).
    fn noting<T>(&mut self, done: Result<T>) -> Result<T> {
        let done = self.shared.stopping(done);
        if let Err(error) = &done {
            self.failure.get_or_insert_with(|| error.clone());
        }
        done
    }
}

impl Ingestion for SortedTables {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.shared.health.check_writable()?;
        self.failure.clone().map_or(Ok(()), Err)?;
        check_key(key)?;
        check_value(value)?;
        if let Some(before) = self.last_key.as_ref().filter(|before| key <= before.as_slice()) {
            return Err(Error::NotAscending { key: key.to_vec(), before: before.clone() });
        }
        let added = self.add(key, value);
        self.noting(added)?;
        let last_key = self.last_key.get_or_insert_default();
        last_key.clear();
        last_key.extend_from_slice(key);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.end()?;
        match self.done.is_empty() {
            true => Ok(()),
            // Nothing is lost by a refusal: the tables stay, and the caller may call this again.
            false => self.shared.reserve(&Demand::Ingestion, Wait::Yes).map(drop),
        }
    }

    fn prepare(&mut self) -> Result<()> {
        self.end()?;
        let emptied = self.shared.empty_memtables();
        self.memtable = Some(self.noting(emptied)?);
        Ok(())
    }

    fn commit(mut self: Box<Self>, seqno: SeqNo) -> Result<()> {
        let memtable = match self.memtable {
            Some(id) => id,
            None => {
                self.end()?;
                self.shared.empty_memtables()?
            }
        };
        let tables = std::mem::take(&mut self.done);
        let shared = Arc::clone(&self.shared);
        let begun = &mut self.begun;
        // From the commit on, the manifest or the state may name them.
        shared.ingest(tables, memtable, seqno, &mut || begun.clear())
    }
}

impl Drop for SortedTables {
    fn drop(&mut self) {
        self.builder = None;
        for id in &self.begun {
            // If that fails, the next opening of the store removes it.
            let _ = self.shared.tables.store.remove(id.number);
        }
    }
}

impl Shared {
    /// Does steps 3 and 4. Returns the id for the tables.
    fn empty_memtables(self: &Arc<Self>) -> Result<u64> {
        loop {
            self.flush()?;
            if let Some(id) = self.replace_memtables()? {
                return Ok(id);
            }
        }
    }

    /// Steps 5 to 7. `committing` is called before anything else may name the tables.
    fn ingest(
        self: &Arc<Self>,
        tables: Vec<Summary>,
        memtable: u64,
        seqno: SeqNo,
        committing: &mut dyn FnMut(),
    ) -> Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        let flusher = self.background.flusher.lock();
        self.health.check_writable()?;
        self.stopping(self.host.barrier.reach(seqno))?;
        let open = |table: Summary| self.tables.open(table.ingested_by(seqno, memtable));
        let opened = tables.iter().cloned().map(open).collect::<Result<Vec<_>>>();
        let opened = self.stopping(opened)?;
        let places = self.reserve_places(&tables);
        let levels = places.iter().map(|place| place.level);
        let added: Vec<_> = levels.zip(opened).collect();
        committing();
        let change = Change { removed: Vec::new(), added };
        let committed = self.commit_or_abandon(change, &[], seqno);
        drop(flusher);
        self.release_places(&places);
        committed?;
        self.memtables.note_applied(seqno);
        self.wake_looks();
        let bytes = tables.iter().map(|table| table.stored_bytes).sum();
        self.background.counts.note_ingestion(bytes);
        Ok(())
    }

    /// Does step 4, and returns the id for the tables. Returns `None` if any memtable has entries.
    /// There are no writes meanwhile.
    fn replace_memtables(&self) -> Result<Option<u64>> {
        let install = self.state.install.lock();
        self.health.check_open()?;
        let state = self.state.load_full();
        if !state.memtables().all(|memtable| memtable.is_empty()) {
            return Ok(None);
        }
        let id = self.memtables.next_id();
        let visible = self.host.sequence.visible();
        let new: Vec<Arc<Memtable>> =
            state.actives.iter().map(|active| active.successor(visible)).collect();
        mutant!(Planted::MemtablesKept, (), return Ok(Some(id)));
        self.state.store(Arc::new(state.with_new_memtables(new)));
        state.actives.iter().for_each(|active| active.seal());
        drop(install);
        Ok(Some(id))
    }
}
