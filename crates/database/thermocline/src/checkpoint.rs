//! A whole copy of the database in another directory, while it runs.
//!
//! 1. The set of keyspaces is fixed (the catalog's lock), the journal is not trimmed, and nothing
//!    is ingested, which the journal would not have.
//! 2. Each engine writes a copy of itself, each at a moment of its own.
//! 3. The journal is flushed and copied, from the oldest of those moments on. It holds everything
//!    that any copy holds, so that opening the copy replays all of them to one moment: the last
//!    record. So batches over several keyspaces are whole in the copy, too.
//! 4. The catalog comes last: without it the directory is no database.
//!
//! A thread that closes the database has to wait until no copy is under way, and a copy may take
//! long: so it is broken off then.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use codec::SeqNo;
use device::Device;
use journal::{Durability, Journal, ReplayError};

use crate::catalog::Catalog;
use crate::copy_side::CopyTarget;
use crate::database::{Db, Inner};
use crate::directory::make_lock_file;
use crate::error::{Error, Result};
use crate::keyspace_entry::KeyspaceInstance;
use crate::open::{JOURNAL_DIR, KEYSPACES_DIR, journal_options};
use crate::owner;

impl Db {
    /// Writes a copy of the database, as of some moment during the call, to a new or empty
    /// directory. The copy is durable when this returns, and opens like any database.
    ///
    /// # Errors
    /// [`Error::NotEmpty`]; failures of either device ([`Error::Copy`]); [`Error::Closed`], also if
    /// it is closed meanwhile. Files that were copied until then are no database.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<()> {
        self.inner.lifecycle.check_open()?;
        let path = path.as_ref();
        let device = device::open(
            path,
            device::Options { io: self.inner.options.io, ..device::Options::default() },
        )?;
        self.checkpoint_on(device, &path.display().to_string())?;
        Ok(device::sync_name(path)?)
    }

    /// The same, to any device; `place` is its name in messages.
    pub fn checkpoint_on(&self, target: Arc<dyn Device>, place: &str) -> Result<()> {
        self.inner.lifecycle.check_open()?;
        let target = CopyTarget::new(target, place);
        let copied = self.inner.copy_all(&target.device(), place);
        target.attribute(copied, &self.inner.directory.place)
    }
}

impl Inner {
    fn copy_all(&self, target: &Arc<dyn Device>, place: &str) -> Result<()> {
        if !target.list("")?.is_empty() {
            return Err(Error::NotEmpty { path: place.to_owned() });
        }
        make_lock_file(&**target)?;
        self.copy_into(target)?.store(&**target)
    }

    /// Steps 1 to 3: everything but the catalog, whose contents at that time are returned.
    pub(crate) fn copy_into(&self, target: &Arc<dyn Device>) -> Result<Catalog> {
        let catalog = self.keyspaces.catalog.lock();
        // A close takes the keyspaces away, and a copy after it would have none of them.
        self.lifecycle.check_staying_open()?;
        let _untrimmed = self.upkeep.trim_holds.hold();
        let _copying = self.keyspaces.copying.read();
        target.create_dir(KEYSPACES_DIR)?;
        target.create_dir(JOURNAL_DIR)?;
        let mut oldest: Option<SeqNo> = None;
        for entry in self.keyspaces.all() {
            self.lifecycle.check_staying_open()?;
            let instance = entry.instance()?;
            // Before the copy, which may be newer but never older.
            let persisted = instance.engine.persisted();
            self.copy_engine(&instance, target, &catalog, &entry.name)?;
            if instance.journaled {
                oldest = Some(oldest.map_or(persisted, |known| known.min(persisted)));
            }
        }
        if let Some(after) = oldest {
            self.copy_journal(catalog.journal_id(), after, target)?;
        }
        target.sync_dir(KEYSPACES_DIR)?;
        target.sync_dir("")?;
        Ok(catalog.clone())
    }

    fn copy_engine(
        &self,
        instance: &KeyspaceInstance,
        target: &Arc<dyn Device>,
        catalog: &Catalog,
        name: &str,
    ) -> Result<()> {
        target.create_dir(&instance.files.dir)?;
        let go_on = || self.lifecycle.check_staying_open().map_err(|_| engine::Error::Closed);
        instance.engine.checkpoint(target.subdevice(&instance.files.dir)?, &go_on)?;
        for entry in catalog.keyspaces.iter().filter(|entry| entry.id == instance.id) {
            owner::copy_to(&**target, catalog.id, entry)?;
        }
        target.sync_dir(&crate::catalog::keyspace_dir(name))?;
        Ok(())
    }

    fn copy_journal(&self, id: u64, after: SeqNo, target: &Arc<dyn Device>) -> Result<()> {
        self.wait_durable(self.order.sequence.last(), true, Durability::Flushed)?;
        let mut nothing = |_: SeqNo, _: &[u8]| Ok(());
        let (copy, _) = Journal::open(
            Arc::clone(target),
            JOURNAL_DIR,
            journal_options(&self.options, id, SeqNo::ZERO),
            &self.options.environment,
            after,
            &mut nothing,
        )?;
        let mut append = |seqno: SeqNo, payload: &[u8]| -> std::result::Result<(), ReplayError> {
            self.lifecycle.check_staying_open()?;
            let append = copy.append(|| seqno, |_, record| record.extend_from_slice(payload));
            append.map(drop).map_err(|failure| Error::from(failure).into())
        };
        let copied = journal::read(&*self.directory.device, JOURNAL_DIR, after.next(), &mut append);
        self.lifecycle.check_staying_open()?;
        copied?;
        Ok(copy.close()?)
    }
}
