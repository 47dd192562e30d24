//! The interface to the data: the operations that the commands need of a store, and no more.

pub(crate) mod database;
pub(crate) mod gateway;
pub(crate) mod known;
pub(crate) mod ranges;
pub(crate) mod reads;
pub(crate) mod session;
pub(crate) mod transaction;
pub(crate) mod walks;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use thermocline::SeqNo;
use thermocline::{Doorbell, ExpiryStats, PauseExpiry};

/// Which of the 16 numbered databases.
pub(crate) type DbIndex = u8;

/// How many numbered databases there are.
pub(crate) const DB_COUNT: DbIndex = 16;

/// A failed store operation, by its meaning for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// A write failed earlier, or just now, and stopped all writes until the store is reopened.
    #[error("{0}")]
    ReadOnly(String),
    /// No memory is left for data.
    #[error("{0}")]
    Full(String),
    /// This request cannot be done; others can.
    #[error("{0}")]
    Refused(String),
    /// The database has to be made first ([`Durable::make`]), which waits for the device.
    #[error("the database is not there yet")]
    NoDatabase,
    /// A write that must not wait would have to. Nothing was written.
    #[error("the write has to wait")]
    MustWait,
}

/// The decision of an update. The same as the engines' own.
pub(crate) use thermocline::Change;

/// One step of a [`Store::write`].
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) db: DbIndex,
    pub(crate) key: Vec<u8>,
    /// The stored value, or `None` to delete.
    pub(crate) value: Option<Vec<u8>>,
}

/// A callback that a walk calls with each pair: the key and its stored value.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;

/// A callback for each of many keys: it gets the key's index, and its stored value if it has one.
pub(crate) type Found<'a> = dyn FnMut(usize, Option<&[u8]>) + 'a;

/// A store of numbered databases. Values are in their stored form, with their expiry
/// ([`thermocline::Expiring`]), expired or not: each command decides by its own clock which values
/// have expired.
///
/// A write fails with [`StoreError::NoDatabase`] if its database was not made.
///
/// Writes are applied when the call returns (every later read sees them) but not yet durable: the
/// caller calls [`Durable::wait`] for that, once for many.
pub(crate) trait Store {
    /// Replaces the content of `into` with the key's value; returns `false` if it has none.
    fn get(&self, db: DbIndex, key: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError>;

    /// [`Store::get`] as far as it comes without waiting for the device: `None` if it would have
    /// to.
    fn try_get(
        &self,
        db: DbIndex,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Option<bool>, StoreError> {
        self.get(db, key, into).map(Some)
    }

    /// Reads many keys in one call, whose reads of the device overlap. `found` is called once for
    /// each, in any order, with its index and its value.
    fn multi_get(
        &self,
        db: DbIndex,
        keys: &[&[u8]],
        found: &mut Found<'_>,
    ) -> Result<(), StoreError>;

    /// Sets the value of `key`, over any old one.
    fn put(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError>;

    /// [`Store::put`] without waiting: for room, a shorter journal, or a lock that is held for
    /// long. Fails with [`StoreError::MustWait`], and nothing has changed, if it would have to.
    fn try_put(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError> {
        self.put(db, key, value)
    }

    /// Removes `key`, which the caller knows to be there.
    fn delete(&self, db: DbIndex, key: &[u8]) -> Result<SeqNo, StoreError>;

    /// Changes one key atomically. `decide` may be called more than once; the last call counts.
    /// The number is zero if nothing changed.
    fn update(
        &self,
        db: DbIndex,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<SeqNo, StoreError>;

    /// [`Store::update`] without waiting. Returns `None`, and nothing has changed, if the device
    /// has to be read. Fails as [`Store::try_put`].
    fn try_update(
        &self,
        db: DbIndex,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<SeqNo>, StoreError> {
        self.update(db, key, decide).map(Some)
    }

    /// Waits until a short write to the database would not have to wait for room. Other writes may
    /// take the room first. An error is left to the write, which gets it too.
    fn wait_to_write(&self, _db: DbIndex) {}

    /// Whether the database is there, so that writes to it need not make it.
    fn exists(&self, _db: DbIndex) -> bool {
        true
    }

    /// Visits pairs by ascending position, and by key where positions are equal, until `visit`
    /// breaks: from the beginning, or from the position of `from`, itself included if it is there.
    /// A pair that is there all the while is met once, also by a walk that is begun again.
    fn walk(
        &self,
        db: DbIndex,
        from: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError>;

    /// Whether all positions are equal, so that a walk goes by key.
    fn is_ordered(&self, db: DbIndex) -> bool;

    /// Returns the position of a key, whether it is there or not. It stays until the database is
    /// cleared, once there is one ([`Durable::make`]).
    fn position(&self, db: DbIndex, key: &[u8]) -> Result<u64, StoreError>;

    /// Returns the number of keys, including expired ones that were not swept yet; `None` if the
    /// store does not count them.
    fn counted_keys(&self, db: DbIndex) -> Result<Option<u64>, StoreError>;

    /// Returns the known figures of its expiring keys; `None` if the store removes no expired ones.
    fn expiry(&self, _db: DbIndex) -> Result<Option<ExpiryStats>, StoreError> {
        Ok(None)
    }

    /// Removes every key of `db`.
    fn clear(&self, db: DbIndex) -> Result<SeqNo, StoreError>;
}

/// Writes that are made if keys still have the values that were read.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    pub(crate) db: DbIndex,
    /// Keys and the stored values that they must have, none for an absent key.
    pub(crate) expects: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) steps: Vec<Step>,
}

/// The reaction to values that were read, in the order of their keys. It may be called on any
/// thread.
pub(crate) type OnRead = Box<dyn FnOnce(Result<Vec<Option<Vec<u8>>>, StoreError>) + Send>;

/// The reaction to the end of a commit: whether all keys had their values. It may be called on any
/// thread.
pub(crate) type OnCommitted = Box<dyn FnOnce(Result<bool, StoreError>) + Send>;

/// A store of other processes, which are also used by other servers: commands that write are
/// committed by comparing the values that they have read. No call waits, but for
/// [`Remote::databases`].
pub(crate) trait Remote: Send + Sync {
    /// Reads the stored values of keys.
    fn read(&self, db: DbIndex, keys: Vec<Vec<u8>>, on_read: OnRead);

    /// Makes the steps of a commit, all or none, if all expected values are the present ones. They
    /// are durable when `on_committed` is called.
    fn commit(&self, commit: Commit, on_committed: OnCommitted);

    /// Returns the databases that are there. Waits for the other processes.
    fn databases(&self) -> Result<Vec<DbIndex>, StoreError>;

    /// Returns whether the places of the keys of a database are known.
    fn is_known(&self, db: DbIndex) -> bool;

    /// Divides keys by the places that have them. A commit has the keys of one place.
    fn places(&self, db: DbIndex, keys: &[&[u8]]) -> Vec<Vec<usize>>;
}

/// A [`Store`] with a disk behind it.
pub(crate) trait Durable: Store + Send + Sync {
    /// Returns a store session at database `db` for up to `depth` lookups under way, which rings
    /// `bell` when there is something to complete. It is for reads and updates that
    /// [`Store::try_get`] and [`Store::try_update`] could not do.
    fn store_session(
        &self,
        db: DbIndex,
        depth: usize,
        bell: &Arc<Doorbell>,
    ) -> Result<Box<dyn session::StoreSession>, StoreError>;

    /// Returns the store of other processes, if it is one.
    fn remote(&self) -> Option<&dyn Remote> {
        None
    }

    /// Whether each database has its own log, so that no write or transaction is in two of them.
    fn are_apart(&self) -> bool {
        false
    }

    /// Applies all steps as one write, whole or not at all across a crash. If it may wait it waits
    /// for room, and then calls `has_room` before it writes. Without `has_room` it must not wait,
    /// and fails as [`Store::try_put`].
    fn write(
        &self,
        steps: &mut dyn Iterator<Item = Step>,
        has_room: Option<&dyn Fn()>,
    ) -> Result<SeqNo, StoreError>;

    /// Makes database `db` if there is none, so that its keys have positions. Waits for the device
    /// then.
    fn make(&self, db: DbIndex) -> Result<(), StoreError>;

    /// Bytes of keys and values that one [`Durable::write`] may bring now.
    fn write_room(&self) -> u64;

    /// Returns once every write up to `seqno` has the durability that the server was started with.
    fn wait(&self, seqno: SeqNo) -> Result<(), StoreError>;

    /// Returns the last write's number: a reply that shows this write may go out after a
    /// [`Durable::wait`] for it.
    fn last(&self) -> SeqNo;

    /// Makes everything written so far durable on the device.
    fn save(&self) -> Result<(), StoreError>;

    /// Adds a backup to the directory of them `into`, while others read and write.
    fn backup(&self, into: &Path) -> Result<(), StoreError>;

    /// Named figures for INFO and `/metrics`.
    fn figures(&self) -> Vec<(String, u64)>;

    /// Brings figures that are kept elsewhere into the telemetry registry.
    fn refresh_metrics(&self);

    /// Returns a hold that keeps the store from removing expired values by itself.
    fn pause_expiry(&self) -> PauseExpiry {
        PauseExpiry::default()
    }

    /// Bytes of memory that data takes, and the most it may take.
    fn memory(&self) -> (u64, u64);

    /// The store as its own supertrait, for commands.
    fn commands(&self) -> &dyn Store;
}
