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
    /// A view of the present, for the bug that has no snapshots.
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
        Ok(Box::new(Listed { pairs: pairs.into_iter(), at: None }))
    }
}

/// A cursor over pairs that were collected before.
struct Listed {
    pairs: std::vec::IntoIter<Pair>,
    at: Option<Pair>,
}

impl Cursor for Listed {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.at = self.pairs.next();
        Ok(self.at.as_ref().map(|(key, value)| (key.as_slice(), value.as_slice())))
    }
}
