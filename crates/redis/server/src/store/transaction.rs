//! Several commands as one write: an overlay that collects changes and writes them together.
//!
//! 1. Commands run against the overlay. It returns its own changes first, then values that were
//!    read before the transaction ([`Known`]), and asks the store below for everything else.
//! 2. A walk merges the two by the store's own order: by position, then by key.
//! 3. [`Transaction::commit`] writes all changes as one atomic batch.
//!
//! # Invariants
//! I1. The changes take no more than [`Durable::write_room`] allowed when the transaction began; a
//!     change beyond it is refused, and the caller must not commit.
//!
//! # Concurrency
//! Isolation is the caller's: no other command writes meanwhile (`Gate`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::ops::ControlFlow::{Break, Continue};

use thermocline::ExpiryStats;
use thermocline::SeqNo;

use super::known::Known;
use super::{Change, DbIndex, Durable, Found, Step, Store, StoreError, Visit};

/// New stored values by database, position and key, which is the order of the store's own walks;
/// `None` is a deletion.
type Changes = BTreeMap<(DbIndex, u64, Vec<u8>), Option<Vec<u8>>>;

/// Changes that are not written yet, over a store.
pub(crate) struct Transaction<'a> {
    below: &'a dyn Durable,
    known: Option<&'a Known>,
    changes: RefCell<Changes>,
    /// Bytes of the changes, and the most they may take.
    bytes: Cell<u64>,
    room: u64,
}

/// Bytes that a change takes besides its key and value: its place in the overlay, and more than its
/// head in the journal.
const CHANGE_BYTES: u64 = 128;

fn change_bytes(key: &[u8], value: Option<&[u8]>) -> u64 {
    CHANGE_BYTES + key.len() as u64 + value.map_or(0, <[u8]>::len) as u64
}

impl<'a> Transaction<'a> {
    /// A transaction without changes. The values of `known` are from `below`.
    pub(crate) fn new(below: &'a dyn Durable, known: Option<&'a Known>) -> Self {
        let room = below.write_room();
        Self { below, known, changes: RefCell::default(), bytes: Cell::new(0), room }
    }

    /// Whether it has no changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.borrow().is_empty()
    }

    /// Returns the value of a key before the transaction, if it was read then.
    fn known(&self, db: DbIndex, key: &[u8]) -> Option<Option<&'a [u8]>> {
        self.known?.get(db, key)
    }

    fn get_below(&self, db: DbIndex, key: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        let Some(value) = self.known(db, key) else { return self.below.get(db, key, into) };
        into.clear();
        into.extend_from_slice(value.unwrap_or_default());
        Ok(value.is_some())
    }

    /// Returns the changes, which are not written.
    pub(crate) fn into_steps(self) -> Vec<Step> {
        let changes = self.changes.into_inner().into_iter();
        changes.map(|((db, _, key), value)| Step { db, key, value }).collect()
    }

    /// Writes all changes as one, as [`Durable::write`] does with `has_room`; `None` if there were
    /// none.
    ///
    /// # Errors
    /// The store's; then nothing was written. [`StoreError::MustWait`] only without `has_room`.
    pub(crate) fn commit(self, has_room: Option<&dyn Fn()>) -> Result<Option<SeqNo>, StoreError> {
        let changes = self.changes.into_inner();
        if changes.is_empty() {
            return Ok(None);
        }
        // Each is freed once the batch has taken it.
        let mut steps = changes.into_iter().map(|((db, _, key), value)| Step { db, key, value });
        self.below.write(&mut steps, has_room).map(Some)
    }

    fn change(&self, db: DbIndex, key: &[u8], value: Option<Vec<u8>>) -> Result<SeqNo, StoreError> {
        let bytes = self.bytes.get() + change_bytes(key, value.as_deref());
        if bytes > self.room {
            let room = self.room;
            return Err(StoreError::Full(format!(
                "command not allowed: the transaction changes more than {room} bytes"
            )));
        }
        // A database that is made later would give its keys other positions. In a store of other
        // processes all positions are equal, and the commit makes the database.
        if self.below.remote().is_none() {
            self.below.make(db)?;
        }
        let place = self.place(db, key)?;
        let old = self.changes.borrow_mut().insert(place, value);
        self.bytes.set(bytes - old.map_or(0, |old| change_bytes(key, old.as_deref())));
        Ok(SeqNo::ZERO)
    }

    /// Returns the new value of a key if it has changed, which is `None` if it was removed.
    fn change_of<'c>(
        &self,
        changes: &'c Changes,
        db: DbIndex,
        key: &[u8],
    ) -> Result<Option<Option<&'c [u8]>>, StoreError> {
        if changes.is_empty() {
            return Ok(None);
        }
        Ok(changes.get(&self.place(db, key)?).map(Option::as_deref))
    }

    fn place(&self, db: DbIndex, key: &[u8]) -> Result<(DbIndex, u64, Vec<u8>), StoreError> {
        Ok((db, self.below.position(db, key)?, key.to_vec()))
    }

    /// How many keys there are if the store has `count`.
    fn changed(&self, db: DbIndex, mut count: u64) -> Result<u64, StoreError> {
        let mut below = Vec::new();
        for ((_, _, key), value) in self.changes.borrow().range((lower_end(db), upper_end(db))) {
            count += u64::from(value.is_some());
            count -= u64::from(self.get_below(db, key, &mut below)?);
        }
        Ok(count)
    }
}

impl Store for Transaction<'_> {
    fn get(&self, db: DbIndex, key: &[u8], into: &mut Vec<u8>) -> Result<bool, StoreError> {
        let changes = self.changes.borrow();
        let Some(value) = self.change_of(&changes, db, key)? else {
            return self.get_below(db, key, into);
        };
        into.clear();
        into.extend_from_slice(value.unwrap_or_default());
        Ok(value.is_some())
    }

    fn multi_get(
        &self,
        db: DbIndex,
        keys: &[&[u8]],
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        let changes = self.changes.borrow();
        let (mut below, mut places) = (Vec::new(), Vec::new());
        for (index, key) in keys.iter().enumerate() {
            let changed = self.change_of(&changes, db, key)?;
            match changed.or_else(|| self.known(db, key)) {
                Some(value) => found(index, value),
                None => {
                    below.push(*key);
                    places.push(index);
                }
            }
        }
        if below.is_empty() {
            return Ok(());
        }
        self.below.multi_get(db, &below, &mut |at, value| found(places[at], value))
    }

    fn delete(&self, db: DbIndex, key: &[u8]) -> Result<SeqNo, StoreError> {
        self.change(db, key, None)
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

    fn walk(
        &self,
        db: DbIndex,
        from: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        let changes = self.changes.borrow();
        let begin = match from {
            Some(key) => Bound::Included(self.place(db, key)?),
            None => lower_end(db),
        };
        let mut ours = changes.range((begin, upper_end(db))).peekable();
        let (mut stopped, mut failed) = (false, None);
        self.below.walk(db, from, &mut |key, value| {
            if ours.peek().is_some() {
                let position = match self.below.position(db, key) {
                    Ok(position) => position,
                    Err(error) => {
                        failed = Some(error);
                        return Break(());
                    }
                };
                let is_due = |at: u64, ours: &[u8]| (at, ours) <= (position, key);
                while let Some(((_, _, our_key), our_value)) =
                    ours.next_if(|((_, at, ours), _)| is_due(*at, ours))
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
            }
            let flow = visit(key, value);
            stopped = flow.is_break();
            flow
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        for ((_, _, key), value) in ours {
            if stopped {
                break;
            }
            if let Some(value) = value {
                stopped = visit(key, value).is_break();
            }
        }
        Ok(())
    }

    fn is_ordered(&self, db: DbIndex) -> bool {
        self.below.is_ordered(db)
    }

    fn position(&self, db: DbIndex, key: &[u8]) -> Result<u64, StoreError> {
        self.below.position(db, key)
    }

    fn counted_keys(&self, db: DbIndex) -> Result<Option<u64>, StoreError> {
        let below = self.below.counted_keys(db)?;
        below.map(|count| self.changed(db, count)).transpose()
    }

    fn expiry(&self, db: DbIndex) -> Result<Option<ExpiryStats>, StoreError> {
        self.below.expiry(db)
    }

    fn clear(&self, db: DbIndex) -> Result<SeqNo, StoreError> {
        // A slice at a time, so that the keys wait in little memory.
        const SLICE_KEYS: usize = 1000;
        let (mut from, mut keys) = (None, Vec::new());
        loop {
            let mut next = None;
            self.walk(db, from.as_deref(), &mut |key, _| {
                if keys.len() == SLICE_KEYS {
                    next = Some(key.to_vec());
                    return Break(());
                }
                keys.push(key.to_vec());
                Continue(())
            })?;
            for key in keys.drain(..) {
                self.change(db, &key, None)?;
            }
            if next.is_none() {
                return Ok(SeqNo::ZERO);
            }
            from = next;
        }
    }
}

fn lower_end(db: DbIndex) -> Bound<(DbIndex, u64, Vec<u8>)> {
    Bound::Included((db, 0, Vec::new()))
}

/// The end of the changes of one database.
fn upper_end(db: DbIndex) -> Bound<(DbIndex, u64, Vec<u8>)> {
    Bound::Excluded((db + 1, 0, Vec::new()))
}

#[cfg(test)]
mod tests;
