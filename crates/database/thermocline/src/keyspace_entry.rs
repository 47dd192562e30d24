//! A keyspace's place in the database, and the engine that fills it at the moment.

mod files;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use codec::{Corruption, SeqNo};
use engine::{Demand, Engine, Reservation, Settings, Wait};
use memory_budget::MemoryBudget;
use reads::ReadPool;
use sync::locks::Mutex;
use workers::Gate;

use crate::async_writes::async_writer::AsyncWriter;
use crate::damaged::Damaged;
use crate::error::{Error, Result};
use crate::expiry::Expiry;
use crate::memory_shares::MemoryShare;
use crate::merge::MergeName;
use crate::options::KeyspaceOptions;
use crate::session::async_reader::AsyncReader;
use crate::updates::Updates;

pub(crate) use files::InstanceFiles;

/// A keyspace that is open. It lives as long as a handle to it does. Its engine ends when the
/// keyspace is dropped, as soon as no operation, scan, snapshot, transaction, ingestion or session
/// uses it.
#[derive(Debug)]
pub(crate) struct KeyspaceEntry {
    pub(crate) name: String,
    /// The options that it was opened with.
    pub(crate) options: KeyspaceOptions,
    /// Its settings in the catalog, which hold from the next opening on.
    settings: Mutex<Option<Settings>>,
    /// The operator that its values are merged by, once the catalog names one.
    merge: OnceLock<MergeName>,
    /// The id that its keys are locked under; stays the same when it is cleared.
    pub(crate) lock_id: u32,
    /// Whether single writes leave the order of a key's writes to the engine: it keeps one, and no
    /// journal must agree with it.
    pub(crate) orders_writes: bool,
    /// Swapped when the keyspace is cleared, under all key locks.
    current: ArcSwap<KeyspaceInstance>,
    /// Takes the writes of futures that the futures must not wait for.
    pub(crate) writes: AsyncWriter,
    /// The reason why it was not opened; then it has no usable engine.
    pub(crate) damage: Option<Corruption>,
    /// Set when it is dropped, under all key locks; its handles are dead from then on.
    dropped: AtomicBool,
    /// Whether either is so.
    is_refused: AtomicBool,
}

impl KeyspaceEntry {
    pub(crate) fn new(name: &str, options: KeyspaceOptions, instance: KeyspaceInstance) -> Self {
        Self {
            name: name.to_owned(),
            options,
            settings: Mutex::new(options.settings),
            merge: options.merge.map(OnceLock::from).unwrap_or_default(),
            lock_id: instance.id,
            orders_writes: !options.journaled && instance.engine.capabilities().orders_writes,
            current: ArcSwap::from_pointee(instance),
            writes: AsyncWriter::default(),
            damage: None,
            dropped: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
        }
    }

    /// Returns its options as the catalog has them.
    pub(crate) fn stored_options(&self) -> KeyspaceOptions {
        KeyspaceOptions { settings: *self.settings.lock(), merge: self.merge(), ..self.options }
    }

    /// Returns the operator that its values are merged by.
    pub(crate) fn merge(&self) -> Option<MergeName> {
        self.merge.get().copied()
    }

    /// Sets the operator that the catalog now has; under the catalog's lock.
    pub(crate) fn set_merge(&self, merge: MergeName) {
        self.merge.get_or_init(|| merge);
    }

    /// Sets the settings that the catalog now has; under the catalog's lock.
    pub(crate) fn set(&self, settings: Option<Settings>) {
        *self.settings.lock() = settings;
    }

    /// Makes it an entry that cannot be used, and is there to be dropped.
    pub(crate) fn damaged(self, damage: Corruption) -> Self {
        Self { damage: Some(damage), is_refused: AtomicBool::new(true), ..self }
    }

    /// Returns the engine that fills it now, for the length of one operation: no counter is shared.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`] once it is dropped, [`Error::DamagedKeyspace`].
    pub(crate) fn current(&self) -> Result<Guard<Arc<KeyspaceInstance>>> {
        let current = self.current.load();
        // In this order: a load of the instance that replaces the dropped one reads this as set,
        // too.
        if self.is_refused.load(Relaxed) {
            return Err(self.refusal());
        }
        Ok(current)
    }

    #[cold]
    fn refusal(&self) -> Error {
        let keyspace = self.name.clone();
        match &self.damage {
            Some(damage) if !self.dropped.load(Relaxed) => {
                Error::DamagedKeyspace { keyspace, damage: damage.clone() }
            }
            _ => Error::NoKeyspace { name: keyspace },
        }
    }

    /// Returns whether this engine still fills it. The answer holds while a key of it is locked.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn is_filled_by(&self, instance: &Arc<KeyspaceInstance>) -> Result<bool> {
        Ok(Arc::ptr_eq(&*self.current()?, instance))
    }

    /// The same, to keep.
    pub(crate) fn instance(&self) -> Result<Arc<KeyspaceInstance>> {
        self.current().map(Guard::into_inner)
    }

    /// The same, also if it is dropped: then the instance of no engine.
    pub(crate) fn last_instance(&self) -> Arc<KeyspaceInstance> {
        self.current.load_full()
    }

    /// Fills it with another engine; under all key locks. Returns the previous instance, which the
    /// caller drops once nothing is locked.
    #[must_use]
    pub(crate) fn replace(&self, instance: KeyspaceInstance) -> Arc<KeyspaceInstance> {
        let old = self.current.swap(Arc::new(instance));
        old.files.delete_on_drop();
        self.writes.renew();
        old
    }

    /// Ends it, under all key locks. Returns the instance, which the caller drops with nothing
    /// locked; the entry keeps none, so that handles of a dropped keyspace hold no memory, no files
    /// and no descriptors.
    #[must_use]
    pub(crate) fn end(&self) -> Arc<KeyspaceInstance> {
        self.dropped.store(true, Relaxed);
        self.is_refused.store(true, Relaxed);
        let last = self.current.load_full();
        let none = Damaged::new(engine::Error::Closed, self.options.engine, 0);
        let (id, journaled, files) = (last.id, last.journaled, last.files.unused());
        let none = KeyspaceInstance::new(id, journaled, Box::new(none), files, None, None);
        self.current.store(Arc::new(none));
        last.files.delete_on_drop();
        self.writes.dismiss();
        last
    }
}

/// One engine of a keyspace, from its creation (or the last clearing) on. Snapshots and scans hold
/// it, so that their pairs outlive a clearing.
pub(crate) struct KeyspaceInstance {
    /// Its id in the catalog and in journal records.
    pub(crate) id: u32,
    pub(crate) journaled: bool,
    /// The engine, which has values in their stored form: reads for users are in [`crate::expiry`].
    pub(crate) engine: Box<dyn Engine>,
    /// Counts of their expiries, if values may expire.
    pub(crate) expiry: Option<Expiry>,
    /// Counts of the bytes that updates write.
    pub(crate) updates: Updates,
    /// The drivers of lookups whose caller waits.
    pub(crate) reads: ReadPool,
    /// Takes the reads of futures that need the device.
    pub(crate) async_reader: AsyncReader,
    /// The engine's share of the memory, if it has one; after the engine, so that it is dropped
    /// later.
    pub(crate) share: Option<Arc<MemoryShare>>,
    /// Holds the engine's periodic tasks back; after the engine, which stops them first.
    gate: Option<Gate>,
    pub(crate) files: InstanceFiles,
    /// The newest write that was applied to it, in this life or by replay.
    newest: AtomicU64,
    /// Whether everything that its opening found is known to be durable.
    is_durable: AtomicBool,
}

impl KeyspaceInstance {
    pub(crate) fn new(
        id: u32,
        journaled: bool,
        engine: Box<dyn Engine>,
        files: InstanceFiles,
        share: Option<Arc<MemoryShare>>,
        expiry: Option<Expiry>,
    ) -> Self {
        let (newest, is_durable) = Default::default();
        let (updates, async_reader) = Default::default();
        // An engine without a share has all pairs in memory.
        let budget = share.as_ref().map(|share| Arc::clone(&share.budget));
        let budget = budget.unwrap_or_else(|| Arc::new(MemoryBudget::new(u64::MAX)));
        let reads = ReadPool::new(&budget);
        Self {
            id,
            journaled,
            engine,
            expiry,
            updates,
            reads,
            async_reader,
            share,
            gate: None,
            files,
            newest,
            is_durable,
        }
    }

    /// Has the engine's periodic tasks wait behind `gate` for [`Self::begin_background`].
    pub(crate) fn behind(mut self, gate: Gate) -> Self {
        self.gate = Some(gate);
        self
    }

    /// Lets the engine's periodic tasks run: its keyspace is the database's for good, or the
    /// journal's replay changes it. An opening that is refused earlier has not changed it. Costs a
    /// load once they run.
    pub(crate) fn begin_background(&self) {
        if let Some(gate) = &self.gate {
            gate.open();
        }
    }

    /// Reserves room for a write. Waits for it, so no key is locked (I4 of [`crate::write`]).
    pub(crate) fn reserve(&self, demand: &Demand<'_>) -> Result<Reservation<'_>> {
        let room = self.engine.reserve(demand, Wait::Yes)?;
        Ok(room.unwrap_or_else(Reservation::uncounted))
    }

    /// The same without waiting: returns `None` if it would have to.
    pub(crate) fn try_reserve(&self, demand: &Demand<'_>) -> Result<Option<Reservation<'_>>> {
        Ok(self.engine.reserve(demand, Wait::No)?)
    }

    /// Notes that everything that its opening found is durable, since all was closed in order.
    pub(crate) fn trust_found(&self) {
        self.is_durable.store(true, Relaxed);
    }

    /// Returns whether everything that the opening found is durable, and makes it so if it can. If
    /// this returns `false`, nothing may be removed on the grounds that the files have it. A
    /// failure stays with the engine; if it persists, the engine's next writes report it.
    pub(crate) fn make_durable(&self) -> bool {
        if !self.is_durable.load(Relaxed) && self.engine.make_durable().is_ok_and(|durable| durable)
        {
            self.is_durable.store(true, Relaxed);
        }
        self.is_durable.load(Relaxed)
    }

    /// Returns an outcome of the engine's lookups, cursors and ingestions, with a failure
    /// that names files by their paths in the database. The engine itself does so in its calls
    /// (`engine::opened`).
    #[inline]
    pub(crate) fn placed<T>(&self, outcome: engine::Result<T>) -> engine::Result<T> {
        outcome.map_err(|error| error.in_dir(&self.files.dir))
    }

    /// Remembers that write `seqno` was applied.
    #[inline]
    pub(crate) fn note_applied(&self, seqno: SeqNo) {
        if self.newest.load(Relaxed) < seqno.get() {
            self.newest.fetch_max(seqno.get(), Relaxed);
        }
    }

    /// Returns whether its own files hold everything that was applied to it, so that flushing it
    /// costs a sync and not its data. Writes that are being applied now may not count yet.
    pub(crate) fn is_idle(&self) -> bool {
        self.newest.load(Relaxed) <= self.engine.persisted().get()
    }
}

impl Drop for KeyspaceInstance {
    fn drop(&mut self) {
        // No caller is left to get a failure.
        let _ = self.engine.close();
        self.async_reader.stop();
        self.files.remove_if_unnamed();
    }
}

impl fmt::Debug for KeyspaceInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyspaceInstance")
            .field("id", &self.id)
            .field("dir", &self.files.dir)
            .finish()
    }
}
