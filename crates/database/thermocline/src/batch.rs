//! A write of many steps, over any keyspaces of one database, atomic.

use codec::SeqNo;
use engine::{KeyRange, Op};

use crate::database::Db;
use crate::error::Result;
use crate::expiry::{ClockReading, Expiring};
use crate::keyspace::Keyspace;

/// Steps that become visible and durable together or not at all. If two steps have the same key,
/// the later one counts.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// use thermocline::{Batch, Db, Options};
/// let db = Db::open(dir.path(), Options::default())?;
/// let accounts = db.keyspace("accounts", Default::default())?;
/// let log = db.keyspace("log", Default::default())?;
/// let mut batch = Batch::new();
/// batch.put(&accounts, b"alice", b"90").put(&accounts, b"bob", b"110");
/// batch.put(&log, b"1", b"alice pays bob 10");
/// db.write(&batch)?;
/// assert_eq!(accounts.get(b"bob")?.as_deref(), Some(&b"110"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) keyspace: Keyspace,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Put {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// A put of a value with an expiry, which only a keyspace of such values takes.
    PutUntil {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Delete {
        key: Vec<u8>,
    },
    DeleteRange {
        start: Vec<u8>,
        end: Option<Vec<u8>>,
    },
    Merge {
        key: Vec<u8>,
        operand: Vec<u8>,
    },
}

/// A step of a batch, in the form in which it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchStep<'a> {
    /// A put or a delete.
    Write(Op<'a>),
    /// A merge.
    Merge {
        /// The key.
        key: &'a [u8],
        /// The operator's operand.
        operand: &'a [u8],
    },
}

impl Step {
    /// Returns the op to store, with the clock at `moment`: a put of an expired value is a
    /// delete.
    /// The result of a merge is not known yet, so a merge gives a put of its operand.
    pub(crate) fn op(&self, moment: ClockReading) -> Op<'_> {
        match &self.what {
            What::Put { key, value } | What::PutUntil { key, value } => {
                self.keyspace.put_op_at(moment, key, value)
            }
            What::Delete { key } => Op::Delete { key },
            What::DeleteRange { start, end } => Op::DeleteRange { start, end: end.as_deref() },
            What::Merge { key, operand } => Op::Put { key, value: operand },
        }
    }

    /// Returns the id that its key is locked under, and the key; for a range, its first key.
    pub(crate) fn place(&self) -> (u32, &[u8]) {
        let (What::Put { key, .. }
        | What::PutUntil { key, .. }
        | What::Delete { key }
        | What::DeleteRange { start: key, .. }
        | What::Merge { key, .. }) = &self.what;
        (self.keyspace.entry.lock_id, key)
    }

    /// Returns the operand, for a merge.
    pub(crate) fn operand(&self) -> Option<&[u8]> {
        match &self.what {
            What::Merge { operand, .. } => Some(operand),
            What::Put { .. }
            | What::PutUntil { .. }
            | What::Delete { .. }
            | What::DeleteRange { .. } => None,
        }
    }

    /// Refuses a value that cannot be stored, and a merge without an operator.
    pub(crate) fn check_stored(&self) -> Result<()> {
        match &self.what {
            What::Put { value, .. } => self.keyspace.check_stored(value),
            What::PutUntil { .. } => self.keyspace.check_expiring(),
            What::Delete { .. } | What::DeleteRange { .. } => Ok(()),
            What::Merge { .. } => self.keyspace.merging().map(drop),
        }
    }

    /// Returns the step in the form in which it was given.
    fn given(&self) -> BatchStep<'_> {
        BatchStep::Write(match &self.what {
            What::Put { key, value } | What::PutUntil { key, value } => {
                Op::Put { key, value: self.keyspace.shown(value) }
            }
            What::Delete { key } => Op::Delete { key },
            What::DeleteRange { start, end } => Op::DeleteRange { start, end: end.as_deref() },
            What::Merge { key, operand } => return BatchStep::Merge { key, operand },
        })
    }
}

impl Batch {
    /// Makes a batch without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> &mut Self {
        let value = match keyspace.hides_expiry() {
            true => Expiring { value, expiry_ms: None }.to_stored(),
            // A value that is not in its stored form is refused when it is written.
            false => value.to_vec(),
        };
        self.push(keyspace, What::Put { key: key.to_vec(), value })
    }

    /// Adds a put of a value that expires, as [`crate::ExpiringKeyspace::put`] does. It is a delete
    /// if the expiry is past when the batch is written. If the keyspace was not made for expiring
    /// values, writing the batch returns [`crate::Error::NotExpiring`].
    pub fn put_with_expiry(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expiry_ms: u64,
    ) -> &mut Self {
        let value = Expiring { value, expiry_ms: Some(expiry_ms) }.to_stored();
        self.push(keyspace, What::PutUntil { key: key.to_vec(), value })
    }

    /// Adds a delete.
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> &mut Self {
        self.push(keyspace, What::Delete { key: key.to_vec() })
    }

    /// Adds a delete of every key in `range`, also of keys that earlier steps put there
    /// ([`Keyspace::delete_range`]). A range that can have no key is no step.
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: &KeyRange) -> &mut Self {
        match range.half_open() {
            Some((start, end)) => self.push(keyspace, What::DeleteRange { start, end }),
            None => self,
        }
    }

    /// Returns the number of steps so far.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Forgets the steps and keeps the room.
    pub fn clear(&mut self) {
        self.steps.clear();
    }

    /// Returns the steps, in order, each with its keyspace. Values are without their expiry.
    pub fn iter(&self) -> impl Iterator<Item = (&str, BatchStep<'_>)> {
        self.steps.iter().map(|step| (step.keyspace.name(), step.given()))
    }

    pub(crate) fn push_merge(
        &mut self,
        keyspace: &Keyspace,
        key: Vec<u8>,
        operand: Vec<u8>,
    ) -> &mut Self {
        self.push(keyspace, What::Merge { key, operand })
    }

    fn push(&mut self, keyspace: &Keyspace, what: What) -> &mut Self {
        self.steps.push(Step { keyspace: keyspace.clone(), what });
        self
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns whether any of it is journaled.
    pub(crate) fn is_journaled(&self) -> bool {
        self.steps.iter().any(|step| step.keyspace.entry.options.journaled)
    }
}

impl Db {
    /// Writes a batch: all of it or nothing, also across a crash. When this returns it is visible
    /// and has reached this handle's durability.
    ///
    /// Steps in keyspaces without a journal are atomic with the others as long as the process
    /// lives, but not across a crash.
    ///
    /// # Errors
    /// As each step's own call; [`WriteTooLarge`](crate::Error::WriteTooLarge);
    /// [`NoKeyspace`](crate::Error::NoKeyspace) also for a keyspace of another database. Nothing
    /// was written then, with two exceptions. After
    /// [`NotYetDurable`](crate::Error::NotYetDurable) all of the batch is applied. After a failure
    /// of the storage that stops writes ([`ReadOnly`](crate::Error::ReadOnly) from then on), the
    /// batch may or may not be there once the database is opened again, always as a whole.
    pub fn write(&self, batch: &Batch) -> Result<SeqNo> {
        self.write_after(batch, || {})
    }

    /// The same, with a call of `has_room` once the batch has waited for room in its engines and
    /// for a journal that is far too long. A caller that must hold something during the write takes
    /// it there, and does not hold it during such a wait.
    ///
    /// # Errors
    /// As [`Db::write`]. If the batch is refused before it has room, `has_room` is not called.
    pub fn write_after(&self, batch: &Batch, has_room: impl FnOnce()) -> Result<SeqNo> {
        let inner = &*self.inner;
        match inner.write_batch(batch, has_room)? {
            Some(seqno) => inner.acknowledge(seqno, batch.is_journaled(), self.durability),
            None => Ok(inner.order.sequence.visible()),
        }
    }
}
