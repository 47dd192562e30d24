//! Neighbours that are rewritten together.
//!
//! To rewrite an interval, the commit has to read the interval's own extents; each takes a block of
//! the device or two, for one pair or a few. The updates that one commit has appended to neighbours
//! are next to one another, in the same blocks. So the updates of a run of intervals are read with
//! few reads, and rewriting all of them costs no more reads than rewriting a single one.
//!
//! 1. A chunk's intervals, and those between them without updates, are cut into runs of a number of
//!    bytes.
//! 2. The first run is chosen in which the appended updates are a certain share of the other pairs,
//!    however they are spread over its intervals. The share is greater if no scans read the data
//!    that are written (`scan_ratio.rs`). A chunk has one such run at most, and so have, except by
//!    chance, all chunks together that are planned and not done: until then all pairs of the run
//!    are in memory. If a commit was refused for lack of room, no run is rewritten: only necessary
//!    changes are made.
//! 3. All intervals of the run that were appended to are rewritten, also those without updates now.

use std::sync::Arc;

use flexspace::Found;

use super::plan::{Known, Planner};
use super::plan_parallel::{ChunkTurn, Pending};
use crate::index::{Interval, Lie};
use crate::read::UncachedInterval;
use crate::store::Shared;

/// Intervals of a run, at least: fewer have no blocks in common.
const RUN_MIN: usize = 4;
/// Bytes of a run, at most: half of the bytes that a chunk may have, within these limits. At the
/// same time they are in memory in several forms.
const RUN_BYTES_MIN: u64 = 64 << 10;
const RUN_BYTES_MAX: u64 = 256 << 10;
/// Bytes over which a chunk's intervals may be spread, those between them included, as a multiple
/// of a run's bytes. Above that no run is searched.
const SPARSE: u64 = 8;

impl Shared {
    /// Returns the updates behind the pairs of neighbours, in percent of these pairs, from which on
    /// a rewrite is worth it. More if no scans read the data and a journal lets memtables wait for
    /// one another: then the updates are in a third of the pieces.
    pub(crate) fn tail_percent(&self) -> u16 {
        let (scanned, others) =
            (self.options.tail_percent_max, self.options.unscanned_tail_percent_max);
        match self.rewrites_for_scans() {
            true => scanned,
            false => scanned.max(others),
        }
    }

    /// Whether updates are rewritten early, because scans read the data or no journal lets
    /// memtables wait for one another.
    fn rewrites_for_scans(&self) -> bool {
        self.background.scan_ratio.is_scanned() || !self.host.barrier.is_journaled()
    }
}

impl Planner<'_> {
    /// Returns the bytes that an interval may have with its tail. With long values these bytes end
    /// a tail before the number of its updates does, and twice the bytes halve the rewrites.
    pub(super) fn bytes_with_tail_max(&self) -> u64 {
        let bytes = u64::from(self.limits.bytes);
        match self.shared.rewrites_for_scans() {
            true => bytes,
            false => bytes.max(UNSCANNED_LENGTHS * u64::from(self.shared.options.interval_bytes)),
        }
    }
}

/// Usual lengths of an interval that it may have with its tail, if no scans read the data.
const UNSCANNED_LENGTHS: u64 = 2;

/// An interval of a run.
struct Member<'a> {
    found: Found<'a, Interval>,
    /// Which of the chunk's intervals with updates it is.
    pending: Option<usize>,
    /// Updates behind its pairs, the new ones included, and all that it has.
    tail: usize,
    pairs: usize,
}

impl Planner<'_> {
    /// Marks a run of the intervals to be rewritten if that is worth it, and adds those without
    /// updates. The returned permit accounts for the run's memory.
    pub(super) fn join_in_runs<'a>(
        &'a self,
        turn: &ChunkTurn,
        intervals: &mut Vec<Pending<'a>>,
    ) -> Option<Arc<()>> {
        let permit = &turn.inputs.run;
        if turn.inputs.is_short_of_room || Arc::strong_count(permit) > 1 {
            return None;
        }
        let permit = Arc::clone(permit);
        let run = self.run(turn, intervals);
        if run.is_empty() {
            return None;
        }
        for (found, pending) in run {
            let Some(head) = found.entry.head() else { continue };
            let known = match head.whole() {
                Some(block) => Known::Pairs(block),
                None => Known::Cold(UncachedInterval::new(self.base, &found, head)),
            };
            match pending.and_then(|index| intervals.get_mut(index)) {
                Some(interval) => (interval.known, interval.is_rewrite) = (known, true),
                None => {
                    let updates = Vec::new();
                    intervals.push(Pending {
                        found: Some(found),
                        updates,
                        known,
                        is_rewrite: true,
                    });
                }
            }
        }
        intervals.sort_by_key(|interval| interval.found.as_ref().map_or(0, |found| found.offset));
        Some(permit)
    }

    /// Steps 1 and 2: returns the members that are to be rewritten.
    fn run<'a>(
        &'a self,
        turn: &ChunkTurn,
        intervals: &[Pending<'a>],
    ) -> Vec<(Found<'a, Interval>, Option<usize>)> {
        let chunk = turn.inputs.chunk.bytes;
        let bytes_max = (chunk / 2).clamp(RUN_BYTES_MIN.min(chunk), RUN_BYTES_MAX);
        let (first, last) = (intervals.first(), intervals.last());
        let places =
            first.and_then(|it| it.found.as_ref()).zip(last.and_then(|it| it.found.as_ref()));
        let Some((first, last)) = places else { return Vec::new() };
        let end = last.offset + u64::from(last.length);
        if intervals.len() < 2 || end - first.offset > bytes_max.saturating_mul(SPARSE) {
            return Vec::new();
        }
        let (mut run, mut bytes, mut next) = (Vec::new(), 0, 0);
        for found in self.base.index.range(first.offset..end) {
            let is_next = |interval: &&Pending<'_>| {
                interval.found.as_ref().is_some_and(|it| it.offset == found.offset)
            };
            let updates = intervals.get(next).filter(is_next).map(|it| it.updates.len());
            let pending = updates.map(|_| next);
            next += usize::from(pending.is_some());
            let length = u64::from(found.length);
            if bytes + length > bytes_max && !run.is_empty() {
                if self.is_worth(&run) {
                    break;
                }
                run.clear();
                bytes = 0;
            }
            bytes += length;
            let Some(head) = found.entry.head().filter(|head| !head.lie.is_out_of_order) else {
                continue;
            };
            let pairs = match head.lie.pairs {
                Lie::UNKNOWN => self.limits.pairs / 2,
                pairs => usize::from(pairs),
            };
            let tail = usize::from(head.lie.tail) + updates.unwrap_or(0);
            run.push(Member { found, pending, tail, pairs: pairs + updates.unwrap_or(0) });
        }
        if !self.is_worth(&run) {
            return Vec::new();
        }
        let is_changed = |member: &Member<'_>| {
            let lie = member.found.entry.head().map(|head| head.lie);
            member.tail > 0 || lie.is_some_and(|lie| lie.fragments > 1)
        };
        let changed = run.into_iter().filter(is_changed);
        changed.map(|member| (member.found, member.pending)).collect()
    }

    fn is_worth(&self, run: &[Member<'_>]) -> bool {
        let tail: usize = run.iter().map(|member| member.tail).sum();
        let pairs: usize = run.iter().map(|member| member.pairs).sum();
        let main = pairs.saturating_sub(tail).max(1);
        run.len() >= RUN_MIN && 100 * tail >= usize::from(self.shared.tail_percent()) * main
    }
}
