//! Scans: a walk over the index, and the value of each pair.

use std::sync::Arc;

use engine::{Cursor, Direction, KeyRange, Pin, Result, TryNext};

use crate::index_value::{Handle, IndexValue};
use crate::key_index::of_index;
use crate::store::Shared;

/// A walk over the pairs of a snapshot.
struct Walk {
    shared: Arc<Shared>,
    index: Box<dyn Cursor>,
    /// Set if `key` is a pair that the walk has not returned yet, since its value is on the device.
    held: Option<Handle>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Set by an error, after which no seek continues the walk.
    has_failed: bool,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The pair is in `key` and `value`.
    Pair,
    End,
    WouldBlock,
}

impl Shared {
    /// Returns a walk over `range` at a pin.
    pub(crate) fn scan(
        self: &Arc<Self>,
        range: KeyRange,
        direction: Direction,
        pin: Arc<Pin>,
    ) -> Result<Box<dyn Cursor>> {
        let index = self.index.scan(range, direction, pin).map_err(of_index)?;
        let shared = Arc::clone(self);
        let (key, value) = Default::default();
        Ok(Box::new(Walk { shared, index, held: None, key, value, has_failed: false }))
    }
}

impl Walk {
    /// Moves to the next pair. If it would have to wait for the device and may not, the next call
    /// finds the same pair.
    fn advance(&mut self, may_read: bool) -> Result<Step> {
        let Self { shared, index, held, key, value, .. } = self;
        shared.health.check_open()?;
        let handle = match held.take() {
            Some(handle) => handle,
            None => {
                let found = match may_read {
                    true => index.next().map(TryNext::known),
                    false => index.try_next(),
                };
                let (found, stored) = match found.map_err(of_index)? {
                    TryNext::Pair(found, stored) => (found, stored),
                    TryNext::End => return Ok(Step::End),
                    TryNext::WouldBlock => return Ok(Step::WouldBlock),
                };
                key.clear();
                key.extend_from_slice(found);
                match shared.decode(stored)? {
                    IndexValue::Handle(handle) => handle,
                    IndexValue::Inline(inline) => {
                        value.clear();
                        value.extend_from_slice(inline);
                        return Ok(Step::Pair);
                    }
                }
            }
        };
        if may_read {
            shared.read_value(key, handle, value)?;
            return Ok(Step::Pair);
        }
        let mut take = |found: &[u8]| {
            value.clear();
            value.extend_from_slice(found);
        };
        if shared.values.try_read(key, handle, &mut take)?.is_none() {
            *held = Some(handle);
            return Ok(Step::WouldBlock);
        }
        Ok(Step::Pair)
    }

    fn step(&mut self, may_read: bool) -> Result<Step> {
        if self.has_failed {
            return Ok(Step::End);
        }
        let step = self.advance(may_read);
        self.has_failed = step.is_err();
        step
    }
}

impl Cursor for Walk {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let step = self.step(true)?;
        Ok((step == Step::Pair).then_some((&self.key, &self.value)))
    }

    fn try_next(&mut self) -> Result<TryNext<'_>> {
        Ok(match self.step(false)? {
            Step::Pair => TryNext::Pair(&self.key, &self.value),
            Step::End => TryNext::End,
            Step::WouldBlock => TryNext::WouldBlock,
        })
    }

    fn seek(&mut self, key: &[u8]) {
        self.held = None;
        self.index.seek(key);
    }
}
