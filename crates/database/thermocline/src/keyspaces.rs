//! Making, changing, dropping and clearing keyspaces.
//!
//! The catalog file is the commit point of each. A new instance's directory is made and synced
//! before the catalog names it; an old one is removed after the catalog no longer does, by the
//! last snapshot or scan that shows it. Leftovers of a crash are swept at the next open: only
//! directories of which the file in them proves that this database made them (`owner.rs`).
//!
//! The journal's part of dropped data is freed before the call returns, unless a keyspace that was
//! written to since its last flush holds it back.

use engine::Settings;
use std::sync::Arc;

use journal::Durability;

use crate::catalog::{self, Catalog, Entry};
use crate::database::{Db, Inner};
use crate::descriptors;
use crate::error::{Error, Result};
use crate::expiry::ValueForm;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::{KeyspaceEntry, KeyspaceInstance};
use crate::merge::MergeName;
use crate::open::KEYSPACES_DIR;
use crate::options::KeyspaceOptions;
use crate::owner::{self, Unnamed};

impl Db {
    /// Returns a handle to the keyspace `name`, which is made if there is none. Making one costs a
    /// few syncs; it is durable when this returns.
    ///
    /// # Errors
    /// [`Error::BadKeyspaceName`], [`Error::NoMemoryLeft`],
    /// [`Error::TooManyDescriptors`], [`Error::DamagedKeyspace`]. [`Error::KeyspaceExists`] if it
    /// exists and was made with another `engine`, `journaled` or `expiring`. An option that has
    /// its default value is not compared, so [`KeyspaceOptions::default`] opens every keyspace with
    /// the options that it has. For [`KeyspaceOptions::merge`] [`Error::UnknownMergeOperator`] and
    /// [`Error::OtherMergeOperator`]. For [`KeyspaceOptions::settings`] [`Error::OtherEngine`],
    /// [`Error::FixedOption`], and [`crate::error::Engine::BadOption`] with the allowed values.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.inner.lifecycle.check_open()?;
        catalog::check_keyspace_name(name)?;
        options.check_settings()?;
        if let Some(merge) = options.merge {
            self.inner.options.merge_operators.check(merge)?;
        }
        let entry = match self.inner.keyspaces.entry(name) {
            Some(entry) => entry,
            None => self.inner.create(name, options)?,
        };
        let KeyspaceOptions { engine, journaled, expiring, .. } = entry.options;
        if !options.allow(&entry.options) {
            let name = name.to_owned();
            return Err(Error::KeyspaceExists { name, engine, journaled, expiring });
        }
        entry.current()?;
        self.inner.name_merge(&entry, options.merge)?;
        self.inner.set(&entry, options.settings)?;
        if expiring {
            self.inner.0.start_expiry_sweep()?;
        }
        Ok(self.handle(entry))
    }

    /// Returns a handle to the keyspace `name`, whatever its options.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`], [`Error::DamagedKeyspace`].
    pub fn existing_keyspace(&self, name: &str) -> Result<Keyspace> {
        self.inner.lifecycle.check_open()?;
        let missing = || Error::NoKeyspace { name: name.to_owned() };
        let entry = self.inner.keyspaces.entry(name).ok_or_else(missing)?;
        entry.current()?;
        Ok(self.handle(entry))
    }

    /// Drops a keyspace and everything in it. Its handles get [`Error::NoKeyspace`] from then on,
    /// and hold none of its memory, files and descriptors: these are free once the operations that
    /// were under way have ended. Snapshots, scans, transactions, ingestions and sessions that were
    /// begun before keep them until they end, and can still read. Durable when this returns. A
    /// keyspace that was found damaged can be dropped too.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`].
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.inner.lifecycle.check_open()?;
        self.inner.drop_keyspace(name)
    }

    fn handle(&self, entry: Arc<KeyspaceEntry>) -> Keyspace {
        Keyspace {
            inner: Arc::clone(&self.inner),
            entry,
            durability: self.durability,
            form: ValueForm::Values,
        }
    }
}

impl Inner {
    fn create(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<KeyspaceEntry>> {
        let mut catalog = self.keyspaces.catalog.lock();
        self.lifecycle.check_writable()?;
        if let Some(entry) = self.keyspaces.entry(name) {
            return Ok(entry);
        }
        let options = options.normal();
        descriptors::check_new(&catalog, options.engine)?;
        let share = self.memory_for_new(options)?;
        let _untrimmed = self.upkeep.trim_holds.hold();
        let catalog_entry = self.prepare(&catalog, name, options)?;
        let entry = self.factory.open_entry(&catalog_entry, share)?;
        self.begin_persisted(&*entry.instance()?)?;
        let mut next = catalog.clone();
        next.next_keyspace = catalog_entry.id + 1;
        next.keyspaces.push(catalog_entry.clone());
        self.store(&mut catalog, next)?;
        self.finish(&catalog_entry)?;
        self.keyspaces.entries.write().insert(name.to_owned(), Arc::clone(&entry));
        entry.last_instance().begin_background();
        Ok(entry)
    }

    /// Stores new settings of a keyspace that exists, if the caller gave any.
    fn set(&self, entry: &KeyspaceEntry, given: Option<Settings>) -> Result<()> {
        let Some(given) = given else { return Ok(()) };
        let instead = |stored| {
            let fixed = |option| Error::FixedOption { keyspace: entry.name.clone(), option };
            given.instead_of(stored).map_err(fixed)
        };
        // So that a caller that changes nothing waits for no other thread.
        let stored = entry.stored_options().settings;
        if instead(stored)? == stored {
            return Ok(());
        }
        let mut catalog = self.keyspaces.catalog.lock();
        self.lifecycle.check_writable()?;
        entry.current()?;
        let settings = instead(entry.stored_options().settings)?;
        let mut next = catalog.clone();
        for catalog_entry in
            next.keyspaces.iter_mut().filter(|catalog_entry| catalog_entry.name == entry.name)
        {
            catalog_entry.options.settings = settings;
        }
        self.store(&mut catalog, next)?;
        entry.set(settings);
        Ok(())
    }

    /// Stores the operator that merges a keyspace that exists, if the caller gave one and none is
    /// stored yet.
    ///
    /// # Errors
    /// [`Error::OtherMergeOperator`].
    fn name_merge(&self, entry: &KeyspaceEntry, given: Option<MergeName>) -> Result<()> {
        let Some(asked) = given else { return Ok(()) };
        let is_stored = || match entry.merge() {
            Some(stored) if stored != asked => {
                let keyspace = entry.name.clone();
                Err(Error::OtherMergeOperator { keyspace, stored, asked })
            }
            stored => Ok(stored.is_some()),
        };
        if is_stored()? {
            return Ok(());
        }
        let mut catalog = self.keyspaces.catalog.lock();
        self.lifecycle.check_writable()?;
        entry.current()?;
        if is_stored()? {
            return Ok(());
        }
        let mut next = catalog.clone();
        for catalog_entry in
            next.keyspaces.iter_mut().filter(|catalog_entry| catalog_entry.name == entry.name)
        {
            catalog_entry.options.merge = Some(asked);
        }
        self.store(&mut catalog, next)?;
        entry.set_merge(asked);
        Ok(())
    }

    /// Makes the directory of a new instance durable, before the catalog names it.
    fn prepare(&self, catalog: &Catalog, name: &str, options: KeyspaceOptions) -> Result<Entry> {
        let mut catalog_entry = Entry { id: catalog.next_keyspace, name: name.to_owned(), options };
        // A crash before the catalog was stored may have left files under this id. Files that this
        // database did not make stay, and the keyspace gets another id.
        while !owner::make_vacant(&*self.directory.device, catalog, &catalog_entry)? {
            catalog_entry.id += 1;
        }
        owner::begin(&*self.directory.device, catalog.id, &catalog_entry)?;
        self.directory.device.sync_dir(&catalog::keyspace_dir(name))?;
        self.directory.device.sync_dir(KEYSPACES_DIR)?;
        Ok(catalog_entry)
    }

    /// Notes in a new instance's directory that the catalog names it, before it takes a write.
    fn finish(&self, catalog_entry: &Entry) -> Result<()> {
        // The catalog is stored, so there is no way back.
        let finished = owner::finish(&*self.directory.device, catalog_entry);
        finished.map_err(|error| self.lifecycle.fail_for_good(error.into()))
    }

    /// Moves an empty engine's `persisted` to the present, so that recovery does not ask for
    /// journal that was trimmed before the engine was made. Until the catalog names the engine,
    /// nothing may be trimmed.
    fn begin_persisted(&self, instance: &KeyspaceInstance) -> Result<()> {
        instance.engine.flush().map_err(|error| self.lifecycle.fail(error.into()))
    }

    fn store(&self, catalog: &mut Catalog, mut next: Catalog) -> Result<()> {
        next.newest = self.order.sequence.last();
        // The contents of the disk after a failure here are not known, so nothing more is written;
        // unless there was no room, so that the old catalog is still valid.
        next.store(&*self.directory.device).map_err(|error| self.lifecycle.fail(error))?;
        *catalog = next;
        Ok(())
    }

    fn drop_keyspace(&self, name: &str) -> Result<()> {
        let ended = self.end_keyspace(name)?;
        // The last holder that drops an engine waits for the thread that wakes its futures, and
        // wakers may lock anything: so with nothing locked.
        drop(ended);
        self.release_journal().map_err(|error| self.lifecycle.fail(error))
    }

    fn end_keyspace(&self, name: &str) -> Result<Arc<KeyspaceInstance>> {
        let mut catalog = self.keyspaces.catalog.lock();
        self.lifecycle.check_writable()?;
        let missing = || Error::NoKeyspace { name: name.to_owned() };
        let entry = self.keyspaces.entry(name).ok_or_else(missing)?;
        let _held = self.locks.all();
        self.wait_all_durable()?;
        let mut next = catalog.clone();
        next.keyspaces.retain(|catalog_entry| catalog_entry.name != name);
        self.store(&mut catalog, next)?;
        let mut entries = self.keyspaces.entries.write();
        entries.remove(name);
        Ok(entry.end())
    }

    pub(crate) fn clear(&self, entry: &KeyspaceEntry) -> Result<()> {
        self.lifecycle.check_open()?;
        // A new engine takes little room, and the old one frees all that it has.
        let old = match self.factory.barrier.room() {
            Some(room) => room.spend_on_clear(|| self.replace_instance(entry))?,
            None => self.replace_instance(entry)?,
        };
        // As of a keyspace that is dropped.
        drop(old);
        self.release_journal().map_err(|error| self.lifecycle.fail(error))
    }

    /// Fills the entry with a new, empty engine, and returns the previous instance.
    fn replace_instance(&self, entry: &KeyspaceEntry) -> Result<Arc<KeyspaceInstance>> {
        let mut catalog = self.keyspaces.catalog.lock();
        self.lifecycle.check_writable()?;
        let share = entry.current()?.share.clone();
        let catalog_entry = self.prepare(&catalog, &entry.name, entry.stored_options())?;
        let _untrimmed = self.upkeep.trim_holds.hold();
        let instance = self.factory.open(&catalog_entry, share)?;
        self.begin_persisted(&instance)?;
        let _held = self.locks.all();
        self.wait_all_durable()?;
        let mut next = catalog.clone();
        next.next_keyspace = catalog_entry.id + 1;
        next.keyspaces.retain(|known| known.name != entry.name);
        next.keyspaces.push(catalog_entry.clone());
        self.store(&mut catalog, next)?;
        self.finish(&catalog_entry)?;
        let switching = self.keyspaces.entries.write();
        let old = entry.replace(instance);
        drop(switching);
        entry.last_instance().begin_background();
        Ok(old)
    }

    /// Makes everything written before a change of the catalog durable. The change is durable
    /// immediately: otherwise a power cut could keep the change and lose an older write.
    fn wait_all_durable(&self) -> Result<()> {
        self.wait_durable(self.order.sequence.last(), true, Durability::Synced).map(drop)
    }

    /// Removes the directories of this database that no catalog entry names. Everything else stays.
    pub(crate) fn sweep_leftovers(&self) -> Result<()> {
        let catalog = self.keyspaces.catalog.lock();
        for one in owner::unnamed(&*self.directory.device, &catalog)? {
            // Opening has refused a catalog that is older than a directory.
            if let Unnamed::Leftover { dir, is_bare } = one {
                owner::remove(&*self.directory.device, &dir, is_bare)?;
            }
        }
        Ok(())
    }
}
