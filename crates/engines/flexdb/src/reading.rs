//! Reading many intervals concurrently.
//!
//! A scan reads neighbours, and a run of neighbours is one read: commits append updates to them in
//! their order, so the updates of one commit are in the same blocks.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{Error, Result};
use flexspace::Found as FoundEntry;
use flexspace::space::Reading;
use reads::InFlightReads;

use crate::block::Block;
use crate::index::Interval;
use crate::read::Cold;
use crate::space_read::SpaceRead;
use crate::state::Base;
use crate::store::Shared;

impl Shared {
    /// Reads the blocks of intervals that are in ascending or descending order. Intervals that
    /// are not cached are read concurrently, and cached. Calls `each` with the index of each interval.
    pub(crate) fn blocks(
        self: &Arc<Self>,
        base: &Arc<Base>,
        intervals: &[FoundEntry<'_, Interval>],
        each: &mut dyn FnMut(usize, Result<Arc<Block>>),
    ) {
        let (mut indices, mut colds) = (Vec::new(), Vec::new());
        for (index, interval) in intervals.iter().enumerate() {
            let Some(head) = interval.entry.head() else { continue };
            if let Some(block) = head.whole() {
                self.cache.hits.fetch_add(1, Relaxed);
                each(index, Ok(block));
            } else {
                indices.push(index);
                colds.push(Cold::new(base, interval, head));
            }
        }
        self.cache.note_walked(colds.len(), self.cache_share());
        self.scanned.note_read(colds.len() as u64);
        self.read_neighbours(&colds, &mut |at, block| {
            if let (Ok(block), Some(cold)) = (&block, colds.get(at)) {
                self.cache_block(cold, block);
                self.offer_if_fragmented(cold, block);
            }
            if let Some(index) = indices.get(at) {
                each(*index, block);
            }
        });
    }

    /// Reads intervals in an order, neighbours as one, and caches none. Calls `each` with the index
    /// of each interval.
    pub(crate) fn read_neighbours(
        &self,
        colds: &[Cold],
        each: &mut dyn FnMut(usize, Result<Arc<Block>>),
    ) {
        let runs: Vec<Range<usize>> = neighbours(colds);
        let mut alone: Vec<usize> = Vec::new();
        let members = |run: usize| runs.get(run).cloned().unwrap_or_default();
        let readings = runs.iter().filter_map(|run| {
            let first = colds.get(run.start)?;
            Some(self.begin_read_of(first, span(colds, run.clone())))
        });
        self.read_all(readings, &mut |run, bytes| {
            let mut bytes = match bytes {
                Ok(bytes) => bytes,
                // Some of them may be undamaged.
                Err(Error::Corruption(_)) => return alone.extend(members(run)),
                Err(error) => return members(run).for_each(|at| each(at, Err(error.clone()))),
            };
            let begin = span(colds, members(run)).start;
            for at in members(run) {
                let Some(cold) = colds.get(at) else { continue };
                let inside = (cold.span().start - begin) as usize;
                let own = match members(run).len() {
                    1 => std::mem::take(&mut bytes),
                    _ => bytes.get(inside..inside + cold.bytes()).unwrap_or_default().to_vec(),
                };
                self.cache.misses.fetch_add(1, Relaxed);
                each(at, self.decode(cold, own));
            }
        });
        let colds: Vec<&Cold> = alone.iter().filter_map(|at| colds.get(*at)).collect();
        self.read_many(&colds, &mut |index, block| {
            if let Some(at) = alone.get(index) {
                each(*at, block);
            }
        });
    }

    /// Reads intervals concurrently, and caches none. Calls `each` with the index of each interval.
    pub(crate) fn read_many(
        &self,
        colds: &[&Cold],
        each: &mut dyn FnMut(usize, Result<Arc<Block>>),
    ) {
        let readings = colds.iter().map(|cold| self.begin_read(cold));
        self.read_all(readings, &mut |index, bytes| {
            if let Some(cold) = colds.get(index) {
                self.cache.misses.fetch_add(1, Relaxed);
                each(index, bytes.and_then(|bytes| self.decode(cold, bytes)));
            }
        });
    }

    /// Does reads of the space concurrently. Calls `each` with the index of each read.
    fn read_all(
        &self,
        readings: impl Iterator<Item = Result<Reading>>,
        each: &mut dyn FnMut(usize, Result<Vec<u8>>),
    ) {
        let mut lent: Option<InFlightReads<usize>> = None;
        for (index, reading) in readings.enumerate() {
            let reading = match reading {
                Ok(reading) if reading.missing() > 0 => reading,
                Ok(reading) => {
                    each(index, Ok(reading.into_bytes()));
                    continue;
                }
                Err(error) => {
                    each(index, Err(error));
                    continue;
                }
            };
            let read = SpaceRead::new(reading, &self.source, &self.host.memory);
            let table = lent.get_or_insert_with(|| self.reads.take());
            let mut begun = table.start(Box::new(read), index);
            while let Err((read, index)) = begun {
                complete_some(table, each);
                begun = table.start(read, index);
            }
        }
        let Some(mut table) = lent else { return };
        while !table.is_empty() {
            complete_some(&mut table, each);
        }
        self.reads.put_back(table);
    }
}

/// Waits until some reads are complete, and calls `each` with their indices and their bytes.
fn complete_some(table: &mut InFlightReads<usize>, each: &mut dyn FnMut(usize, Result<Vec<u8>>)) {
    table.complete(true, &mut |index, done| {
        each(index, done.value.map(|bytes| bytes.map(std::mem::take).unwrap_or_default()));
    });
}

/// Returns the bytes of the space that a run of neighbours has.
fn span(colds: &[Cold], run: Range<usize>) -> Range<u64> {
    let mut spans = colds.get(run).unwrap_or_default().iter().map(Cold::span);
    let first = spans.next().unwrap_or_default();
    spans.fold(first, |all, one| all.start.min(one.start)..all.end.max(one.end))
}

/// Returns the runs of neighbours among intervals, in either direction.
fn neighbours(colds: &[Cold]) -> Vec<Range<usize>> {
    let is_next = |left: &Cold, right: &Cold| {
        if left.is_out_of_order() || right.is_out_of_order() {
            return false;
        }
        let (left, right) = (left.span(), right.span());
        left.end == right.start || right.end == left.start
    };
    let mut begin = 0;
    let runs = colds.chunk_by(is_next).map(|run| {
        let range = begin..begin + run.len();
        begin = range.end;
        range
    });
    runs.collect()
}
