//! Snapshots and the cursors on them.
//!
//! A cursor holds its pin and the key it gave last. Between calls it stands on the state that it walks
//! over. A flush or a compaction takes that away from all cursors that nobody moves, so that its
//! memtables and tables go; the next call goes on in the newest state, from the same key. What the
//! pin shows, flushes and compactions keep.
//!
//! # Concurrency
//! A cursor that is moved has its stand locked, and nobody waits for it: it looks itself, once it has
//! unlocked it, whether there is a newer state. Whoever makes one publishes it before it looks for
//! stands.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use codec::SeqNo;
use engine::{Cursor, Direction, Error, KeyRange, Pin, Result, View};

use crate::entry::{EntryCursor, Target};
use crate::merge::Merged;
use crate::store::Shared;

/// The store as of one pin.
pub(crate) struct Snapshot {
    shared: Arc<Shared>,
    pin: Arc<Pin>,
}

impl Snapshot {
    pub(crate) fn new(shared: Arc<Shared>, pin: Arc<Pin>) -> Self {
        Self { shared, pin }
    }
}

/// A walk over everything, and the generation of the state that it is over.
type Stand = Mutex<Option<(u64, Merged)>>;

/// What the cursors of a store stand on.
#[derive(Default)]
pub(crate) struct Stands {
    all: Mutex<Vec<Weak<Stand>>>,
}

impl Stands {
    fn add(&self) -> Arc<Stand> {
        let stand = Arc::default();
        let mut all = self.all.lock();
        if all.len() == all.capacity() {
            all.retain(|stand| stand.strong_count() > 0);
        }
        all.push(Arc::downgrade(&stand));
        stand
    }

    /// Takes from the cursors what is not of this state.
    pub(crate) fn leave_all_but(&self, generation: u64) {
        let mut left = Vec::new();
        let mut all = self.all.lock();
        all.retain(|stand| {
            let Some(stand) = stand.upgrade() else { return false };
            if let Some(mut held) = stand.try_lock() {
                let is_old = |(at, _): &mut (u64, Merged)| *at != generation;
                left.extend(held.take_if(is_old));
            }
            true
        });
        // The last reader of a table removes its file: not under the lock.
        drop(all);
    }
}

impl View for Snapshot {
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.shared.get_at(key, self.pin.seqno(), into)
    }

    fn scan(&self, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        self.shared.health.check_open()?;
        Ok(Box::new(Walk {
            shared: Arc::clone(&self.shared),
            pin: Arc::clone(&self.pin),
            end: range.is_empty().then_some(Ok(())),
            range,
            direction,
            stand: self.shared.stands.add(),
            last: None,
            key: Vec::new(),
            value: Vec::new(),
        }))
    }
}

/// A walk over a snapshot.
struct Walk {
    shared: Arc<Shared>,
    pin: Arc<Pin>,
    range: KeyRange,
    direction: Direction,
    stand: Arc<Stand>,
    /// The key that was decided upon last, given or not.
    last: Option<Vec<u8>>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Set at the end, or with the error that ended it.
    end: Option<std::result::Result<(), Error>>,
}

impl Cursor for Walk {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if let Some(end) = &self.end {
            return end.clone().map(|()| None);
        }
        match self.advance() {
            Ok(true) => {
                let last = self.last.get_or_insert_default();
                last.clone_from(&self.key);
                Ok(Some((&self.key, &self.value)))
            }
            Ok(false) => {
                self.end = Some(Ok(()));
                *self.stand.lock() = None;
                Ok(None)
            }
            Err(error) => {
                self.end = Some(Err(error.clone()));
                *self.stand.lock() = None;
                Err(error)
            }
        }
    }
}

impl Walk {
    /// Goes to the next pair, into `key` and `value`; answers whether there is one.
    fn advance(&mut self) -> Result<bool> {
        let stand = Arc::clone(&self.stand);
        let mut held = stand.lock();
        let state = self.shared.open_state()?;
        let generation = state.generation;
        let mut merged = match held.take() {
            Some((at, merged)) if at == generation => {
                drop(state);
                merged
            }
            _ => {
                let mut merged = state.merged();
                drop(state);
                self.place(&mut merged)?;
                merged
            }
        };
        let moved = match self.direction {
            Direction::Forward => self.forward(&mut merged),
            Direction::Backward => self.backward(&mut merged),
        };
        *held = Some((generation, merged));
        drop(held);
        if self.shared.state.load().generation != generation {
            *stand.lock() = None;
        }
        moved
    }

    /// Begins behind the last key, or where the range does.
    fn place(&self, merged: &mut Merged) -> Result<()> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        match (self.direction, &self.last) {
            (Direction::Forward, Some(last)) => merged.seek(Target::behind(last)),
            (Direction::Backward, Some(last)) => merged.seek_before(Some(Target::first_of(last))),
            (Direction::Forward, None) => merged.seek(match &self.range.start {
                Included(start) => Target::first_of(start),
                Excluded(start) => Target::behind(start),
                Unbounded => Target::START,
            }),
            (Direction::Backward, None) => merged.seek_before(match &self.range.end {
                Included(end) => Some(Target::behind(end)),
                Excluded(end) => Some(Target::first_of(end)),
                Unbounded => None,
            }),
        }
    }

    /// Of each key the first version at or below the pin counts.
    fn forward(&mut self, merged: &mut Merged) -> Result<bool> {
        let pin = self.pin.seqno();
        while let Some(entry) = merged.entry() {
            let is_decided = self.last.as_deref() == Some(entry.key);
            if !is_decided && self.range.ends_before(entry.key) {
                return Ok(false);
            }
            if is_decided || entry.seqno > pin {
                merged.next()?;
                continue;
            }
            let Some(value) = entry.value else {
                let last = self.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(entry.key);
                merged.next()?;
                continue;
            };
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.value.clear();
            self.value.extend_from_slice(value);
            merged.next()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Of each key the last version at or below the pin counts: backward, the oldest comes first.
    fn backward(&mut self, merged: &mut Merged) -> Result<bool> {
        let pin = self.pin.seqno();
        let mut newest: Option<(SeqNo, bool)> = None;
        while let Some(entry) = merged.entry() {
            if newest.is_some() && entry.key != self.key {
                if newest.is_some_and(|(_, is_value)| is_value) {
                    return Ok(true);
                }
                newest = None;
            }
            if !self.range.contains(entry.key) {
                break;
            }
            if entry.seqno <= pin {
                if newest.is_none() {
                    self.key.clear();
                    self.key.extend_from_slice(entry.key);
                }
                newest = Some((entry.seqno, entry.value.is_some()));
                self.value.clear();
                self.value.extend_from_slice(entry.value.unwrap_or_default());
            }
            merged.previous()?;
        }
        Ok(newest.is_some_and(|(_, is_value)| is_value))
    }
}
