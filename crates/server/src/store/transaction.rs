//! Several commands as one write: an overlay that collects changes and writes them at once.
//!
//! 1. Commands run against the overlay, which answers from its own changes first, and from the
//!    store below for everything else.
//! 2. [`Transaction::commit`] writes all changes as one atomic batch.
//!
//! # Invariants
//! I1. The changes take no more than [`Durable::write_room`] allowed when the transaction began; a
//!     change beyond it is refused, and the caller must not commit.
//!
//! # Concurrency
//! Isolation is the caller's: nobody else executes meanwhile (`Gate::exclusive`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::ops::ControlFlow::{Break, Continue};

use codec::SeqNo;

use super::{Change, DbIndex, Durable, Step, Store, StoreError, Visit};

/// New stored values by database and key; `None` is a deletion.
type Changes = BTreeMap<(DbIndex, Vec<u8>), Option<Vec<u8>>>;

/// Changes that are not written yet, over a store.
pub(crate) struct Transaction<'a> {
    below: &'a dyn Durable,
    changes: RefCell<Changes>,
    /// What the changes take, and the most they may.
    bytes: Cell<u64>,
    room: u64,
}

/// What a change takes beside its key and value: its place in the overlay, and more than its head
/// in the journal.
const CHANGE_BYTES: u64 = 128;

fn change_bytes(key: &[u8], value: Option<&[u8]>) -> u64 {
    CHANGE_BYTES + key.len() as u64 + value.map_or(0, <[u8]>::len) as u64
}

impl<'a> Transaction<'a> {
    /// A transaction without changes.
    pub(crate) fn new(below: &'a dyn Durable) -> Self {
        let room = below.write_room();
        Self { below, changes: RefCell::default(), bytes: Cell::new(0), room }
    }

    /// Writes all changes as one; `None` if there were none.
    ///
    /// # Errors
    /// The store's; then nothing was written.
    pub(crate) fn commit(self) -> Result<Option<SeqNo>, StoreError> {
        let changes = self.changes.into_inner();
        if changes.is_empty() {
            return Ok(None);
        }
        // Each is freed once the batch has taken it.
        let mut steps = changes.into_iter().map(|((db, key), value)| Step { db, key, value });
        self.below.write(&mut steps).map(Some)
    }

    fn change(&self, db: DbIndex, key: &[u8], value: Option<Vec<u8>>) -> Result<SeqNo, StoreError> {
        let bytes = self.bytes.get() + change_bytes(key, value.as_deref());
        if bytes > self.room {
            let room = self.room;
            return Err(StoreError::Full(format!(
                "command not allowed: the transaction changes more than {room} bytes"
            )));
        }
        let old = self.changes.borrow_mut().insert((db, key.to_vec()), value);
        self.bytes.set(bytes - old.map_or(0, |old| change_bytes(key, old.as_deref())));
        Ok(SeqNo::ZERO)
    }
}

impl Store for Transaction<'_> {
    fn get(&self, db: DbIndex, key: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        let changes = self.changes.borrow();
        let Some(value) = changes.get(&(db, key.to_vec())) else {
            return self.below.get(db, key, into);
        };
        into.clear();
        into.extend_from_slice(value.as_deref().unwrap_or_default());
        Ok(value.is_some())
    }

    fn put(&self, db: DbIndex, key: &[u8], value: &[u8]) -> Result<SeqNo, StoreError> {
        self.change(db, key, Some(value.to_vec()))
    }

    fn update(
        &self,
        db: DbIndex,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<SeqNo, StoreError> {
        let mut value = Vec::new();
        let present = self.get(db, key, &mut value)?;
        match decide(present.then_some(value.as_slice())) {
            Change::Keep => Ok(SeqNo::ZERO),
            Change::Put(value) => self.change(db, key, Some(value)),
            Change::Delete => self.change(db, key, None),
        }
    }

    fn scan(&self, db: DbIndex, from: &[u8], visit: &mut Visit<'_>) -> Result<(), StoreError> {
        let changes = self.changes.borrow();
        let range = (Bound::Included((db, from.to_vec())), upper_end(db));
        let mut ours = changes.range(range).peekable();
        let mut stopped = false;
        self.below.scan(db, from, &mut |key, value| {
            while let Some(((_, our_key), our_value)) =
                ours.next_if(|((_, our_key), _)| our_key.as_slice() <= key)
            {
                if let Some(our_value) = our_value
                    && visit(our_key, our_value).is_break()
                {
                    stopped = true;
                    return Break(());
                }
                if our_key == key {
                    return Continue(());
                }
            }
            let flow = visit(key, value);
            stopped = flow.is_break();
            flow
        })?;
        for ((_, key), value) in ours {
            if stopped {
                break;
            }
            if let Some(value) = value {
                stopped = visit(key, value).is_break();
            }
        }
        Ok(())
    }

    fn key_count(&self, db: DbIndex) -> Result<u64, StoreError> {
        let mut count = self.below.key_count(db)?;
        let mut below = Vec::new();
        for ((_, key), value) in self.changes.borrow().range((lower_end(db), upper_end(db))) {
            count += u64::from(value.is_some());
            count -= u64::from(self.below.get(db, key, &mut below)?);
        }
        Ok(count)
    }

    fn clear(&self, db: DbIndex) -> Result<SeqNo, StoreError> {
        // A slice at a time, so that the keys wait in little memory.
        const SLICE_KEYS: usize = 1000;
        let (mut from, mut keys) = (Vec::new(), Vec::new());
        loop {
            self.scan(db, &from, &mut |key, _| {
                keys.push(key.to_vec());
                if keys.len() < SLICE_KEYS { Continue(()) } else { Break(()) }
            })?;
            let Some(last) = keys.last() else { return Ok(SeqNo::ZERO) };
            from = [last.as_slice(), &[0]].concat();
            for key in keys.drain(..) {
                self.change(db, &key, None)?;
            }
        }
    }
}

fn lower_end(db: DbIndex) -> Bound<(DbIndex, Vec<u8>)> {
    Bound::Included((db, Vec::new()))
}

/// The end of the changes of one database.
fn upper_end(db: DbIndex) -> Bound<(DbIndex, Vec<u8>)> {
    Bound::Excluded((db + 1, Vec::new()))
}

#[cfg(test)]
mod tests;
