//! Reading many keys in order: one leaf's visible pairs at a time, copied under its lock.
//!
//! A walk remembers the key that it has reached and nothing of the map. So it may pause for any
//! time while leaves split and merge. Its pin keeps the versions that it shows.

use std::ops::Bound;
use std::sync::Arc;

use engine::{Direction, KeyRange};

use super::Map;
use super::directory::Bounds;
use super::leaf::{Found, Leaf};

/// Copied bytes after which a run ends within a leaf.
const RUN_BYTES: usize = 256 << 10;

/// The rest of a walk.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    range: KeyRange,
    direction: Direction,
    done: bool,
}

impl Position {
    pub(crate) fn new(range: KeyRange, direction: Direction) -> Self {
        let done = range.is_empty();
        Self { range, direction, done }
    }

    /// Whether nothing is left.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Continues the walk behind `key`.
    fn resume_behind(&mut self, key: &[u8]) {
        match self.direction {
            Direction::Forward => self.range.start = Bound::Excluded(key.to_vec()),
            Direction::Backward => self.range.end = Bound::Excluded(key.to_vec()),
        }
    }

    /// Continues the walk beyond a leaf's range.
    fn leave(&mut self, bounds: Bounds) {
        match (self.direction, bounds.high) {
            (Direction::Forward, Some(high)) => self.range.start = Bound::Included(high),
            (Direction::Backward, _) if !bounds.low.is_empty() => {
                self.range.end = Bound::Excluded(bounds.low);
            }
            _ => self.done = true,
        }
        self.done |= self.range.is_empty();
    }
}

/// Pairs copied from one leaf, in the order of the walk.
#[derive(Debug, Default)]
pub(crate) struct Run {
    bytes: Vec<u8>,
    pairs: Vec<Pair>,
    /// Keys without a value at the pin that were stepped over, and one for a leaf without pairs.
    dead: u64,
}

#[derive(Debug)]
struct Pair {
    start: usize,
    key_len: usize,
    value: PairValue,
}

#[derive(Debug)]
enum PairValue {
    /// This number of bytes behind the key.
    Behind(usize),
    Large(Arc<[u8]>),
}

impl Run {
    /// How many pairs it holds.
    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Keys that were stepped over, and one for a leaf without pairs.
    pub(crate) fn dead(&self) -> u64 {
        self.dead
    }

    /// Pair `index`.
    pub(crate) fn get(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let pair = self.pairs.get(index)?;
        let (key, behind) = self.bytes[pair.start..].split_at(pair.key_len);
        let value = match &pair.value {
            PairValue::Behind(len) => &behind[..*len],
            PairValue::Large(value) => value,
        };
        Some((key, value))
    }

    /// Bytes of memory that it holds; long values, which it shares, apart.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.pairs.capacity() * size_of::<Pair>()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.pairs.clear();
        self.dead = 0;
    }

    fn push(&mut self, leaf: &Leaf, index: usize, value: &Found<'_>) {
        let start = self.bytes.len();
        leaf.push_key(index, &mut self.bytes);
        let key_len = self.bytes.len() - start;
        let value = match value {
            Found::Small(bytes) => {
                self.bytes.extend_from_slice(bytes);
                PairValue::Behind(bytes.len())
            }
            Found::Large(value) => PairValue::Large(Arc::clone(value)),
        };
        self.pairs.push(Pair { start, key_len, value });
    }
}

impl Map {
    /// Replaces what is in `run` by the next pairs as of `pin`, and moves on. A run may be empty
    /// before the walk is done.
    pub(crate) fn next_run(&self, position: &mut Position, pin: u64, run: &mut Run) {
        run.clear();
        if position.done {
            return;
        }
        let (leaf, bounds) = loop {
            let (entry, bounds) = match position.direction {
                Direction::Forward => self.directory.find_bounds(start_key(&position.range)),
                Direction::Backward => self.find_upper(&position.range),
            };
            if let Some(leaf) = self.lock_to_read(entry) {
                break (leaf, bounds);
            }
        };
        let (from, to) = indices(&leaf, &bounds, &position.range);
        let mut take = |index: usize| {
            match leaf.at_pin(index, pin) {
                Some(value) => run.push(&leaf, index, &value),
                None => run.dead += 1,
            }
            run.bytes.len() >= RUN_BYTES
        };
        let stopped_at = match position.direction {
            Direction::Forward => (from..to).find(|index| take(*index)),
            Direction::Backward => (from..to).rev().find(|index| take(*index)),
        };
        run.dead += u64::from(run.pairs.is_empty());
        match stopped_at {
            Some(index) => position.resume_behind(&leaf.key(index)),
            None => position.leave(bounds),
        }
    }

    /// Bytes of the keys and values of `range`. Visits each key.
    pub(crate) fn pair_bytes(&self, range: &KeyRange) -> u64 {
        let mut position = Position::new(range.clone(), Direction::Forward);
        let mut bytes = 0;
        while !position.done {
            let (entry, bounds) = self.directory.find_bounds(start_key(&position.range));
            let Some(leaf) = self.lock_to_read(entry) else { continue };
            let (from, to) = indices(&leaf, &bounds, &position.range);
            let of_pair = |index: usize| {
                let value = leaf.newest(index)?.bytes().len();
                Some((leaf.key_len(index) + value) as u64)
            };
            bytes += (from..to).filter_map(of_pair).sum::<u64>();
            drop(leaf);
            position.leave(bounds);
        }
        bytes
    }

    /// The leaf at the upper end of a range.
    fn find_upper(&self, range: &KeyRange) -> (super::Entry, Bounds) {
        match &range.end {
            Bound::Unbounded => self.directory.find_before(None),
            Bound::Excluded(end) => self.directory.find_before(Some(end)),
            Bound::Included(end) => self.directory.find_bounds(end),
        }
    }
}

fn start_key(range: &KeyRange) -> &[u8] {
    match &range.start {
        Bound::Included(start) | Bound::Excluded(start) => start,
        Bound::Unbounded => &[],
    }
}

/// Returns the slots of a leaf that are in a range, as `from..to`; empty if `to <= from`.
pub(super) fn indices(leaf: &Leaf, bounds: &Bounds, range: &KeyRange) -> (usize, usize) {
    // Only keys of the leaf's own range may be sought in it.
    let is_above = |key: &[u8]| bounds.high.as_deref().is_some_and(|high| key >= high);
    let is_below = |key: &[u8]| key < bounds.low.as_slice();
    let from = match &range.start {
        Bound::Unbounded => 0,
        Bound::Included(key) if *key == bounds.low => 0,
        Bound::Included(key) | Bound::Excluded(key) if is_below(key) => 0,
        Bound::Included(key) | Bound::Excluded(key) if is_above(key) => leaf.len(),
        Bound::Included(key) => leaf.find(key).unwrap_or_else(|at| at),
        Bound::Excluded(key) => leaf.find(key).map_or_else(|at| at, |at| at + 1),
    };
    let to = match &range.end {
        Bound::Unbounded => leaf.len(),
        Bound::Included(key) | Bound::Excluded(key) if is_above(key) => leaf.len(),
        Bound::Included(key) | Bound::Excluded(key) if is_below(key) => 0,
        Bound::Included(key) => leaf.find(key).map_or_else(|at| at, |at| at + 1),
        Bound::Excluded(key) => leaf.find(key).unwrap_or_else(|at| at),
    };
    (from, to)
}
