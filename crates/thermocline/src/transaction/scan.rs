//! A walk over a range as a transaction sees it: the pairs of its moment, and its own writes.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use device::OfProcess;
use engine::{Cursor, Direction};
use parking_lot::Mutex;

use super::State;
use super::reads::RangePlace;
use super::writes::{DeletedRanges, OwnWrite};
use crate::error::Result;
use crate::expiry::Moment;
use crate::keyspace::Keyspace;
use crate::planted::{Planted, is_planted};
use crate::slot::Generation;

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// The pairs of a range, as a [`crate::Transaction`] saw it when the scan began: later writes of its
/// own do not show, so it may write what it comes to.
pub struct TransactionScan<'t> {
    state: &'t Mutex<State>,
    keyspace: Keyspace,
    clock: Moment,
    place: RangePlace,
    // The cursor before the engine, so that it is dropped first.
    cursor: OfProcess<(Box<dyn Cursor>, Arc<Generation>)>,
    /// The pair of the moment that comes next, once the cursor was asked for it.
    ahead: Option<Pair>,
    /// What the transaction has written and the scan has not come to.
    own: VecDeque<OwnWrite>,
    /// What it had deleted before.
    deleted: DeletedRanges,
    direction: Direction,
    /// The key that was given last.
    last: Option<Vec<u8>>,
    /// Whether all of the range was read, or may have been.
    ended: bool,
}

impl<'t> TransactionScan<'t> {
    pub(super) fn new(
        state: &'t Mutex<State>,
        (keyspace, clock): (Keyspace, Moment),
        place: RangePlace,
        cursor: (Box<dyn Cursor>, Arc<Generation>),
        (own, deleted): (VecDeque<OwnWrite>, DeletedRanges),
        direction: Direction,
    ) -> Self {
        let (ahead, last, ended) = Default::default();
        let cursor = OfProcess::new(cursor);
        Self { state, keyspace, clock, place, cursor, ahead, own, deleted, direction, last, ended }
    }

    /// The next pair of the moment that is not deleted.
    fn next_of_others(&mut self) -> Result<Option<Pair>> {
        let (cursor, generation) = &mut *self.cursor;
        while let Some((key, value)) = generation.placed(cursor.next())? {
            if !self.deleted.has(key) {
                return Ok(Some((key.to_vec(), value.to_vec())));
            }
        }
        Ok(None)
    }

    fn advance(&mut self) -> Result<Option<Pair>> {
        self.keyspace.inner.check_process()?;
        loop {
            if self.ahead.is_none() {
                self.ahead = self.next_of_others()?;
            }
            let order = match (&self.ahead, self.own.front()) {
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
            let Some((key, own)) = self.own.pop_front() else { continue };
            if let Some(value) = own.over(&self.keyspace, self.clock, &key, others)? {
                return Ok(Some((key, value)));
            }
        }
    }
}

impl Iterator for TransactionScan<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.advance().transpose();
        match &next {
            Some(Ok((key, _))) => self.last = Some(key.clone()),
            Some(Err(_)) | None => self.ended = !is_planted(Planted::EndUnread),
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
