//! Several commands as one write: an overlay that collects changes and writes them at once.
//!
//! 1. Commands run against the overlay, which answers from its own changes first, and from the
//!    store below for everything else.
//! 2. [`Transaction::commit`] writes all changes as one atomic batch.
//!
//! # Concurrency
//! Isolation is the caller's: nobody else executes meanwhile (`Gate::exclusive`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use codec::SeqNo;

use super::{Change, DbIndex, Durable, Step, Store, StoreError, Visit};

/// New stored values by database and key; `None` is a deletion.
type Changes = BTreeMap<(DbIndex, Vec<u8>), Option<Vec<u8>>>;

/// Changes that are not written yet, over a store.
pub(crate) struct Transaction<'a> {
    below: &'a dyn Durable,
    changes: RefCell<Changes>,
}

impl<'a> Transaction<'a> {
    /// A transaction without changes.
    pub(crate) fn new(below: &'a dyn Durable) -> Self {
        Self { below, changes: RefCell::default() }
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
        let steps: Vec<Step<'_>> = changes
            .iter()
            .map(|((db, key), value)| Step { db: *db, key, value: value.as_deref() })
            .collect();
        self.below.write(&steps).map(Some)
    }

    fn change(&self, db: DbIndex, key: &[u8], value: Option<Vec<u8>>) {
        self.changes.borrow_mut().insert((db, key.to_vec()), value);
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
        self.change(db, key, Some(value.to_vec()));
        Ok(SeqNo::ZERO)
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
            Change::Keep => {}
            Change::Put(value) => self.change(db, key, Some(value)),
            Change::Delete => self.change(db, key, None),
        }
        Ok(SeqNo::ZERO)
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
                    return ControlFlow::Break(());
                }
                if our_key == key {
                    return ControlFlow::Continue(());
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
        let mut keys = Vec::new();
        self.scan(db, &[], &mut |key, _| {
            keys.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        for key in keys {
            self.changes.borrow_mut().insert((db, key), None);
        }
        Ok(SeqNo::ZERO)
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
