//! Cursors on snapshots.
//!
//! A cursor holds its pin and the last key that it returned. It copies a run of pairs at a time
//! from the part of the present state that its pin sees, and holds nothing of that state in
//! between. So commits take memory and room back from cursors that do not move. The longer a cursor
//! moves, the longer its runs get.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use codec::SeqNo;
use engine::{Cursor, Direction, Error, KeyRange, Pin, Result, TryNext};
use flexspace::Found;

use crate::block::Block;
use crate::index::Interval;
use crate::memtable::Walker;
use crate::state::Base;
use crate::store::Shared;

/// Pairs of the first run, and of the longest.
const RUN_PAIRS_MIN: usize = 64;
const RUN_PAIRS_MAX: usize = 256;
/// Intervals that are read concurrently.
const INTERVALS_PER_TURN_MAX: usize = 16;
/// Bytes after which a run ends.
const RUN_BYTES_MAX: usize = 256 << 10;

impl Shared {
    /// Returns the pairs of `range` at `pin`.
    pub(crate) fn scan(
        self: &Arc<Self>,
        range: KeyRange,
        direction: Direction,
        pin: Arc<Pin>,
    ) -> Walk {
        Walk {
            shared: Arc::clone(self),
            pin,
            is_at_end: range.is_empty(),
            all: range.clone(),
            range,
            direction,
            dead: 0,
            last: None,
            run: Run::default(),
            pairs_max: RUN_PAIRS_MIN,
            failure: None,
            has_failed: false,
        }
    }
}

/// Pairs that were copied and not given yet.
#[derive(Default)]
struct Run {
    bytes: Vec<u8>,
    /// The beginning of each, and the lengths of its key and its value.
    pairs: Vec<(usize, usize, usize)>,
    given: usize,
}

impl Run {
    fn clear(&mut self) {
        self.bytes.clear();
        self.pairs.clear();
        self.given = 0;
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.pairs.push((self.bytes.len(), key.len(), value.len()));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    fn pair(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let (at, key_len, value_len) = *self.pairs.get(index)?;
        Some(self.bytes.get(at..at + key_len + value_len)?.split_at(key_len))
    }
}

/// A walk over a snapshot.
pub(crate) struct Walk {
    shared: Arc<Shared>,
    pin: Arc<Pin>,
    /// The range that it began with.
    all: KeyRange,
    /// The part of it that the walk has before it since the last seek.
    range: KeyRange,
    direction: Direction,
    /// Keys in a row that are deleted, before the one that comes next.
    dead: u64,
    /// The last key of the last run.
    last: Option<Vec<u8>>,
    run: Run,
    pairs_max: usize,
    /// Whether nothing comes behind the run.
    is_at_end: bool,
    /// The error that ended it, until it is returned behind the run.
    failure: Option<Error>,
    /// Set with the failure, and kept when the caller has it.
    has_failed: bool,
}

impl Cursor for Walk {
    fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.run.given == self.run.pairs.len() {
            if !self.is_at_end {
                self.fill(true);
            }
            if self.run.given == self.run.pairs.len() {
                return self.failure.take().map_or(Ok(None), Err);
            }
        }
        self.run.given += 1;
        Ok(self.run.pair(self.run.given - 1))
    }

    fn try_next(&mut self) -> Result<TryNext<'_>> {
        let is_run_given = |walk: &Self| walk.run.given == walk.run.pairs.len();
        if is_run_given(self) && !self.is_at_end {
            self.fill(false);
            if is_run_given(self) && !self.is_at_end {
                return Ok(TryNext::WouldBlock);
            }
        }
        self.next().map(TryNext::known)
    }

    fn seek(&mut self, key: &[u8]) {
        self.run.clear();
        if self.has_failed {
            return;
        }
        self.range = self.all.from_key(key, self.direction);
        self.is_at_end = self.range.is_empty();
        (self.last, self.pairs_max) = (None, RUN_PAIRS_MIN);
    }
}

impl Walk {
    /// Copies the next run. An error is returned after the pairs before it. If it does not wait for
    /// the device, the run ends before the first pair that has to be read.
    fn fill(&mut self, may_read: bool) {
        self.run.clear();
        let filled = match self.direction {
            Direction::Forward => self.forward(may_read),
            Direction::Backward => self.backward(may_read),
        };
        self.failure = filled.err().filter(|error| *error != Error::WouldWait);
        self.has_failed |= self.failure.is_some();
        self.is_at_end |= self.has_failed;
        if self.is_at_end {
            self.end_dead_run();
        }
        self.pairs_max = (self.pairs_max * 2).min(RUN_PAIRS_MAX);
        let count = self.run.pairs.len();
        if let Some((key, _)) = count.checked_sub(1).and_then(|last| self.run.pair(last)) {
            self.last = Some(key.to_vec());
        }
    }

    fn moment(&self) -> SeqNo {
        self.pin.seqno()
    }

    fn is_full(&self) -> bool {
        self.run.pairs.len() >= self.pairs_max || self.run.bytes.len() >= RUN_BYTES_MAX
    }

    /// Whether it may end rather than have the device read for a few pairs more.
    fn is_nearly_full(&self) -> bool {
        self.run.pairs.len() >= self.pairs_max / 4 * 3
    }

    fn forward(&mut self, may_read: bool) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let state = shared.open_state()?;
        let moment = self.moment();
        let sources = state.at(moment);
        let last = self.last.clone();
        let start = match (&last, &self.range.start) {
            (Some(last), _) => Bound::Excluded(last.as_slice()),
            (None, start) => start.as_ref().map(Vec::as_slice),
        };
        let mut walkers = sources.walkers(moment);
        walkers.iter_mut().for_each(|walker| walker.seek(start));
        let mut base = BaseWalker::new(&shared, sources.base, self.pairs_max, may_read);
        base.seek(start)?;
        loop {
            if self.is_full() {
                return Ok(());
            }
            let least = walkers.iter().filter_map(|walker| walker.here()).map(|it| it.key()).min();
            let in_base = base.pair();
            let from_base = in_base.map(|(key, _)| key);
            let Some(key) = least.into_iter().chain(from_base).min() else { break };
            if self.range.ends_before(key) {
                break;
            }
            if let Some((key, value)) = in_base.filter(|_| least != Some(key)) {
                self.run.push(key, value);
                self.end_dead_run();
                base.wanted = self.pairs_max.saturating_sub(self.run.pairs.len());
                if self.is_nearly_full() && base.is_last_ahead() {
                    return Ok(());
                }
                base.next()?;
                continue;
            }
            let (is_in_base, key) = (from_base == Some(key), key.to_vec());
            self.take_newest(&mut walkers, &key, Walker::take_one);
            if is_in_base {
                base.next()?;
            }
        }
        self.is_at_end = true;
        Ok(())
    }

    fn backward(&mut self, may_read: bool) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let state = shared.open_state()?;
        let moment = self.moment();
        let sources = state.at(moment);
        let last = self.last.clone();
        let end = match (&last, &self.range.end) {
            (Some(last), _) => Bound::Excluded(last.as_slice()),
            (None, end) => end.as_ref().map(Vec::as_slice),
        };
        let mut walkers = sources.walkers(moment);
        walkers.iter_mut().for_each(|walker| walker.seek_back(end));
        let mut base = BaseWalker::new(&shared, sources.base, self.pairs_max, may_read);
        base.seek_back(end)?;
        loop {
            if self.is_full() {
                return Ok(());
            }
            let most = walkers.iter().filter_map(|walker| walker.here()).map(|it| it.key()).max();
            let in_base = base.pair();
            let from_base = in_base.map(|(key, _)| key);
            let Some(key) = most.into_iter().chain(from_base).max() else { break };
            if !self.range.contains(key) {
                break;
            }
            if let Some((key, value)) = in_base.filter(|_| most != Some(key)) {
                self.run.push(key, value);
                self.end_dead_run();
                base.wanted = self.pairs_max.saturating_sub(self.run.pairs.len());
                if self.is_nearly_full() && base.is_last_behind() {
                    return Ok(());
                }
                base.previous()?;
                continue;
            }
            let (is_in_base, key) = (from_base == Some(key), key.to_vec());
            self.take_newest(&mut walkers, &key, Walker::step_back);
            if is_in_base {
                base.previous()?;
            }
        }
        self.is_at_end = true;
        Ok(())
    }

    /// Takes the update of the youngest of the walkers at `key`, and moves all of them on.
    fn take_newest<'a>(
        &mut self,
        walkers: &mut [Walker<'a>],
        key: &[u8],
        step: impl Fn(&mut Walker<'a>),
    ) {
        let (mut is_taken, mut is_value) = (false, false);
        for walker in walkers {
            let Some(update) = walker.here().filter(|update| update.key() == key) else { continue };
            if !is_taken && let Some(value) = update.value() {
                self.run.push(key, value);
                is_value = true;
            }
            is_taken = true;
            step(walker);
        }
        match is_value {
            true => self.end_dead_run(),
            false => self.dead += 1,
        }
    }

    /// There is a pair behind keys that are deleted, or the end.
    fn end_dead_run(&mut self) {
        let steps = std::mem::take(&mut self.dead);
        if steps > 0 {
            self.shared.note_dead_run(steps);
        }
    }
}

/// A walk over the pairs of a base.
struct BaseWalker<'a> {
    shared: &'a Arc<Shared>,
    base: &'a Arc<Base>,
    /// The interval: its block, its begin, and its end.
    block: Option<(Arc<Block>, u64, u64)>,
    index: usize,
    /// Whether it has reached an interval: the first one may have pairs that are not wanted.
    has_begun: bool,
    may_read: bool,
    /// How many pairs are wanted still.
    wanted: usize,
    /// Intervals that were read with the one before them on the way, and their places.
    ahead: VecDeque<(Result<Arc<Block>>, u64, u64)>,
}

impl<'a> BaseWalker<'a> {
    fn new(shared: &'a Arc<Shared>, base: &'a Arc<Base>, wanted: usize, may_read: bool) -> Self {
        Self {
            shared,
            base,
            block: None,
            index: 0,
            has_begun: false,
            may_read,
            wanted,
            ahead: VecDeque::new(),
        }
    }

    fn pair(&self) -> Option<(&[u8], &[u8])> {
        self.block.as_ref().and_then(|(block, ..)| block.key_and_value(self.index))
    }

    /// Whether this pair is the last one that was read.
    fn is_last_ahead(&self) -> bool {
        let is_last = |block: &Block| self.index + 1 >= block.len();
        self.ahead.is_empty() && self.block.as_ref().is_some_and(|(block, ..)| is_last(block))
    }

    /// Whether this pair is the last one that was read on the way back.
    fn is_last_behind(&self) -> bool {
        self.ahead.is_empty() && self.index == 0
    }

    /// Goes to the interval that begins at `offset`, or to none behind the last.
    fn go_on_to(&mut self, offset: u64) -> Result<Option<&Arc<Block>>> {
        if self.ahead.front().is_none_or(|(_, begin, _)| *begin != offset) {
            let base = self.base;
            self.read_ahead(base.index.range(offset..u64::MAX))?;
        }
        self.take_next()
    }

    /// Goes to the interval that ends at `offset`, or to none before the first.
    fn go_back_to(&mut self, offset: u64) -> Result<Option<&Arc<Block>>> {
        if self.ahead.front().is_none_or(|(.., end)| *end != offset) {
            let (base, mut end) = (self.base, offset);
            self.read_ahead(std::iter::from_fn(|| {
                let found = end.checked_sub(1).and_then(|last| base.index.get(last))?;
                end = found.offset;
                Some(found)
            }))?;
        }
        self.take_next()
    }

    /// Moves to the first of the intervals that were read.
    fn take_next(&mut self) -> Result<Option<&Arc<Block>>> {
        let Some((block, begin, end)) = self.ahead.pop_front() else { return Ok(None) };
        self.has_begun = true;
        Ok(Some(&self.block.insert((block?, begin, end)).0))
    }

    /// Reads the first of the intervals on the way. If it has to be read, it also reads,
    /// concurrently, the intervals behind it that have the wanted pairs. Half of the pairs of the
    /// interval in which the walk begins are assumed to be wanted.
    fn read_ahead(&mut self, on_the_way: impl Iterator<Item = Found<'a, Interval>>) -> Result<()> {
        self.ahead.clear();
        let mut on_the_way = on_the_way.peekable();
        let Some(first) = on_the_way.peek() else { return Ok(()) };
        if !self.may_read {
            let block = first.entry.head().and_then(|head| head.whole()).ok_or(Error::WouldWait)?;
            self.shared.cache.hits.fetch_add(1, Relaxed);
            let end = first.offset + u64::from(first.length);
            self.ahead.push_back((Ok(block), first.offset, end));
            return Ok(());
        }
        let is_cached = first.entry.head().is_some_and(|head| head.is_whole_cached());
        let count = if is_cached { 1 } else { INTERVALS_PER_TURN_MAX };
        let begins_within = !self.has_begun;
        let (mut bytes, mut pairs) = (0, 0);
        let usual = self.shared.interval_limits().pairs / 2;
        let intervals = on_the_way.take(count).take_while(|it| {
            let is_first = bytes == 0;
            let is_wanted = is_first || pairs < self.wanted;
            bytes += it.length as usize;
            let all = it.entry.head().map_or(usual, |head| head.lie.pairs_or(usual));
            pairs += if is_first && begins_within { all / 2 } else { all };
            is_first || is_wanted && bytes <= RUN_BYTES_MAX
        });
        let intervals: Vec<_> = intervals.collect();
        let place = |it: &Found<'_, Interval>| (it.offset, it.offset + u64::from(it.length));
        let places = intervals.iter().map(place);
        // The callback below is called with the result of each.
        self.ahead = places.map(|(begin, end)| (Err(Error::Closed), begin, end)).collect();
        let ahead = &mut self.ahead;
        self.shared.blocks(self.base, &intervals, &mut |index, block| {
            if let Some((slot, ..)) = ahead.get_mut(index) {
                *slot = block;
            }
        });
        Ok(())
    }

    fn seek(&mut self, start: Bound<&[u8]>) -> Result<()> {
        let key = match start {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        let first = key.and_then(|key| self.base.interval_of(key));
        let offset = first.map_or(0, |found| found.offset);
        let Some(block) = self.go_on_to(offset)? else { return Ok(()) };
        self.index = match start {
            Bound::Included(key) => block.lower_bound(key),
            Bound::Excluded(key) => block.upper_bound(key),
            Bound::Unbounded => 0,
        };
        self.skip_ends()
    }

    fn next(&mut self) -> Result<()> {
        self.index += 1;
        self.skip_ends()
    }

    /// Moves to the next interval that has a pair, if this one has none any more.
    fn skip_ends(&mut self) -> Result<()> {
        while let Some((block, _, end)) = &self.block
            && self.index >= block.len()
        {
            let end = *end;
            self.block = None;
            self.index = 0;
            if self.go_on_to(end)?.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn seek_back(&mut self, end: Bound<&[u8]>) -> Result<()> {
        let key = match end {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        let last = key.and_then(|key| self.base.interval_of(key));
        let offset =
            last.map_or(self.base.index.len(), |found| found.offset + u64::from(found.length));
        let Some(block) = self.go_back_to(offset)? else { return Ok(()) };
        self.index = match end {
            Bound::Included(key) => block.upper_bound(key),
            Bound::Excluded(key) => block.lower_bound(key),
            Bound::Unbounded => block.len(),
        };
        self.previous()
    }

    /// Goes back to the pair before this one, of an interval before it if this one has none.
    fn previous(&mut self) -> Result<()> {
        while self.index == 0 {
            let Some((_, begin, _)) = self.block.take() else { return Ok(()) };
            let Some(block) = self.go_back_to(begin)? else { return Ok(()) };
            self.index = block.len();
        }
        self.index -= 1;
        Ok(())
    }
}
