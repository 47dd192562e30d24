//! Reading many intervals concurrently.
//!
//! Blocks that are next to each other in the file are one read. Scans and commits read intervals
//! that are neighbours. Commits append updates to intervals in their order, so the updates of one
//! commit are in the same blocks.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{ReadRequest, Result};
use flexspace::Found as FoundEntry;
use reads::{Batch, RangeBytes, RangeRead, RangeReader};

use crate::block::Block;
use crate::index::Interval;
use crate::read::UncachedInterval;
use crate::space_read::SpaceRead;
use crate::state::Base;
use crate::store::Shared;

/// Bytes of the longest read of several runs of blocks: longer reads are no faster. A scan reads up
/// to 256 KiB together, which may begin and end within blocks.
const JOINED_BYTES_MAX: usize = (256 << 10) + 2 * 4096;
/// Bytes in flight.
const IN_FLIGHT_BYTES_MAX: usize = 4 << 20;
const BATCH: Batch =
    Batch { gap: 0, span_bytes_max: JOINED_BYTES_MAX, bytes_max: IN_FLIGHT_BYTES_MAX };

/// The callback of [`Shared::read_intervals`]: called with the index of an interval, and its block.
type WithBlock<'a> = dyn FnMut(usize, Result<Arc<Block>>) + 'a;

/// A run of blocks: its offset in the file, the index of its interval, and its index among that
/// interval's runs.
type Run = (u64, usize, usize);

/// Intervals that are being read.
struct Intervals<'a> {
    shared: &'a Shared,
    uncached: &'a [UncachedInterval],
    /// The reads that have not ended.
    reads: Vec<Option<SpaceRead>>,
    /// All runs, the last one in the file first.
    runs: Vec<Run>,
    each: &'a mut WithBlock<'a>,
}

impl Intervals<'_> {
    fn request(&self, (_, index, run): Run) -> Option<&ReadRequest> {
        self.reads.get(index)?.as_ref()?.runs().get(run)
    }

    /// Reports the end of an interval's read.
    fn end(&mut self, index: usize, bytes: Result<Vec<u8>>) {
        if let Some(cold) = self.uncached.get(index) {
            self.shared.cache.misses.fetch_add(1, Relaxed);
            (self.each)(index, bytes.and_then(|bytes| self.shared.decode(cold, bytes)));
        }
    }
}

impl RangeReader<Run> for Intervals<'_> {
    fn next_range(&mut self) -> Result<Option<RangeRead<Run>>> {
        while let Some(run) = self.runs.pop() {
            // A failed read wants no more runs.
            if let Some(ReadRequest { file, offset, len, .. }) = self.request(run) {
                let (file, offset, len) = (Arc::clone(file), *offset, *len);
                return Ok(Some(RangeRead { file, offset, len, payload: run }));
            }
        }
        Ok(None)
    }

    fn take_bytes(
        &mut self,
        (_, index, run): Run,
        bytes: Result<RangeBytes<'_>>,
    ) -> Result<Option<RangeRead<Run>>> {
        let Some(place) = self.reads.get_mut(index) else { return Ok(None) };
        // Another run of the interval may have failed.
        let Some(mut read) = place.take() else { return Ok(None) };
        match read.give(run, bytes.map(|bytes| bytes.range)) {
            Ok(true) => self.end(index, Ok(read.take_bytes())),
            Ok(false) => *place = Some(read),
            Err(error) => self.end(index, Err(error)),
        }
        Ok(None)
    }
}

impl Shared {
    /// Reads the blocks of intervals that are in ascending or descending order. Intervals that are
    /// not cached are read concurrently, and cached. Calls `each` with the index of each interval.
    pub(crate) fn blocks(
        self: &Arc<Self>,
        base: &Arc<Base>,
        intervals: &[FoundEntry<'_, Interval>],
        each: &mut dyn FnMut(usize, Result<Arc<Block>>),
    ) {
        let (mut indices, mut uncached) = (Vec::new(), Vec::new());
        for (index, interval) in intervals.iter().enumerate() {
            let Some(head) = interval.entry.head() else { continue };
            if let Some(block) = head.whole() {
                self.cache.hits.fetch_add(1, Relaxed);
                each(index, Ok(block));
            } else {
                indices.push(index);
                uncached.push(UncachedInterval::new(base, interval, head));
            }
        }
        self.cache.note_walked(uncached.len(), self.cache_share());
        self.background.scan_ratio.note_read(uncached.len() as u64);
        self.read_intervals(&uncached, &mut |at, block| {
            if let (Ok(block), Some(cold)) = (&block, uncached.get(at)) {
                self.cache_block(cold, block);
                self.offer_if_fragmented(cold, block);
            }
            if let Some(index) = indices.get(at) {
                each(*index, block);
            }
        });
    }

    /// Reads intervals concurrently, and caches none. Calls `each` with the index of each interval.
    pub(crate) fn read_intervals(&self, uncached: &[UncachedInterval], each: &mut WithBlock<'_>) {
        let (reads, runs) = (Vec::with_capacity(uncached.len()), Vec::new());
        let mut intervals = Intervals { shared: self, uncached, reads, runs, each };
        for (index, cold) in uncached.iter().enumerate() {
            let read = match self.begin_read(cold) {
                Ok(reading) if reading.missing() > 0 => {
                    let read = self.reads.read(reading);
                    let runs = read.runs().iter().enumerate();
                    intervals.runs.extend(runs.map(|(run, it)| (it.offset, index, run)));
                    Some(read)
                }
                Ok(reading) => {
                    intervals.end(index, Ok(reading.into_bytes()));
                    None
                }
                Err(error) => {
                    intervals.end(index, Err(error));
                    None
                }
            };
            intervals.reads.push(read);
        }
        intervals.runs.sort_unstable_by(|one, other| other.cmp(one));
        if let Err(error) = self.reads.read_batch(BATCH, &mut intervals) {
            for index in 0..uncached.len() {
                if intervals.reads.get_mut(index).and_then(Option::take).is_some() {
                    intervals.end(index, Err(error.clone()));
                }
            }
        }
    }
}
