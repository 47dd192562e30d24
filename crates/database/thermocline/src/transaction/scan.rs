//! A walk over a range as a transaction sees it: the pairs of its moment, and its own writes.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use device::OfProcess;
use engine::{Cursor, Direction};
use sync::locks::Mutex;

use super::State;
use super::reads::RangePlace;
use super::writes::{DeletedRanges, OwnWrite};
use crate::error::Result;
use crate::expiry::ClockReading;
use crate::keyspace::Keyspace;
use crate::keyspace_entry::KeyspaceInstance;

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// The pairs of a range, as a [`crate::Transaction`] saw it when the scan began: later writes of
/// its own do not show, so it may write keys that the scan reaches.
pub struct TransactionScan<'t> {
    state: &'t Mutex<State>,
    keyspace: Keyspace,
    clock: ClockReading,
    place: RangePlace,
    // The cursor before the engine, so that it is dropped first.
    cursor: OfProcess<(Box<dyn Cursor>, Arc<KeyspaceInstance>)>,
    /// The next pair of the moment, once it was read from the cursor.
    ahead: Option<Pair>,
    /// The writes of the transaction to the range when the scan began, in the order of the scan.
    own: Vec<OwnWrite>,
    /// The index of its next write.
    next_own: usize,
    /// The ranges that it had deleted before.
    deleted: DeletedRanges,
    direction: Direction,
    /// The key that was given and is the furthest from the beginning of the range.
    last: Option<Vec<u8>>,
    /// Whether all of the range was read, or may have been.
    ended: bool,
    /// Whether there is no next pair.
    is_over: bool,
    /// Whether an error has ended it.
    has_failed: bool,
}

impl<'t> TransactionScan<'t> {
    pub(super) fn new(
        state: &'t Mutex<State>,
        (keyspace, clock): (Keyspace, ClockReading),
        place: RangePlace,
        cursor: (Box<dyn Cursor>, Arc<KeyspaceInstance>),
        (own, deleted): (Vec<OwnWrite>, DeletedRanges),
        direction: Direction,
    ) -> Self {
        let (ahead, last, next_own) = Default::default();
        let (ended, is_over, has_failed) = Default::default();
        let cursor = OfProcess::new(cursor);
        Self {
            state,
            keyspace,
            clock,
            place,
            cursor,
            ahead,
            own,
            next_own,
            deleted,
            direction,
            last,
            ended,
            is_over,
            has_failed,
        }
    }

    /// Moves the scan within its range, as [`crate::Scan::seek`] does. The transaction has read the
    /// range up to the furthest key that was returned, also the keys that a seek skipped.
    pub fn seek(&mut self, key: &[u8]) {
        // In a child of a fork the next call reports the error.
        if self.has_failed || !self.cursor.process().is_current() {
            return;
        }
        self.cursor.0.seek(key);
        self.ahead = None;
        let direction = self.direction;
        self.next_own = self.own.partition_point(|(own, _)| is_before(direction, own, key));
        self.is_over = false;
    }

    /// Returns the next pair of the moment that is not deleted.
    fn next_of_others(&mut self) -> Result<Option<Pair>> {
        let (cursor, instance) = &mut *self.cursor;
        while let Some((key, value)) = instance.placed(cursor.next())? {
            if !self.deleted.has(key) {
                return Ok(Some((key.to_vec(), value.to_vec())));
            }
        }
        Ok(None)
    }

    fn advance(&mut self) -> Result<Option<Pair>> {
        self.keyspace.inner.lifecycle.check_process()?;
        loop {
            if self.ahead.is_none() {
                self.ahead = self.next_of_others()?;
            }
            let order = match (&self.ahead, self.own.get(self.next_own)) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((key, _)), Some((own, _))) => match self.direction {
                    Direction::Forward => key.cmp(own),
                    Direction::Backward => own.cmp(key),
                },
            };
            if order == Ordering::Less {
                return Ok(self.ahead.take());
            }
            let others = match order {
                Ordering::Equal => self.ahead.take().map(|(_, value)| value),
                _ => None,
            };
            let Some((key, own)) = self.own.get(self.next_own).cloned() else { continue };
            self.next_own += 1;
            if let Some(value) = own.over(&self.keyspace, self.clock, &key, others)? {
                return Ok(Some((key, value)));
            }
        }
    }
}

/// Returns whether a scan reaches the first key before the other one.
fn is_before(direction: Direction, one: &[u8], other: &[u8]) -> bool {
    match direction {
        Direction::Forward => one < other,
        Direction::Backward => one > other,
    }
}

impl Iterator for TransactionScan<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.advance().transpose();
        match &next {
            Some(Ok((key, _))) => {
                let is_furthest = |last: &Vec<u8>| is_before(self.direction, last, key);
                if self.last.as_ref().is_none_or(is_furthest) {
                    self.last = Some(key.clone());
                }
            }
            Some(Err(_)) | None => {
                self.ended = true;
                self.is_over = true;
                self.has_failed = next.is_some();
            }
        }
        next
    }
}

impl Drop for TransactionScan<'_> {
    fn drop(&mut self) {
        // In a child of a fork another thread of the parent may have the lock.
        if !self.ended && self.cursor.process().is_current() {
            self.state.lock().reads.end_range(self.place, self.direction, self.last.take());
        }
    }
}

impl fmt::Debug for TransactionScan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionScan").field("last", &self.last).finish_non_exhaustive()
    }
}
