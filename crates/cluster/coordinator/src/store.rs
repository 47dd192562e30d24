//! The store of a coordinator's records.

use std::fmt::Debug;

/// The revision of a record: each commit gives a larger one to the records that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// A record with its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The bytes of the record.
    pub value: Vec<u8>,
    /// Its revision.
    pub revision: Revision,
}

/// The revision that a key must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The key.
    pub key: String,
    /// The revision; none if there must be no such key.
    pub revision: Option<Revision>,
}

/// A write of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: String,
    /// The bytes of the record; none removes the key.
    pub value: Option<Vec<u8>>,
}

/// A failure of the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached. A commit may have happened, or not.
    #[error("the store of the coordinator cannot be reached: {0}")]
    Unavailable(String),
    /// Another coordinator leads. Nothing has happened.
    #[error("this coordinator does not lead")]
    NotLeader,
}

/// A small, durable map of records, with commits over several of them. (C1)
pub trait Store: Send + Sync + Debug {
    /// Returns a record.
    ///
    /// # Errors
    /// [`StoreError`].
    fn get(&self, key: &str) -> Result<Option<Versioned>, StoreError>;

    /// Returns all records whose keys begin with `prefix`, in the order of the keys.
    ///
    /// # Errors
    /// [`StoreError`].
    fn list(&self, prefix: &str) -> Result<Vec<(String, Versioned)>, StoreError>;

    /// Makes all `writes` if all keys of `compares` have their revisions. Durable on return.
    /// Returns whether it did. A commit of unknown outcome whose compared keys have changed since
    /// never happens.
    ///
    /// # Errors
    /// [`StoreError`].
    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<bool, StoreError>;
}

impl Compare {
    /// Compares a key with the state in which it was read.
    pub fn unchanged(key: &str, read: Option<&Versioned>) -> Self {
        Self { key: key.to_owned(), revision: read.map(|read| read.revision) }
    }
}

impl Write {
    /// Writes a record.
    pub fn put(key: &str, value: Vec<u8>) -> Self {
        Self { key: key.to_owned(), value: Some(value) }
    }

    /// Removes a record.
    pub fn remove(key: &str) -> Self {
        Self { key: key.to_owned(), value: None }
    }
}
