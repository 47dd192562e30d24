//! The real store: numbered databases as keyspaces of a [`Db`].
//!
//! Database `n` is the keyspace `redis-n`. It is made at the first write to it, with values that
//! expire, and used by a handle that shows them in their stored form: a command has a clock of its
//! own.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use thermocline::SeqNo;
use thermocline::sync::locks::Mutex;
use thermocline::{
    Backups, Batch, DatabaseMetrics, Db, Doorbell, Durability, EngineKind, Error, ErrorKind,
    ExpiryStats, Keyspace, KeyspaceOptions, PauseExpiry, Progress,
};

use super::session::{KeyspaceSession, StoreSession, number_of};
use super::{Change, DB_COUNT, DbIndex, Durable, Found, Step, Store, StoreError, Visit};

/// Bytes that one write may bring even when the memory for data is used up: it may replace values
/// by others of their size, which only the engine knows.
pub(super) const WRITE_ROOM_LEAST_BYTES: u64 = 16 << 20;

/// A [`Db`] with a server's durability.
pub(crate) struct Database {
    /// Its writes wait for nothing; [`Durable::wait`] does, once per turn.
    db: Db,
    durability: Durability,
    /// The engine of databases that are made.
    engine: EngineKind,
    keyspaces: [OnceLock<Keyspace>; DB_COUNT as usize],
    /// Held while a keyspace is made.
    making: Mutex<()>,
    metrics: DatabaseMetrics,
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::OutOfMemory => Self::Full(text),
            ErrorKind::ReadOnly
            | ErrorKind::NoSpace
            | ErrorKind::Unavailable
            | ErrorKind::Closed
            | ErrorKind::Internal => Self::ReadOnly(text),
            _ => Self::Refused(text),
        }
    }
}

impl Database {
    /// Opens the numbered databases of `db` that exist, of any engine; others are made with
    /// `engine`.
    ///
    /// # Errors
    /// [`Error::NotExpiring`] if one of them was made without values that expire.
    pub(crate) fn new(db: &Db, durability: Durability, engine: EngineKind) -> Result<Self, Error> {
        let store = Self {
            db: db.durability(Durability::Buffered),
            durability,
            engine,
            keyspaces: Default::default(),
            making: Mutex::default(),
            metrics: DatabaseMetrics::new(db.telemetry()),
        };
        for keyspace in store.db.keyspaces() {
            let index = (0..DB_COUNT).find(|&index| name(index) == keyspace.name());
            if let Some(index) = index {
                if !keyspace.options().expiring {
                    return Err(Error::NotExpiring { keyspace: keyspace.name().to_owned() });
                }
                // No other thread has the store yet, so the cell is empty.
                let _ = store.keyspaces[usize::from(index)].set(keyspace.expiring().raw());
            }
        }
        Ok(store)
    }

    /// The keyspace of database `index`, if anything was ever written to it.
    #[inline]
    fn existing(&self, index: DbIndex) -> Option<&Keyspace> {
        self.keyspaces.get(usize::from(index))?.get()
    }

    /// The keyspace of database `index`, to be written to.
    #[inline]
    fn keyspace(&self, index: DbIndex) -> Result<&Keyspace, StoreError> {
        self.existing(index).ok_or(StoreError::NoDatabase)
    }

    #[cold]
    fn make_keyspace(&self, index: DbIndex) -> Result<&Keyspace, StoreError> {
        let _making = self.making.lock();
        let cell = self.keyspaces.get(usize::from(index));
        let cell = cell.ok_or_else(|| StoreError::Refused("no such database".to_owned()))?;
        if cell.get().is_none() {
            let (engine, expiring) = (self.engine, true);
            let options = KeyspaceOptions { engine, expiring, ..Default::default() };
            let keyspace = self.db.keyspace(&name(index), options)?.expiring().raw();
            // The cell is empty: it is filled under `making` alone.
            let _ = cell.set(keyspace);
        }
        cell.get().ok_or_else(|| StoreError::Refused("the database was not made".to_owned()))
    }

    /// Once a failure has stopped writes, every refused write reports it.
    fn failed(&self, error: Error) -> StoreError {
        match self.db.failure() {
            Some(failure) => StoreError::ReadOnly(failure.to_string()),
            None => error.into(),
        }
    }
}

/// Whether `keyspace` is the name of a numbered database's keyspace, whose values may expire.
pub fn is_database_name(keyspace: &str) -> bool {
    (0..DB_COUNT).any(|index| name(index) == keyspace)
}

/// The keyspace's name.
fn name(index: DbIndex) -> String {
    format!("redis-{index}")
}

impl Store for Database {
    #[inline]
    fn get(&self, db: DbIndex, key: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        match self.existing(db) {
            Some(keyspace) => Ok(keyspace.get_into(key, into)?),
            None => Ok(false),
        }
    }

    #[inline]
    fn try_get(
        &self,
        db: DbIndex,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<bool>, StoreError> {
        match self.existing(db) {
            Some(keyspace) => Ok(keyspace.try_get(key, into)?),
            None => Ok(Some(false)),
        }
    }

    fn multi_get(
        &self,
        db: DbIndex,
        keys: &[&[u8]],
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        match self.existing(db) {
            Some(keyspace) => Ok(keyspace.multi_get_with(keys, found)?),
            None => {
                (0..keys.len()).for_each(|index| found(index, None));
                Ok(())
            }
        }
    }

    #[inline]
    fn put(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError> {
        self.keyspace(db)?.put(key, value).map_err(|error| self.failed(error))
    }

    #[inline]
    fn try_put(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError> {
        let tried = self.keyspace(db)?.try_put(key, value).map_err(|error| self.failed(error))?;
        tried.ok_or(StoreError::MustWait)
    }

    fn delete(&self, db: DbIndex, key: &[u8]) -> Result<SeqNo, StoreError> {
        self.keyspace(db)?.delete(key).map_err(|error| self.failed(error))
    }

    #[inline]
    fn update(
        &self,
        db: DbIndex,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<SeqNo, StoreError> {
        let written = self.keyspace(db)?.rmw(key, decide).map_err(|error| self.failed(error))?;
        Ok(written.unwrap_or(SeqNo::ZERO))
    }

    #[inline]
    fn try_update(
        &self,
        db: DbIndex,
        key: &[u8],
        mut decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError> {
        let tried = self.keyspace(db)?.try_rmw(key, &mut decide);
        number_of(tried.map_err(|error| self.failed(error))?)
    }

    fn wait_to_write(&self, db: DbIndex) {
        // The write that follows gets an error too.
        let _ = self.existing(db).map(Keyspace::wait_to_write);
    }

    fn walk(
        &self,
        db: DbIndex,
        from: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        match self.existing(db) {
            Some(keyspace) => Ok(keyspace.walk(from, visit)?),
            None => Ok(()),
        }
    }

    fn exists(&self, db: DbIndex) -> bool {
        self.existing(db).is_some()
    }

    fn is_ordered(&self, db: DbIndex) -> bool {
        self.existing(db).map_or(self.engine.is_ordered(), Keyspace::is_ordered)
    }

    fn position(&self, db: DbIndex, key: &[u8]) -> Result<u64, StoreError> {
        match self.existing(db) {
            Some(keyspace) => Ok(keyspace.position(key)?),
            None => Ok(0),
        }
    }

    fn counted_keys(&self, db: DbIndex) -> Result<Option<u64>, StoreError> {
        match self.existing(db) {
            Some(keyspace) => Ok(keyspace.live_keys()?),
            None => Ok(Some(0)),
        }
    }

    fn expiry(&self, db: DbIndex) -> Result<Option<ExpiryStats>, StoreError> {
        match self.existing(db) {
            Some(keyspace) => Ok(keyspace.expiring().stats()?),
            None => Ok(None),
        }
    }

    fn clear(&self, db: DbIndex) -> Result<SeqNo, StoreError> {
        if let Some(keyspace) = self.existing(db) {
            keyspace.clear().map_err(|error| self.failed(error))?;
        }
        Ok(self.db.last())
    }
}

impl Durable for Database {
    fn store_session(
        &self,
        db: DbIndex,
        depth: usize,
        bell: &Arc<Doorbell>,
    ) -> Result<Box<dyn StoreSession>, StoreError> {
        Ok(Box::new(KeyspaceSession::new(self.keyspace(db)?, depth, bell)?))
    }

    fn write(
        &self,
        steps: &mut dyn Iterator<Item = Step>,
        has_room: Option<&dyn Fn()>,
    ) -> Result<SeqNo, StoreError> {
        let mut batch = Batch::new();
        for step in steps {
            let keyspace = self.keyspace(step.db)?;
            match step.value {
                Some(value) => batch.put(keyspace, &step.key, &value),
                None => batch.delete(keyspace, &step.key),
            };
        }
        let written = match has_room {
            Some(has_room) => self.db.write_after(&batch, has_room).map(Some),
            None => self.db.try_write(&batch),
        };
        written.map_err(|error| self.failed(error))?.ok_or(StoreError::MustWait)
    }

    fn make(&self, db: DbIndex) -> Result<(), StoreError> {
        if self.exists(db) { Ok(()) } else { self.make_keyspace(db).map(drop) }
    }

    fn write_room(&self) -> u64 {
        // While it is committed a write is there as a batch, as a record and in the engine.
        let (used, limit) = self.memory();
        let room = (limit.saturating_sub(used) / 3).max(WRITE_ROOM_LEAST_BYTES);
        room.min(thermocline::WRITE_BYTES_MAX as u64)
    }

    fn wait(&self, seqno: SeqNo) -> Result<(), StoreError> {
        self.db.wait(seqno, self.durability).map_err(|error| self.failed(error))
    }

    fn last(&self) -> SeqNo {
        self.db.last()
    }

    fn save(&self) -> Result<(), StoreError> {
        self.db.sync().map_err(|error| self.failed(error))
    }

    fn backup(&self, into: &Path) -> Result<(), StoreError> {
        let backups = Backups::open(into)?;
        self.db.backup(&backups, &Progress::default())?;
        Ok(())
    }

    fn figures(&self) -> Vec<(String, u64)> {
        let stats = self.db.stats();
        let mut figures = vec![
            ("device_read_bytes".to_owned(), stats.io.read_bytes),
            ("device_written_bytes".to_owned(), stats.io.write_bytes),
            ("device_syncs".to_owned(), stats.io.syncs),
            ("journal_bytes".to_owned(), stats.journal.bytes),
            ("disk_bytes".to_owned(), stats.disk_bytes()),
            ("last_seqno".to_owned(), stats.last.get()),
            ("memory_moves".to_owned(), stats.memory_moves.count),
            ("memory_moved_bytes".to_owned(), stats.memory_moves.bytes),
            (
                "oldest_snapshot_seconds".to_owned(),
                stats.oldest_snapshot_age.map_or(0, |age| age.as_secs()),
            ),
        ];
        for keyspace in stats.keyspaces {
            if let Some(share) = keyspace.memory_share_bytes {
                figures.push((format!("{}_memory_share_bytes", keyspace.name), share));
            }
            let updates = keyspace.updates;
            for (name, value) in [
                ("updates_written", updates.written),
                ("updates_written_bytes", updates.written_bytes),
                ("merges", updates.merges),
                ("merge_operand_bytes", updates.operand_bytes),
            ] {
                figures.push((format!("{}_{name}", keyspace.name), value));
            }
            for (name, value) in keyspace.engine.detail {
                figures.push((format!("{}_{name}", keyspace.name), value));
            }
        }
        figures
    }

    fn refresh_metrics(&self) {
        self.metrics.refresh(&self.db.stats());
    }

    fn pause_expiry(&self) -> PauseExpiry {
        self.db.pause_expiry()
    }

    fn memory(&self) -> (u64, u64) {
        self.db.memory_bytes()
    }

    fn commands(&self) -> &dyn Store {
        self
    }
}
