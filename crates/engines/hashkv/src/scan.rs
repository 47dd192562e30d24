//! Scans: a walk over the index, and the value of each pair.
//!
//! Values of neighbouring keys are in segments of different groups, so each is a read of its own.
//! A walk that has to wait for a value reads a *window*: the values of the next pairs as well, with
//! one queue. The first window is small, and each one is twice the last, so a short scan reads few
//! values in vain.
//!
//! The values of the first pairs are cached: short scans often begin at the same keys again. A long
//! scan adds no more of them, since it would evict what gets and short scans read.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Cursor, Direction, Error, KeyRange, Pin, Result, TryNext};
use memory_budget::Account;

use crate::index_value::{Handle, IndexValue};
use crate::key_index::of_index;
use crate::store::Shared;
use crate::values::read::missing;

/// Pairs of the first window of a walk, and of the longest.
const PAIRS_MIN: usize = 4;
const PAIRS_MAX: usize = 64;
/// Pairs from the beginning of a walk whose values are cached.
const CACHED_PAIRS: usize = 64;
/// Bytes of the keys and values of a window, unless a single pair has more.
const WINDOW_BYTES_MAX: usize = 1 << 20;
/// The same as a share of the budget: one byte in this many.
const WINDOW_PARTS: u64 = 64;

/// A walk over the pairs of a snapshot.
struct Walk {
    shared: Arc<Shared>,
    index: Box<dyn Cursor>,
    /// The pairs that the index has returned and the walk has not, in order.
    window: VecDeque<Ahead>,
    /// Pairs that the index has returned since the walk began, or since its last seek.
    found: usize,
    /// Pairs of the next window, and the most bytes of one.
    pairs: usize,
    bytes_max: usize,
    /// The failure of the index behind the window. It stays, like the index's own walk.
    index_failure: Option<Error>,
    /// The pair that the walk has returned last.
    current: Ahead,
    /// The memory of pairs that it has left.
    spare: Vec<Ahead>,
    /// The bytes of the window.
    account: Account,
    /// Set by an error, after which no seek continues the walk.
    has_failed: bool,
}

/// A pair of a window.
#[derive(Default)]
struct Ahead {
    key: Vec<u8>,
    value: Vec<u8>,
    /// Present while the value is on the device.
    handle: Option<Handle>,
    /// The failure of the value.
    failure: Option<Error>,
}

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The walk has moved to a pair.
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
        let share = usize::try_from(self.host.memory.limit() / WINDOW_PARTS).unwrap_or(usize::MAX);
        Ok(Box::new(Walk {
            shared: Arc::clone(self),
            index,
            window: VecDeque::new(),
            found: 0,
            pairs: PAIRS_MIN,
            bytes_max: share.min(WINDOW_BYTES_MAX),
            index_failure: None,
            current: Ahead::default(),
            spare: Vec::new(),
            account: Account::new(&self.host.memory),
            has_failed: false,
        }))
    }
}

impl Ahead {
    /// Returns the bytes of the pair.
    fn bytes(&self) -> usize {
        let value = self.handle.map_or(self.value.len(), |handle| handle.bytes as usize);
        self.key.len() + value
    }
}

impl Walk {
    /// Moves to the next pair. If it would have to wait for the device and may not, the next call
    /// finds the same pair.
    fn advance(&mut self, may_read: bool) -> Result<Step> {
        self.shared.health.check_open()?;
        if self.window.is_empty() {
            if let Some(failure) = self.index_failure.take() {
                return Err(failure);
            }
            match self.add_next(may_read)? {
                Step::Pair => {}
                step => return Ok(step),
            }
        }
        if self.window.front().is_some_and(|next| next.handle.is_some()) {
            if !may_read {
                return Ok(Step::WouldBlock);
            }
            self.read_window();
        }
        let Some(next) = self.window.pop_front() else { return Ok(Step::End) };
        self.spare.push(std::mem::replace(&mut self.current, next));
        if self.window.is_empty() {
            self.drop_spare();
        }
        self.current.failure.take().map_or(Ok(Step::Pair), Err)
    }

    /// Adds the index's next pair to the window.
    fn add_next(&mut self, may_read: bool) -> Result<Step> {
        let found = match may_read {
            true => self.index.next().map(TryNext::known),
            false => self.index.try_next(),
        };
        let (key, stored) = match found.map_err(of_index)? {
            TryNext::Pair(key, stored) => (key, stored),
            TryNext::End => return Ok(Step::End),
            TryNext::WouldBlock => return Ok(Step::WouldBlock),
        };
        let mut next = self.spare.pop().unwrap_or_default();
        (next.handle, next.failure) = (None, None);
        next.key.clear();
        next.key.extend_from_slice(key);
        next.value.clear();
        match self.shared.decode(stored) {
            Ok(IndexValue::Inline(inline)) => next.value.extend_from_slice(inline),
            Ok(IndexValue::Handle(handle)) => {
                let Ahead { key, value, .. } = &mut next;
                let mut take = |found: &[u8]| value.extend_from_slice(found);
                match self.shared.values.try_read(key, handle, &mut take) {
                    Ok(Some(())) => {}
                    Ok(None) if self.shared.cached.get(key, handle.number, value) => {}
                    Ok(None) => next.handle = Some(handle),
                    Err(error) => next.failure = Some(error),
                }
            }
            Err(error) => next.failure = Some(error),
        }
        self.window.push_back(next);
        self.found += 1;
        Ok(Step::Pair)
    }

    /// Makes the window longer, by pairs for which the index does not wait, and reads its values.
    fn read_window(&mut self) {
        let mut bytes: usize = self.window.iter().map(Ahead::bytes).sum();
        while self.window.len() < self.pairs && bytes < self.bytes_max {
            match self.add_next(false) {
                Ok(Step::Pair) => bytes += self.window.back().map_or(0, Ahead::bytes),
                Ok(Step::End | Step::WouldBlock) => break,
                Err(error) => {
                    self.index_failure = Some(error);
                    break;
                }
            }
        }
        self.pairs = (2 * self.pairs).min(PAIRS_MAX);
        // The spare buffers are those of the window before.
        self.account.set(2 * bytes as u64);
        let (mut lookups, mut places) = (Vec::new(), Vec::new());
        for (place, pair) in self.window.iter_mut().enumerate() {
            let Some(handle) = pair.handle else { continue };
            match self.shared.value_at_pin(&pair.key, handle) {
                Ok(lookup) => {
                    lookups.push(lookup);
                    places.push((place, handle));
                }
                Err(error) => (pair.handle, pair.failure) = (None, Some(error)),
            }
        }
        let cached = (CACHED_PAIRS + self.window.len()).saturating_sub(self.found);
        let (window, values) = (&mut self.window, &self.shared.values);
        self.shared.reads.complete_many(lookups, &mut |index, found| {
            let Some((place, handle)) = places.get(index) else { return };
            let Some(pair) = window.get_mut(*place) else { return };
            pair.handle = None;
            match found {
                Ok(Some(value)) => {
                    if *place < cached {
                        self.shared.cache_value(&pair.key, handle.number, value);
                    }
                    std::mem::swap(&mut pair.value, value);
                }
                Ok(None) => pair.failure = Some(values.damage_of(*handle, missing(*handle))),
                Err(error) => pair.failure = Some(error),
            }
        });
    }

    /// Drops the memory of pairs that the walk has left, if it is much.
    fn drop_spare(&mut self) {
        let bytes = |pair: &Ahead| pair.key.capacity() + pair.value.capacity();
        let mut left = self.bytes_max;
        self.spare.retain(|pair| {
            let is_kept = bytes(pair) <= left;
            left = left.saturating_sub(bytes(pair));
            is_kept
        });
        self.account.set(self.spare.iter().map(bytes).sum::<usize>() as u64);
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
        Ok((step == Step::Pair).then_some((&self.current.key, &self.current.value)))
    }

    fn try_next(&mut self) -> Result<TryNext<'_>> {
        Ok(match self.step(false)? {
            Step::Pair => TryNext::Pair(&self.current.key, &self.current.value),
            Step::End => TryNext::End,
            Step::WouldBlock => TryNext::WouldBlock,
        })
    }

    fn seek(&mut self, key: &[u8]) {
        self.window.clear();
        (self.found, self.pairs) = (0, PAIRS_MIN);
        self.drop_spare();
        self.index.seek(key);
    }
}
