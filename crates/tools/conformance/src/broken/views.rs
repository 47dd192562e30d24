//! Views and cursors with a bug.

use std::ops::Bound;
use std::sync::Arc;

use engine::{Cursor, Direction, Engine, KeyRange, Result, Sequence, View};

use super::Flaw;
use crate::model::Pair;
use crate::reference::Reference;
use crate::sequential::collect;

pub(super) struct BrokenView {
    pub(super) inner: Box<dyn View>,
    pub(super) flaw: Flaw,
    pub(super) engine: Arc<Reference>,
    pub(super) sequence: Arc<Sequence>,
}

impl BrokenView {
    /// Returns a view of the present, for the bug that has no snapshots.
    fn present(&self) -> Result<Box<dyn View>> {
        self.engine.view(self.sequence.pin())
    }
}

impl View for BrokenView {
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool> {
        match self.flaw {
            Flaw::ViewIsNoSnapshot => self.present()?.get(key, into),
            _ => self.inner.get(key, into),
        }
    }

    fn scan(&self, range: KeyRange, direction: Direction) -> Result<Box<dyn Cursor>> {
        let mut range = range;
        if self.flaw == Flaw::ScanEndsAreOff && direction == Direction::Backward {
            range.end = match range.end {
                Bound::Excluded(end) => Bound::Included(end),
                end => end,
            };
        }
        let mut cursor = match self.flaw {
            Flaw::ViewIsNoSnapshot => self.present()?.scan(range, direction)?,
            _ => self.inner.scan(range, direction)?,
        };
        let spoil: fn(&mut Vec<Pair>) = match self.flaw {
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

    fn seek(&mut self, key: &[u8]) {
        let is_passed = |pair: &Pair| match self.direction {
            Direction::Forward => pair.0.as_slice() < key,
            Direction::Backward => pair.0.as_slice() > key,
        };
        self.next = self.pairs.partition_point(is_passed);
    }
}
