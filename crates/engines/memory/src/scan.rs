//! Snapshots and the cursors on them.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{Cursor, Direction, KeyRange, Pin, Result, View};

use crate::map::{Position, Run};
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

impl View for Snapshot {
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        self.shared.get_at(key, self.pin.seqno().get(), into)
    }

    fn scan(&self, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        self.shared.health.check_open()?;
        Ok(Box::new(Walk {
            shared: Arc::clone(&self.shared),
            pin: Arc::clone(&self.pin),
            position: Position::new(range.clone(), direction),
            range,
            direction,
            run: Run::default(),
            next: 0,
            has_failed: false,
        }))
    }
}

/// A walk over a snapshot. Between calls it holds no lock, only the pairs it has copied and the
/// pin, which keeps the pairs that it has yet to reach.
struct Walk {
    shared: Arc<Shared>,
    pin: Arc<Pin>,
    /// The range that it began with.
    range: KeyRange,
    direction: Direction,
    position: Position,
    run: Run,
    next: usize,
    /// Set by the error that ended it.
    has_failed: bool,
}

impl Cursor for Walk {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while self.next == self.run.len() && !self.position.is_done() && !self.has_failed {
            // Until the store is known to be open.
            self.has_failed = true;
            self.shared.health.check_open()?;
            self.has_failed = false;
            let pin = self.pin.seqno().get();
            self.shared.map.next_run(&mut self.position, pin, &mut self.run);
            self.next = 0;
            self.shared.scanned_dead.fetch_add(self.run.dead(), Relaxed);
        }
        let pair = self.run.get(self.next);
        self.next += usize::from(pair.is_some());
        Ok(pair)
    }

    fn seek(&mut self, key: &[u8]) {
        if self.has_failed {
            return;
        }
        let range = self.range.from_key(key, self.direction);
        self.position = Position::new(range, self.direction);
        (self.run, self.next) = (Run::default(), 0);
    }
}
