//! Cursors on snapshots.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{Cursor, Direction, KeyRange, Pin, Result, TryNext};

use crate::map::{Position, Run};
use crate::store::Shared;

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

    fn try_next(&mut self) -> Result<TryNext<'_>> {
        self.next().map(TryNext::known)
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
