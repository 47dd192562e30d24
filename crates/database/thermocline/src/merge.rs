//! Merging: a named operator makes a key's new value from the present one and an operand.
//!
//! 1. A program registers operators by name when it opens the database ([`MergeOperators`]). The
//!    catalog keeps the name of the operator that each keyspace is merged by ([`crate::catalog`]).
//! 2. A merge is made when it is requested. The keys are locked, the present values read, and the
//!    operator called for the new ones, before anything is journaled. So journal and engines have
//!    puts and deletes alone, and recovery and reads need no operator. A merge of one key is a
//!    read-modify-write ([`crate::rmw`]); for a batch see [`batch`], for a transaction
//!    `transaction/writes.rs`.
//!
//! # Invariants
//! - G1. The values of a keyspace are merged by one operator for life: a name that it has is never
//!   changed.
//! - G2. If the operator refuses one merge of a write, nothing of that write is made.
//! - G3. An operator gets values in the form that users know: without their expiry, which does not
//!   change, and without values that have expired.

pub(crate) mod batch;
mod name;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use codec::SeqNo;
use engine::{Change, Operator, check_value};

use crate::error::{Error, Result};
use crate::expiry::{ClockReading, ValueForm, change_living};
use crate::keyspace::Keyspace;
use crate::keyspace_entry::KeyspaceEntry;

pub use name::MergeName;

/// A function that makes a key's new value from the key, its present value if it has one, and an
/// operand.
type Merge =
    dyn Fn(&[u8], Option<&[u8]>, &[u8]) -> std::result::Result<Change, String> + Send + Sync;

/// The operators that a program has for merges ([`crate::Options::merge_operators`]), by their
/// names.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use thermocline::{Batch, Change, Db, KeyspaceOptions, MergeName, MergeOperators, Options};
///
/// let add: MergeName = "add".parse()?;
/// let number = |bytes: &[u8]| match bytes.try_into() {
///     Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
///     Err(_) => Err("no number of 8 bytes".to_owned()),
/// };
/// let operators = MergeOperators::new().with(add, move |_key, value, operand| {
///     let sum = value.map_or(Ok(0), number)?.checked_add(number(operand)?);
///     Ok(Change::Put(sum.ok_or("the sum is too large")?.to_le_bytes().to_vec()))
/// });
/// let db = Db::open(dir.path(), Options { merge_operators: operators, ..Options::default() })?;
/// let hits = db.keyspace("hits", KeyspaceOptions { merge: Some(add), ..Default::default() })?;
/// hits.merge(b"page", &1_u64.to_le_bytes())?;
/// db.write(Batch::new().merge(&hits, b"page", &2_u64.to_le_bytes()))?;
/// db.transaction(|tx| tx.merge(&hits, b"page", &3_u64.to_le_bytes()))?;
/// assert_eq!(hits.get(b"page")?, Some(6_u64.to_le_bytes().to_vec()));
/// assert!(hits.merge(b"page", b"x").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct MergeOperators {
    known: BTreeMap<MergeName, Arc<Merge>>,
    elsewhere: bool,
}

impl MergeOperators {
    /// Makes a set without operators.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the operators with one more; if two have the same name, the later one counts. The
    /// operator gets the key, its present value and the operand, with the key locked;
    /// [`Change::Keep`] changes nothing. It may be called several times for one merge, and the last
    /// result counts. It must not use the database. An error refuses the merge
    /// ([`Error::MergeRefused`]).
    #[must_use]
    pub fn with(
        mut self,
        name: MergeName,
        merge: impl Fn(&[u8], Option<&[u8]>, &[u8]) -> std::result::Result<Change, String>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.known.insert(name, Arc::new(merge));
        self
    }

    /// Returns no operators, for a tool that makes keyspaces in which another program merges: a
    /// keyspace may have any name, and merges are refused.
    pub fn elsewhere() -> Self {
        Self { elsewhere: true, ..Self::default() }
    }

    /// Refuses a name that nothing is registered by.
    ///
    /// # Errors
    /// [`Error::UnknownMergeOperator`].
    pub(crate) fn check(&self, name: MergeName) -> Result<()> {
        match self.elsewhere || self.known.contains_key(&name) {
            true => Ok(()),
            false => Err(Error::UnknownMergeOperator { name }),
        }
    }

    fn of(&self, name: MergeName) -> Result<&Arc<Merge>> {
        self.known.get(&name).ok_or(Error::UnknownMergeOperator { name })
    }
}

impl fmt::Debug for MergeOperators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.known.keys()).finish()
    }
}

/// The operator of one keyspace.
#[derive(Clone, Copy)]
pub(crate) struct Merging<'a> {
    merge: &'a Arc<Merge>,
    name: MergeName,
    entry: &'a Arc<KeyspaceEntry>,
}

impl Merging<'_> {
    /// Returns the operator's change of a value in the form that users know.
    ///
    /// # Errors
    /// [`Error::MergeRefused`].
    pub(crate) fn of_value(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        operand: &[u8],
    ) -> Result<Change> {
        (self.merge)(key, value, operand).map_err(|why| Error::MergeRefused {
            keyspace: self.entry.name.clone(),
            key: key.to_vec(),
            operator: self.name,
            why,
        })
    }

    /// Returns the operator's change of a value in its stored form, with the clock at `moment`
    /// [G3].
    ///
    /// # Errors
    /// The same; the stored value is damaged.
    pub(crate) fn of_stored(
        &self,
        moment: ClockReading,
        key: &[u8],
        stored: Option<&[u8]>,
        operand: &[u8],
    ) -> Result<Change> {
        if self.entry.options.expiring {
            return change_living(moment, stored, |value| self.of_value(key, value, operand));
        }
        self.of_value(key, stored, operand)
    }
}

/// One merge as a read-modify-write of a value as users know it.
struct Once<'a> {
    merging: Merging<'a>,
    key: &'a [u8],
    operand: &'a [u8],
    /// Of the last call: then it has changed nothing [G2].
    refusal: Option<Error>,
}

impl Operator for Once<'_> {
    fn update(&mut self, value: Option<&[u8]>) -> Change {
        match self.merging.of_value(self.key, value, self.operand) {
            Ok(change) => {
                self.refusal = None;
                change
            }
            Err(refusal) => {
                self.refusal = Some(refusal);
                Change::Keep
            }
        }
    }
}

/// The same for a thread that makes it later.
pub(crate) struct LaterMerge {
    merge: Arc<Merge>,
    name: MergeName,
    entry: Arc<KeyspaceEntry>,
    key: Vec<u8>,
    operand: Vec<u8>,
    /// Of the last call: then it has changed nothing [G2].
    pub(crate) refusal: Option<Error>,
}

impl Merging<'_> {
    pub(crate) fn later(&self, key: &[u8], operand: &[u8]) -> LaterMerge {
        self.entry.last_instance().updates.note_merge(key, operand);
        LaterMerge {
            merge: Arc::clone(self.merge),
            name: self.name,
            entry: Arc::clone(self.entry),
            key: key.to_vec(),
            operand: operand.to_vec(),
            refusal: None,
        }
    }
}

impl Operator for LaterMerge {
    fn update(&mut self, value: Option<&[u8]>) -> Change {
        let merging = Merging { merge: &self.merge, name: self.name, entry: &self.entry };
        let (key, operand) = (&self.key, &self.operand);
        let mut once = Once { merging, key, operand, refusal: None };
        let change = once.update(value);
        self.refusal = once.refusal;
        change
    }
}

impl Keyspace {
    /// Has the keyspace's merge operator make the key's new value from the present one and
    /// `operand`, atomically ([`crate::KeyspaceOptions::merge`]). Returns the write's number, or
    /// `None` if nothing changed. Costs the same as a [`Keyspace::rmw`]: the old value is read, and
    /// the journal and the engine get the whole new one, however short the operand is
    /// ([`crate::UpdateStats`] counts both). The operator is called before this returns, and by no
    /// read later. The expiry of a value does not change.
    ///
    /// # Errors
    /// [`Error::NoMergeOperator`], [`Error::UnknownMergeOperator`], and [`Error::MergeRefused`]
    /// with the operator's reason: nothing was written. Otherwise as [`Keyspace::rmw`].
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<Option<SeqNo>> {
        let merging = self.merging()?;
        check_value(operand)?;
        let mut once = Once { merging, key, operand, refusal: None };
        let done = self.inner.rmw(&self.entry, ValueForm::Values, key, &mut once, self.durability);
        let done = once.refusal.map_or(done, Err)?;
        self.entry.last_instance().updates.note_merge(key, operand);
        Ok(done)
    }

    /// Returns the operator that this keyspace is merged by.
    ///
    /// # Errors
    /// [`Error::NoMergeOperator`], [`Error::UnknownMergeOperator`].
    pub(crate) fn merging(&self) -> Result<Merging<'_>> {
        let missing = || Error::NoMergeOperator { keyspace: self.name().to_owned() };
        let name = self.entry.merge().ok_or_else(missing)?;
        let merge = self.inner.options.merge_operators.of(name)?;
        Ok(Merging { merge, name, entry: &self.entry })
    }
}
