//! Cursors on snapshots.
//!
//! A cursor holds its pin and the key it returned last. Between calls it keeps the state that it
//! walks over. A flush, a merge or a compaction takes that state from all cursors that are not
//! being moved, so that its memtables and tables can be removed. The next call continues in the
//! newest state, from the same key. These jobs keep the versions that the pin shows.
//!
//! A version that a range delete hides, up to the pin, counts as a tombstone. The range deletes are
//! part of the state that the cursor walks over.
//!
//! A cursor walks over one partition of the range index at a time, and at its edge goes to the next
//! one.
//!
//! # Concurrency
//! A cursor that is being moved has its position locked, and no other thread waits for it. Once the
//! cursor has unlocked the position, it checks itself whether there is a newer state. A thread that
//! makes a state publishes it before it looks for open cursors.

use std::sync::{Arc, Weak};

use sync::locks::Mutex;

use codec::SeqNo;
use engine::{Cursor, Direction, Error, KeyRange, Pin, Result, TryNext};

use crate::dranges::Bounds;
use crate::store::Shared;
use lsm_tree::entry::{Aim, EntryCursor, Target};
use lsm_tree::merge::Merged;
use lsm_tree::range_deletes::Deletes;

/// A walk over a partition of the range index.
struct CursorPosition {
    /// The generation of the state that it walks over.
    generation: u64,
    bounds: Arc<Bounds>,
    deletes: Arc<Deletes>,
    merged: Merged,
}

type CursorPlace = Mutex<Option<CursorPosition>>;

/// The outcome of a step.
enum Step {
    Pair,
    /// A pair, and the device has to be read for the one behind it.
    LastKnown,
    /// This partition has no more entries.
    Edge,
    End,
}

/// The states and partitions that the cursors of a store walk over.
#[derive(Default)]
pub(crate) struct OpenCursors {
    all: Mutex<Vec<Weak<CursorPlace>>>,
}

impl OpenCursors {
    fn add(&self) -> Arc<CursorPlace> {
        let held_position = Arc::default();
        let mut all = self.all.lock();
        if all.len() == all.capacity() {
            all.retain(|held_position| held_position.strong_count() > 0);
        }
        all.push(Arc::downgrade(&held_position));
        held_position
    }

    /// Takes from the cursors everything that is not of this state.
    pub(crate) fn leave_all_but(&self, generation: u64) {
        let mut left = Vec::new();
        let mut all = self.all.lock();
        all.retain(|held_position| {
            let Some(held_position) = held_position.upgrade() else { return false };
            if let Some(mut held) = held_position.try_lock() {
                left.extend(held.take_if(|position| position.generation != generation));
            }
            true
        });
        // The last reader of a table removes its file: not under the lock.
        drop(all);
    }
}

impl Shared {
    /// Returns the pairs of `range` at `pin`.
    pub(crate) fn scan(
        self: &Arc<Self>,
        range: KeyRange,
        direction: Direction,
        pin: Arc<Pin>,
    ) -> Result<Box<dyn Cursor>> {
        self.health.check_open()?;
        Ok(Box::new(Walk {
            shared: Arc::clone(self),
            pin,
            has_ended: range.is_empty(),
            has_failed: false,
            all: range.clone(),
            range,
            direction,
            dead: 0,
            held_position: self.state.open_cursors.add(),
            last: None,
            edge: None,
            pair: Pair::default(),
        }))
    }
}

/// The pair that a walk has reached, in memory that the next pairs reuse.
#[derive(Default)]
struct Pair {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Pair {
    fn set_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    fn set_value(&mut self, value: &[u8]) {
        self.value.clear();
        self.value.extend_from_slice(value);
    }

    /// Returns the key and the value.
    fn get(&self) -> (&[u8], &[u8]) {
        (&self.key, &self.value)
    }
}

/// A walk over a snapshot.
struct Walk {
    shared: Arc<Shared>,
    pin: Arc<Pin>,
    /// The range that it began with.
    all: KeyRange,
    /// The part of it that the walk has before it since the last seek.
    range: KeyRange,
    direction: Direction,
    held_position: Arc<CursorPlace>,
    /// Entries that the present step has stepped over and that show nothing.
    dead: u64,
    /// The key that was decided upon last, given or not.
    last: Option<Vec<u8>>,
    /// The edge of the partition that it reached last: where the next one begins, or this one.
    edge: Option<Vec<u8>>,
    pair: Pair,
    /// Set at the end, and by an error.
    has_ended: bool,
    /// Set by an error, after which no seek continues the walk.
    has_failed: bool,
}

impl Cursor for Walk {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.has_ended {
            return Ok(None);
        }
        let found = self.advance(true);
        self.note_advanced(&found);
        Ok(found?.then_some(self.pair.get()))
    }

    fn try_next(&mut self) -> Result<TryNext<'_>> {
        if self.has_ended {
            return Ok(TryNext::End);
        }
        let found = self.advance(false);
        if found == Err(Error::WouldWait) {
            return Ok(TryNext::WouldBlock);
        }
        self.note_advanced(&found);
        Ok(TryNext::known(found?.then_some(self.pair.get())))
    }

    fn seek(&mut self, key: &[u8]) {
        if self.has_failed {
            return;
        }
        self.range = self.all.from_key(key, self.direction);
        self.has_ended = self.range.is_empty();
        (self.last, self.edge) = (None, None);
        *self.held_position.lock() = None;
    }
}

impl Walk {
    /// Notes the result of a step.
    fn note_advanced(&mut self, found: &Result<bool>) {
        if *found == Ok(true) {
            self.last.get_or_insert_default().clone_from(&self.pair.key);
            return;
        }
        self.has_ended = true;
        self.has_failed = found.is_err();
        *self.held_position.lock() = None;
    }

    /// Moves to the next pair, into `pair`. Returns whether there is one. If it would
    /// have to wait for the device and may not, the next call begins behind the pair before.
    fn advance(&mut self, may_read: bool) -> Result<bool> {
        let held_position = Arc::clone(&self.held_position);
        let mut held = held_position.lock();
        self.dead = 0;
        let (found, generation) = loop {
            let mut position = self.position_in_state(held.take(), may_read)?;
            let step = match self.direction {
                Direction::Forward => self.forward(&mut position)?,
                Direction::Backward => self.backward(&mut position)?,
            };
            match step {
                Step::Pair => {
                    let generation = position.generation;
                    *held = Some(position);
                    break (true, generation);
                }
                Step::LastKnown => break (true, position.generation),
                Step::Edge => {}
                Step::End => break (false, position.generation),
            }
        };
        drop(held);
        // On the way back the pair itself was stepped over, too.
        let is_counted = found && self.direction == Direction::Backward;
        self.shared.note_dead_run(self.dead.saturating_sub(u64::from(is_counted)));
        if self.shared.state.load().generation != generation {
            *held_position.lock() = None;
        }
        Ok(found)
    }

    /// Returns `held`, if it is of the present state; otherwise the same place in that state.
    fn position_in_state(
        &self,
        held: Option<CursorPosition>,
        may_read: bool,
    ) -> Result<CursorPosition> {
        let state = self.shared.open_state()?;
        let is_present = |position: &CursorPosition| position.generation == state.generation;
        if let Some(mut position) = held.filter(is_present) {
            position.merged.allow_reads(may_read);
            return Ok(position);
        }
        let place = self.place();
        let partition = match (self.direction, place) {
            (Direction::Forward, to) => state.partition_of(to.map_or(&[], |to| to.key)),
            (Direction::Backward, to) => match to {
                // A walk that comes back from behind all versions of a key finds that key itself
                // next.
                Some(to) if to.seqno == SeqNo::ZERO => state.partition_of(to.key),
                to => state.partition_before(to.map(|to| to.key)),
            },
        };
        let Some(partition) = partition else { return Err(Error::Closed) };
        let generation = state.generation;
        // Visits all of them, whatever the first ones return.
        if partition.level0.iter().filter(|table| table.visit()).count() > 0 {
            self.shared.schedule_compactions();
        }
        let (bounds, mut merged) = (Arc::clone(&partition.bounds), state.merged_in(partition));
        let deletes = Arc::clone(&state.deletes);
        drop(state);
        let aim = match self.direction {
            Direction::Forward => Aim::At(place.unwrap_or(Target::START)),
            Direction::Backward => Aim::Before(place),
        };
        merged.allow_reads(may_read);
        merged.go_to(aim, &|missing| {
            if may_read {
                self.shared.read_ahead(missing);
            }
        })?;
        Ok(CursorPosition { generation, bounds, deletes, merged })
    }

    /// Returns where the walk continues: at the edge that it reached, or behind the last key, or
    /// where the range begins.
    fn place(&self) -> Option<Target<'_>> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let edge = self.edge.as_deref().filter(|edge| match self.direction {
            Direction::Forward => self.last.as_deref().is_none_or(|last| last < *edge),
            Direction::Backward => self.last.as_deref().is_none_or(|last| *edge <= last),
        });
        match (self.direction, edge, self.last.as_deref()) {
            (_, Some(edge), _) => Some(Target::first_of(edge)),
            (Direction::Forward, None, Some(last)) => Some(Target::behind(last)),
            (Direction::Backward, None, Some(last)) => Some(Target::first_of(last)),
            (Direction::Forward, None, None) => match &self.range.start {
                Included(start) => Some(Target::first_of(start)),
                Excluded(start) => Some(Target::behind(start)),
                Unbounded => None,
            },
            (Direction::Backward, None, None) => match &self.range.end {
                Included(end) => Some(Target::behind(end)),
                Excluded(end) => Some(Target::first_of(end)),
                Unbounded => None,
            },
        }
    }

    /// Moves forward. The first version of each key at or below the pin counts.
    fn forward(&mut self, position: &mut CursorPosition) -> Result<Step> {
        let pin = self.pin.seqno();
        let CursorPosition { bounds, deletes, merged, .. } = position;
        while let Some(entry) = merged.entry().filter(|entry| bounds.is_before_end(entry.key)) {
            let is_decided = self.last.as_deref() == Some(entry.key);
            if !is_decided && self.range.ends_before(entry.key) {
                return Ok(Step::End);
            }
            if is_decided || entry.seqno > pin {
                self.dead += 1;
                merged.next()?;
                continue;
            }
            let hidden = || entry.seqno < deletes.all.newest(entry.key, pin);
            let Some(value) = entry.value.filter(|_| !hidden()) else {
                let last = self.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(entry.key);
                self.dead += 1;
                merged.next()?;
                continue;
            };
            self.pair.set_key(entry.key);
            self.pair.set_value(value);
            return match merged.next() {
                Err(Error::WouldWait) => Ok(Step::LastKnown),
                moved => moved.map(|()| Step::Pair),
            };
        }
        let Some(end) = bounds.end.as_ref() else { return Ok(Step::End) };
        self.edge = Some(end.clone());
        Ok(if self.range.ends_before(end) { Step::End } else { Step::Edge })
    }

    /// Moves backward. The last version of each key at or below the pin counts, since the oldest
    /// version comes first.
    fn backward(&mut self, position: &mut CursorPosition) -> Result<Step> {
        let pin = self.pin.seqno();
        let CursorPosition { bounds, deletes, merged, .. } = position;
        let mut newest: Option<(SeqNo, bool)> = None;
        let mut hidden = SeqNo::ZERO;
        let mut is_behind = false;
        while let Some(entry) = merged.entry().filter(|entry| bounds.start.as_slice() <= entry.key)
        {
            if newest.is_some() && entry.key != self.pair.key {
                if newest.is_some_and(|(_, is_value)| is_value) {
                    return Ok(Step::Pair);
                }
                newest = None;
            }
            if !self.range.contains(entry.key) {
                is_behind = true;
                break;
            }
            if entry.seqno <= pin {
                if newest.is_none() {
                    self.pair.set_key(entry.key);
                    hidden = deletes.all.newest(entry.key, pin);
                }
                newest = Some((entry.seqno, entry.value.is_some() && entry.seqno >= hidden));
                self.pair.set_value(entry.value.unwrap_or_default());
            }
            self.dead += 1;
            merged.previous()?;
        }
        if newest.is_some_and(|(_, is_value)| is_value) {
            return Ok(Step::Pair);
        }
        if is_behind || bounds.start.is_empty() {
            return Ok(Step::End);
        }
        self.edge = Some(bounds.start.clone());
        Ok(Step::Edge)
    }
}
