//! Numbered databases that are apart: each is a [`Db`] of its own, such as a range of a cluster.
//!
//! # Numbers
//! The number of a write is the sum of the last numbers of all databases. It grows with each write
//! of any of them before that write can be seen. To wait for a number is to wait for the last
//! writes of all databases.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use thermocline::sync::locks::Mutex;
use thermocline::{Db, Doorbell, Durability, EngineKind, ExpiryStats, PauseExpiry, SeqNo};

use super::database::Database;
use super::session::StoreSession;
use super::{Change, DB_COUNT, DbIndex, Durable, Found, Step, Store, StoreError, Visit};

/// A source of numbered databases that are apart.
pub trait Databases: Send + Sync {
    /// Returns the databases that are there, by their numbers.
    fn existing(&self) -> Vec<(u8, Db)>;

    /// Makes a database, or returns the one that is there. May wait for a device or a network.
    ///
    /// # Errors
    /// The reason why the database cannot be made, for the client.
    fn make(&self, index: u8) -> Result<Db, String>;

    /// Returns the switch that pauses the expiry sweeps of all databases.
    fn pause_expiry(&self) -> PauseExpiry;

    /// Returns the bytes of memory that the databases use, and the bytes that they have.
    fn memory_bytes(&self) -> (u64, u64);
}

/// The databases of a source as one store.
pub(crate) struct Ranges {
    source: Arc<dyn Databases>,
    durability: Durability,
    /// The engine of databases that are made.
    engine: EngineKind,
    databases: [OnceLock<Database>; DB_COUNT as usize],
    /// Held while a database is made.
    making: Mutex<()>,
}

impl Ranges {
    /// Opens the numbered databases of a source.
    ///
    /// # Errors
    /// Those of [`Database::new`].
    pub(crate) fn new(
        source: Arc<dyn Databases>,
        durability: Durability,
        engine: EngineKind,
    ) -> Result<Self, thermocline::Error> {
        let databases: [OnceLock<Database>; DB_COUNT as usize] = Default::default();
        for (index, db) in source.existing() {
            if let Some(cell) = databases.get(usize::from(index)) {
                // No other thread has the store yet, so the cell is empty.
                let _ = cell.set(Database::new(&db, durability, engine)?);
            }
        }
        Ok(Self { source, durability, engine, databases, making: Mutex::default() })
    }

    #[inline]
    fn existing(&self, index: DbIndex) -> Option<&Database> {
        self.databases.get(usize::from(index))?.get()
    }

    #[inline]
    fn database(&self, index: DbIndex) -> Result<&Database, StoreError> {
        self.existing(index).ok_or(StoreError::NoDatabase)
    }

    /// Returns all databases that are there, with their numbers.
    fn all(&self) -> impl Iterator<Item = (DbIndex, &Database)> {
        (0..).zip(&self.databases).filter_map(|(index, cell)| Some((index, cell.get()?)))
    }

    /// Returns the number of a write to one of the databases, which has `own` there.
    fn number(&self, own: SeqNo) -> SeqNo {
        if own == SeqNo::ZERO { own } else { self.last() }
    }
}

impl Store for Ranges {
    #[inline]
    fn get(&self, db: DbIndex, key: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.existing(db).map_or(Ok(false), |database| database.get(db, key, into))
    }

    #[inline]
    fn try_get(
        &self,
        db: DbIndex,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<bool>, StoreError> {
        self.existing(db).map_or(Ok(Some(false)), |database| database.try_get(db, key, into))
    }

    fn multi_get(
        &self,
        db: DbIndex,
        keys: &[&[u8]],
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        match self.existing(db) {
            Some(database) => database.multi_get(db, keys, found),
            None => {
                (0..keys.len()).for_each(|index| found(index, None));
                Ok(())
            }
        }
    }

    fn put(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError> {
        self.database(db)?.put(db, key, value).map(|own| self.number(own))
    }

    fn try_put(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError> {
        self.database(db)?.try_put(db, key, value).map(|own| self.number(own))
    }

    fn delete(&self, db: DbIndex, key: &[u8]) -> Result<SeqNo, StoreError> {
        self.database(db)?.delete(db, key).map(|own| self.number(own))
    }

    fn update(
        &self,
        db: DbIndex,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<SeqNo, StoreError> {
        self.database(db)?.update(db, key, decide).map(|own| self.number(own))
    }

    fn try_update(
        &self,
        db: DbIndex,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError> {
        let own = self.database(db)?.try_update(db, key, decide)?;
        Ok(own.map(|own| self.number(own)))
    }

    fn wait_to_write(&self, db: DbIndex) {
        if let Some(database) = self.existing(db) {
            database.wait_to_write(db);
        }
    }

    fn exists(&self, db: DbIndex) -> bool {
        self.existing(db).is_some_and(|database| database.exists(db))
    }

    fn walk(
        &self,
        db: DbIndex,
        from: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        self.existing(db).map_or(Ok(()), |database| database.walk(db, from, visit))
    }

    fn is_ordered(&self, db: DbIndex) -> bool {
        self.existing(db).map_or(self.engine.is_ordered(), |database| database.is_ordered(db))
    }

    fn position(&self, db: DbIndex, key: &[u8]) -> Result<u64, StoreError> {
        self.existing(db).map_or(Ok(0), |database| database.position(db, key))
    }

    fn counted_keys(&self, db: DbIndex) -> Result<Option<u64>, StoreError> {
        self.existing(db).map_or(Ok(Some(0)), |database| database.counted_keys(db))
    }

    fn expiry(&self, db: DbIndex) -> Result<Option<ExpiryStats>, StoreError> {
        self.existing(db).map_or(Ok(None), |database| database.expiry(db))
    }

    fn clear(&self, db: DbIndex) -> Result<SeqNo, StoreError> {
        if let Some(database) = self.existing(db) {
            database.clear(db)?;
        }
        Ok(self.last())
    }
}

impl Durable for Ranges {
    fn store_session(
        &self,
        db: DbIndex,
        depth: usize,
        bell: &Arc<Doorbell>,
    ) -> Result<Box<dyn StoreSession>, StoreError> {
        let session = self.database(db)?.store_session(db, depth, bell)?;
        Ok(session)
    }

    fn are_apart(&self) -> bool {
        true
    }

    fn write(
        &self,
        steps: &mut dyn Iterator<Item = Step>,
        has_room: Option<&dyn Fn()>,
    ) -> Result<SeqNo, StoreError> {
        // All steps are known before any of them is written.
        let all: Vec<Step> = steps.collect();
        let Some(Step { db, .. }) = all.first() else { return Ok(SeqNo::ZERO) };
        let db = *db;
        if let Some(other) = all.iter().find(|step| step.db != db) {
            return Err(StoreError::Refused(two_databases(db, other.db)));
        }
        let own = self.database(db)?.write(&mut all.into_iter(), has_room)?;
        Ok(self.number(own))
    }

    fn make(&self, db: DbIndex) -> Result<(), StoreError> {
        let _making = self.making.lock();
        let cell = self.databases.get(usize::from(db));
        let cell = cell.ok_or_else(|| StoreError::Refused("no such database".to_owned()))?;
        let database = match cell.get() {
            Some(database) => database,
            None => {
                let made = self.source.make(db).map_err(StoreError::Refused)?;
                let made = Database::new(&made, self.durability, self.engine)?;
                cell.get_or_init(|| made)
            }
        };
        database.make(db)
    }

    fn write_room(&self) -> u64 {
        // The database of a transaction is not known when it begins.
        let least = self.all().map(|(_, database)| database.write_room()).min();
        least.unwrap_or(super::database::WRITE_ROOM_LEAST_BYTES)
    }

    fn wait(&self, seqno: SeqNo) -> Result<(), StoreError> {
        if seqno == SeqNo::ZERO {
            return Ok(());
        }
        self.all().try_for_each(|(_, database)| database.wait(database.last()))
    }

    fn last(&self) -> SeqNo {
        SeqNo::new(self.all().map(|(_, database)| database.last().get()).sum())
    }

    fn save(&self) -> Result<(), StoreError> {
        self.all().try_for_each(|(_, database)| database.save())
    }

    fn backup(&self, _into: &Path) -> Result<(), StoreError> {
        Err(StoreError::Refused("databases of a cluster have no backups yet".to_owned()))
    }

    fn figures(&self) -> Vec<(String, u64)> {
        let of_one = |(index, database): (DbIndex, &Database)| {
            let figures = database.figures().into_iter();
            figures.map(move |(name, value)| (format!("db{index}_{name}"), value))
        };
        self.all().flat_map(of_one).collect()
    }

    fn refresh_metrics(&self) {
        self.all().for_each(|(_, database)| database.refresh_metrics());
    }

    fn pause_expiry(&self) -> PauseExpiry {
        self.source.pause_expiry()
    }

    fn memory(&self) -> (u64, u64) {
        self.source.memory_bytes()
    }

    fn commands(&self) -> &dyn Store {
        self
    }
}

/// Returns the refusal of a command that needs two databases.
pub(crate) fn two_databases(one: DbIndex, other: DbIndex) -> String {
    let (first, second) = (one.min(other), one.max(other));
    format!(
        "databases {first} and {second} are two ranges, and a command or transaction has to stay \
         within one"
    )
}
