//! A store in a database of this process, for a cluster on one machine.
//!
//! Each record is stored with its revision in front. The last revision has a key of its own, which
//! each commit writes.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;

use sync::Mutex;
use thermocline::{Batch, Db, Durability, EngineKind, Keyspace, KeyspaceOptions};

use crate::store::{Compare, Revision, Store, StoreError, Versioned, Write};

/// The keyspace of the records.
const KEYSPACE: &str = "coordinator";
/// The key of the last revision. No record's key begins like this.
const LAST: &[u8] = b"\0revision";

/// A store in a keyspace of a database.
pub struct LocalStore {
    db: Db,
    records: Keyspace,
    /// The last revision. Held over a commit.
    last: Mutex<u64>,
}

impl LocalStore {
    /// Opens the store in a database, or makes it. The keyspace has the name `coordinator`.
    ///
    /// # Errors
    /// The database's.
    pub fn open(db: Db) -> thermocline::Result<Self> {
        let options = KeyspaceOptions { engine: EngineKind::Memory, ..KeyspaceOptions::default() };
        let records = db.keyspace(KEYSPACE, options)?;
        let last = records.get(LAST)?.map_or(0, |value| revision_of(&value).0);
        Ok(Self { db: db.durability(Durability::Synced), records, last: Mutex::new(last) })
    }
}

/// Returns the revision in front of a stored value.
fn revision_of(value: &[u8]) -> Revision {
    Revision(value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
}

fn versioned(value: &[u8]) -> Versioned {
    let revision = revision_of(value);
    Versioned { value: value.get(8..).unwrap_or_default().to_vec(), revision }
}

fn unavailable(error: thermocline::Error) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

impl Store for LocalStore {
    fn get(&self, key: &str) -> Result<Option<Versioned>, StoreError> {
        let value = self.records.get(key.as_bytes()).map_err(unavailable)?;
        Ok(value.map(|value| versioned(&value)))
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, StoreError> {
        // No commit takes place meanwhile, so the records are of one moment.
        let _last = self.last.lock();
        let mut found = BTreeMap::new();
        let walked = self.records.walk(None, |key, value| {
            if let Some(key) = std::str::from_utf8(key).ok().filter(|key| key.starts_with(prefix)) {
                found.insert(key.to_owned(), versioned(value));
            }
            ControlFlow::Continue(())
        });
        walked.map_err(unavailable)?;
        Ok(found.into_iter().collect())
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<bool, StoreError> {
        let mut last = self.last.lock();
        for compare in compares {
            let there = self.get(&compare.key)?.map(|there| there.revision);
            if there != compare.revision {
                return Ok(false);
            }
        }
        // A commit that fails may have happened. Its revision is not given again.
        *last += 1;
        let revision = last.to_le_bytes();
        let mut batch = Batch::new();
        batch.put(&self.records, LAST, &revision);
        for Write { key, value } in writes {
            match value {
                Some(value) => {
                    let stored = [&revision[..], value].concat();
                    batch.put(&self.records, key.as_bytes(), &stored)
                }
                None => batch.delete(&self.records, key.as_bytes()),
            };
        }
        self.db.write(&batch).map_err(unavailable)?;
        Ok(true)
    }
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStore").finish_non_exhaustive()
    }
}
