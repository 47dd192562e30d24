//! Scans with a bug.

use std::ops::Bound;
use std::sync::Arc;

use engine::{Cursor, Direction, Engine, KeyRange, Pin, Result, TryNext};

use super::Flaw;
use crate::model::Pair;
use crate::reference::Reference;
use crate::sequential::collect;

/// Scans the engine with the bug.
pub(super) fn scan(
    engine: &Reference,
    flaw: Flaw,
    mut range: KeyRange,
    direction: Direction,
    pin: Arc<Pin>,
) -> Result<Box<dyn Cursor>> {
    if flaw == Flaw::ScanEndsAreOff && direction == Direction::Backward {
        range.end = match range.end {
            Bound::Excluded(end) => Bound::Included(end),
            end => end,
        };
    }
    let mut cursor = engine.scan(range, direction, pin)?;
    let spoil: fn(&mut Vec<Pair>) = match flaw {
        Flaw::ScanMissesAKey => |pairs| {
            if pairs.len() > 4 {
                pairs.remove(3);
            }
        },
        Flaw::ClaimsOrder => |pairs| pairs.sort_by_key(|(key, _)| codec::hash64(7, key)),
        _ => return Ok(cursor),
    };
    let mut pairs = collect(cursor.as_mut(), usize::MAX)?;
    spoil(&mut pairs);
    Ok(Box::new(Listed { pairs, next: 0, direction }))
}

/// A cursor over pairs that were collected before.
struct Listed {
    pairs: Vec<Pair>,
    next: usize,
    direction: Direction,
}

impl Cursor for Listed {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let pair = self.pairs.get(self.next);
        self.next += usize::from(pair.is_some());
        Ok(pair.map(|(key, value)| (key.as_slice(), value.as_slice())))
    }

    fn try_next(&mut self) -> Result<TryNext<'_>> {
        self.next().map(TryNext::known)
    }

    fn seek(&mut self, key: &[u8]) {
        let is_passed = |pair: &Pair| match self.direction {
            Direction::Forward => pair.0.as_slice() < key,
            Direction::Backward => pair.0.as_slice() > key,
        };
        self.next = self.pairs.partition_point(is_passed);
    }
}
