//! The keyspaces of a database: the catalog that names them, and the entries that are open.

use std::collections::BTreeMap;
use std::sync::Arc;

use sync::locks::{Mutex, RwLock};

use crate::catalog::Catalog;
use crate::keyspace_entry::{KeyspaceEntry, KeyspaceInstance};

/// All keyspaces, and the locks of threads that change their set, copy them or ingest pairs.
pub(crate) struct KeyspaceSet {
    /// The contents of the file THERMOCLINE. A thread holds this while it changes them, or while
    /// the set of keyspaces must not change.
    pub(crate) catalog: Mutex<Catalog>,
    /// Changed only while no write is under way, but where a keyspace is made.
    pub(crate) entries: RwLock<BTreeMap<String, Arc<KeyspaceEntry>>>,
    /// Read while a copy is made. Written while pairs are ingested, since the journal does not have
    /// these.
    pub(crate) copying: RwLock<()>,
}

impl KeyspaceSet {
    pub(crate) fn new(catalog: Catalog, entries: BTreeMap<String, Arc<KeyspaceEntry>>) -> Self {
        Self {
            catalog: Mutex::new(catalog),
            entries: RwLock::new(entries),
            copying: RwLock::default(),
        }
    }

    /// Returns the keyspace of this name.
    pub(crate) fn entry(&self, name: &str) -> Option<Arc<KeyspaceEntry>> {
        self.entries.read().get(name).cloned()
    }

    /// Returns all of them, by name.
    pub(crate) fn all(&self) -> Vec<Arc<KeyspaceEntry>> {
        self.entries.read().values().cloned().collect()
    }

    /// Returns the engines whose writes are in the journal.
    pub(crate) fn journaled_instances(&self) -> Vec<Arc<KeyspaceInstance>> {
        let entries = self.entries.read();
        let all = entries.values().map(|entry| entry.last_instance());
        all.filter(|instance| instance.journaled).collect()
    }

    /// Returns whether the journal keeps records for a keyspace that is damaged.
    pub(crate) fn has_damaged_journaled(&self) -> bool {
        let entries = self.entries.read();
        entries.values().any(|entry| entry.damage.is_some() && entry.options.journaled)
    }

    /// Lets the periodic tasks of all engines run, once the opening has succeeded.
    pub(crate) fn begin_engines(&self) {
        self.entries.read().values().for_each(|entry| entry.last_instance().begin_background());
    }
}
