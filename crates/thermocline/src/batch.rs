//! A write of many steps, over any keyspaces of one database, atomic.

use engine::Op;

use crate::keyspace::Keyspace;

/// Steps that become visible and durable together or not at all. Of two steps on one key the
/// later one stands.
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
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Step {
    pub(crate) fn op(&self) -> Op<'_> {
        match &self.value {
            Some(value) => Op::Put { key: &self.key, value },
            None => Op::Delete { key: &self.key },
        }
    }
}

impl Batch {
    /// No steps yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> &mut Self {
        self.push(keyspace, key, Some(value.to_vec()))
    }

    /// Adds a delete.
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> &mut Self {
        self.push(keyspace, key, None)
    }

    /// Steps so far.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Forgets the steps and keeps the room.
    pub fn clear(&mut self) {
        self.steps.clear();
    }

    /// The steps, in order: keyspace, key, and the value unless it is a delete.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8], Option<&[u8]>)> {
        self.steps.iter().map(|step| (step.keyspace.name(), step.op().key(), step.op().value()))
    }

    fn push(&mut self, keyspace: &Keyspace, key: &[u8], value: Option<Vec<u8>>) -> &mut Self {
        self.steps.push(Step { keyspace: keyspace.clone(), key: key.to_vec(), value });
        self
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }
}
