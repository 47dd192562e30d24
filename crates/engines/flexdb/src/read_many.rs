//! Reading many intervals at once.
//!
//! What a scan wants are neighbours, so they are read as one: in their order updates were appended to
//! them, commit by commit, and those of one commit lie in the same blocks.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{Error, Result};
use flexspace::Found as FoundEntry;

use crate::block::Block;
use crate::index::Interval;
use crate::read::Cold;
use crate::state::Base;
use crate::store::Shared;

impl Shared {
    /// Blocks of intervals, each behind the one before it, or before it: those that are not cached are read,
    /// all at once, and cached. Each is told of by its index.
    pub(crate) fn blocks(
        self: &Arc<Self>,
        base: &Arc<Base>,
        intervals: &[FoundEntry<'_, Interval>],
        tell: &mut dyn FnMut(usize, Result<Arc<Block>>),
    ) -> Result<()> {
        let (mut indices, mut colds) = (Vec::new(), Vec::new());
        for (index, interval) in intervals.iter().enumerate() {
            let Some(head) = interval.entry.head() else { continue };
            if let Some(block) = head.whole() {
                self.cache.hits.fetch_add(1, Relaxed);
                tell(index, Ok(block));
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
                tell(*index, block);
            }
        })
    }

    /// Reads intervals in an order, neighbours as one, and caches none. Each is told of by its index.
    pub(crate) fn read_neighbours(
        &self,
        colds: &[Cold],
        tell: &mut dyn FnMut(usize, Result<Arc<Block>>),
    ) -> Result<()> {
        let runs: Vec<Range<usize>> = neighbours(colds);
        let mut alone: Vec<usize> = Vec::new();
        let members = |run: usize| runs.get(run).cloned().unwrap_or_default();
        let mut tell_run = |run: usize, bytes: Result<Vec<u8>>| {
            let mut bytes = match bytes {
                Ok(bytes) => bytes,
                // Some of them may be sound.
                Err(Error::Corruption(_)) => return alone.extend(members(run)),
                Err(error) => return members(run).for_each(|at| tell(at, Err(error.clone()))),
            };
            let begin = span(colds, members(run)).start;
            for at in members(run) {
                let Some(cold) = colds.get(at) else { continue };
                let inside = (cold.span().start - begin) as usize;
                let own = match members(run).len() {
                    1 => std::mem::take(&mut bytes),
                    _ => bytes.get(inside..inside + cold.bytes()).unwrap_or_default().to_vec(),
                };
                tell(at, self.decode(cold, own));
            }
        };
        if !colds.is_empty() {
            self.with_queue(|queue| {
                for (index, run) in runs.iter().enumerate() {
                    let Some(first) = colds.get(run.start) else { continue };
                    match self.begin_read_of(first, span(colds, run.clone()), run.len()) {
                        Ok(reading) if reading.missing() == 0 => {
                            tell_run(index, Ok(reading.into_bytes()));
                        }
                        Ok(reading) => queue.begin(&*self.host.device, reading, index)?,
                        Err(error) => tell_run(index, Err(error)),
                    }
                }
                while queue.pending() > 0 {
                    queue.complete(true, &mut tell_run)?;
                }
                Ok(())
            })?;
        }
        let colds: Vec<&Cold> = alone.iter().filter_map(|at| colds.get(*at)).collect();
        self.read_many(&colds, &mut |index, block| {
            if let Some(at) = alone.get(index) {
                tell(*at, block);
            }
        })
    }

    /// Reads intervals, all of them at once, and caches none. Each is told of by its index.
    pub(crate) fn read_many(
        &self,
        colds: &[&Cold],
        tell: &mut dyn FnMut(usize, Result<Arc<Block>>),
    ) -> Result<()> {
        if colds.is_empty() {
            return Ok(());
        }
        let mut tell = |index: usize, bytes: Result<Vec<u8>>| {
            if let Some(cold) = colds.get(index) {
                tell(index, bytes.and_then(|bytes| self.decode(cold, bytes)));
            }
        };
        self.with_queue(|queue| {
            for (index, cold) in colds.iter().enumerate() {
                match self.begin_read(cold) {
                    Ok(reading) if reading.missing() == 0 => tell(index, Ok(reading.into_bytes())),
                    Ok(reading) => queue.begin(&*self.host.device, reading, index)?,
                    Err(error) => tell(index, Err(error)),
                }
            }
            while queue.pending() > 0 {
                queue.complete(true, &mut tell)?;
            }
            Ok(())
        })
    }
}

/// Bytes of the space that intervals have which are neighbours.
fn span(colds: &[Cold], run: Range<usize>) -> Range<u64> {
    let mut spans = colds.get(run).unwrap_or_default().iter().map(Cold::span);
    let first = spans.next().unwrap_or_default();
    spans.fold(first, |all, one| all.start.min(one.start)..all.end.max(one.end))
}

/// Which of the intervals are neighbours, in either direction.
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
