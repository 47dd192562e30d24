//! Holding the index to its share of the memory: fewer intervals, of more pairs each (Flex 5.1).
//!
//! 1. After a commit, and once when the store was opened, the store checks whether intervals take
//!    more than their share (`memory_split`).
//! 2. If they take more, intervals may have more pairs and bytes, the more they take
//!    (`memory_split`): intervals that are written to grow, and are not split.
//! 3. If that was not enough, and intervals take twice their share, all neighbours that are small
//!    together become one. This happens in the index alone, as when a store is opened, so nothing
//!    is read or written. They may be as large as rewritten intervals are filled. If that leaves
//!    too many, intervals may be twice as large, and so on. A get of such an interval reads all of
//!    its pieces, until it is rewritten.
//!
//! All of that has a limit of size. Beyond it the index takes more than its share, and above
//! [`REPORTED_SHARES`] shares the store reports a background error. If intervals take little, their
//! limit is halved again, and intervals that change are split gradually.
//!
//! The third step walks over the index, so the store first checks how much the index takes alone.
//! Intervals of an older index that only snapshots hold disappear with the snapshots, and joining
//! frees nothing of them. The step is not done again before the whole index has grown by a part of
//! its share, so such a snapshot does not cause a walk after each commit.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{Error, Result};

use super::{Committer, plan::FILL};
use crate::background_errors::HOLD_INDEX;
use crate::block::Block;
use crate::index::{self, Head, Interval, Lie};
use crate::memory_split::IntervalLimits;
use crate::store::Shared;

/// Parts of the share by which the index has to grow before it is checked again.
const GROWN_PARTS: u64 = 8;
/// Shares above which neighbours are joined.
const JOINED_SHARES: u64 = 2;
/// Parts of the share below which intervals may be smaller again.
const LITTLE_PARTS: u64 = 4;
/// Shares from which on the store reports a background error.
const REPORTED_SHARES: u64 = 3;

/// Neighbours that become one.
struct Run {
    range: Range<u64>,
    heads: Vec<Arc<Head>>,
}

impl Shared {
    /// Holds the index to its share, while no commit is under way.
    pub(crate) fn hold_index(&self, committer: &mut Committer) -> Result<()> {
        let share = self.memory_split().index_bytes();
        let memory = &self.index_memory;
        let taken = memory.intervals_bytes(committer.index());
        if taken < share / LITTLE_PARTS {
            memory.halve();
        }
        let looked_at = memory.looked_at();
        let is_grown = taken > looked_at.saturating_add(share / GROWN_PARTS);
        if taken > share.saturating_mul(JOINED_SHARES) && is_grown {
            if index::memory_bytes(committer.index.now()) > share.saturating_mul(JOINED_SHARES) {
                self.coarsen(committer, share)?;
            }
            memory.look_at(memory.intervals_bytes(committer.index()));
        } else if taken < looked_at {
            memory.look_at(taken);
        }
        self.report_index();
        Ok(())
    }

    /// Lets intervals be larger, and returns whether they may be.
    fn allow_larger(&self) -> bool {
        let before = self.interval_limits();
        while self.index_memory.double() {
            if self.interval_limits() != before {
                return true;
            }
        }
        false
    }

    /// Step 3.
    fn coarsen(&self, committer: &mut Committer, share: u64) -> Result<()> {
        loop {
            if self.join_all(committer, self.interval_limits()) > 0 {
                // Readers release the intervals that were joined.
                self.renew_base(committer)?;
            }
            let left = index::memory_bytes(committer.index.now());
            if left <= share || !self.allow_larger() {
                return Ok(());
            }
        }
    }

    /// Joins neighbours, in the order of the keys, and returns how many fewer intervals there are.
    fn join_all(&self, committer: &mut Committer, limits: IntervalLimits) -> u64 {
        let (mut at, mut count) = (0, 0);
        while let Some(run) = next_run(committer, at, limits) {
            at = run.range.end;
            if run.heads.len() > 1 {
                count += run.heads.len() as u64 - 1;
                let joined = Interval::new(self.joined(&run.heads));
                index::join_run(&mut committer.index, run.range, joined);
            }
        }
        self.figures.counts.coarsened.fetch_add(count, Relaxed);
        count
    }

    fn joined(&self, heads: &[Arc<Head>]) -> Arc<Head> {
        let lies = heads.iter().map(|head| head.lie);
        let lie = lies.reduce(join_lies).unwrap_or_default();
        let (bound, first) = heads.first().map_or((&[][..], &[][..]), |head| {
            let bound: &[u8] = head.bound();
            (bound, head.first_key())
        });
        let joined = Head::new(bound, first, lie, &self.index_memory.heads);
        let (cache, mut blocks) = (&self.cache, heads.iter().map(|head| head.whole()));
        if let Some(Some(block)) = blocks.next() {
            let all = blocks.try_fold(block, |left, right| {
                Some(Arc::new(Block::joined(&left, &*right?, &cache.memory)))
            });
            if let Some(block) = all {
                cache.insert(&joined, &block, self.cache_share());
            }
        }
        joined
    }

    /// Notes whether the index takes far more than it should.
    fn report_index(&self) {
        let (limit, bytes) = (self.memory_split().index_bytes(), self.index_memory.bytes());
        if bytes > limit.saturating_mul(REPORTED_SHARES) {
            let error = Error::OutOfMemory { limit };
            self.background.errors.fail(HOLD_INDEX, &error, &self.host.environment);
        } else {
            self.background.errors.succeed(HOLD_INDEX);
        }
    }
}

/// The next neighbours that are small together, or one that is not.
fn next_run(committer: &Committer, at: u64, limits: IntervalLimits) -> Option<Run> {
    let fill = |full: usize| (full * FILL.0 / FILL.1).max(1);
    let (bytes_max, pairs_max) = (fill(limits.bytes as usize) as u64, fill(limits.pairs));
    let mut run = Run { range: at..at, heads: Vec::new() };
    let mut all = None;
    for found in committer.index.now().range(at..u64::MAX) {
        let Some(head) = found.entry.head() else { break };
        let end = found.offset + u64::from(found.length);
        let lie = all.map_or(head.lie, |all| join_lies(all, head.lie));
        // If the number of pairs is not known, bytes alone limit it.
        let has_few_pairs = lie.pairs == Lie::UNKNOWN || usize::from(lie.pairs) <= pairs_max;
        let is_small = end - at <= bytes_max && has_few_pairs && !lie.is_out_of_order;
        if !is_small && !run.heads.is_empty() {
            break;
        }
        run.range.end = end;
        run.heads.push(Arc::clone(head));
        all = Some(lie);
        if !is_small {
            break;
        }
    }
    (!run.heads.is_empty()).then_some(run)
}

/// Returns the layout of two neighbours that become one.
fn join_lies(left: Lie, right: Lie) -> Lie {
    Lie {
        fragments: left.fragments.saturating_add(right.fragments),
        tail: left.tail.saturating_add(right.tail),
        pairs: left.pairs.saturating_add(right.pairs),
        has_inner_tags: true,
        is_out_of_order: left.is_out_of_order || right.is_out_of_order,
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
