//! A slice of a pass: neighbours in many pieces are read and written contiguously
//! (`defragment_idle.rs`).
//!
//! 1. From a key on, the base that readers use is searched for neighbours of a number of bytes
//!    whose pieces are short on average. An interval that is already in one piece that is long
//!    enough separates neighbours, and is left.
//! 2. They are read as one, while commits may run.
//! 3. Unless a commit runs, or room is short, the intervals that were not changed meanwhile are
//!    rewritten, like intervals that scans have found (`commit/defragment_scanned.rs`): no pair
//!    changes, and nothing waits for the device.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::Result;
use flexspace::{Found, Mapping};
use memory_budget::Account;

use crate::block::Block;
use crate::fragmented_queue::InPieces;
use crate::index::{self, Interval, Key};
use crate::pair::StoreHeader;
use crate::read::UncachedInterval;
use crate::state::Base;
use crate::store::Shared;

/// Part of the budget (one in this many) that a slice has, within these limits.
const SLICE_PARTS: u64 = 256;
const SLICE_BYTES_MIN: u64 = 64 << 10;
const SLICE_BYTES_MAX: u64 = 2 << 20;
/// Bytes of an average piece from which on neighbours are left unchanged, and of a single piece
/// that is left. They are limited to parts of a segment, in which a piece ends.
const PIECE_BYTES: u64 = 16 << 10;
const PIECE_PARTS: u64 = 4;
const TOGETHER_BYTES: u64 = 32 << 10;
const TOGETHER_PARTS: u64 = 2;
/// Intervals that are visited in one step.
const LOOKED_AT_MAX: usize = 4096;
/// Free segments that have to remain, as part of the segments in use (one in this many), in
/// addition to the segments that are kept for the collector.
const ROOM_PARTS: u64 = 8;
/// Forms in which a slice is in memory in addition to its blocks: as read, and as written.
pub(super) const FORMS: usize = 2;

/// When neighbours are worth it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) slice: u64,
    pub(super) piece: u64,
    pub(super) together: u64,
    /// Longer intervals are left: single pairs, and damaged ones.
    pub(super) interval: u64,
}

/// Neighbours that are written as one.
#[derive(Debug, Default)]
pub(super) struct Slice<'a> {
    pub(super) members: Vec<Found<'a, Interval>>,
    pub(super) bytes: u64,
    pieces: u64,
    /// The key at which the search continues; none behind all others.
    pub(super) next: Option<Key>,
}

impl Slice<'_> {
    fn is_worth(&self, limits: &Limits) -> bool {
        self.pieces > 1 && self.bytes < self.pieces * limits.piece
    }
}

/// The pieces of a base: extents that follow one another without a gap are one piece.
struct Pieces<I: Iterator<Item = Mapping>> {
    extents: Peekable<I>,
    now: Range<u64>,
}

impl<I: Iterator<Item = Mapping>> Pieces<I> {
    fn of(extents: I) -> Self {
        Self { extents: extents.peekable(), now: 0..0 }
    }

    fn advance(&mut self) -> bool {
        let Some(first) = self.extents.next() else { return false };
        let end_of = |piece: &Mapping| {
            piece.extent.address().map(|address| address + u64::from(piece.length))
        };
        let mut end = end_of(&first);
        self.now = first.offset..first.offset + u64::from(first.length);
        while let Some(next) =
            self.extents.next_if(|next| end.is_some() && next.extent.address() == end)
        {
            end = end_of(&next);
            self.now.end += u64::from(next.length);
        }
        true
    }

    /// Returns how many pieces begin in a span, and whether all of it is in one of at least `bytes`
    /// bytes. Spans ascend.
    fn look(&mut self, span: &Range<u64>, bytes: u64) -> (u64, bool) {
        while self.now.end <= span.start && self.advance() {}
        let mut begun = u64::from(self.now.start >= span.start);
        let is_long = self.now.end - self.now.start >= bytes;
        let lies_together = is_long && self.now.end >= span.end;
        while self.now.end < span.end && self.advance() {
            begun += 1;
        }
        (begun, lies_together)
    }
}

/// Step 1. A slice without members means that there is none before its `next`.
pub(super) fn next_slice<'a>(base: &'a Base, from: &Key, limits: &Limits) -> Slice<'a> {
    let mut slice = Slice::default();
    let Some(first) = index::find(&base.index, from) else { return slice };
    let header = StoreHeader::BYTES as u64;
    let mut pieces = Pieces::of(base.space.extents(first.offset + header..base.space.len()));
    for (looked_at, found) in base.index.range(first.offset..u64::MAX).enumerate() {
        let Some(head) = found.entry.head() else { continue };
        let (begin, length) = (found.offset + header, u64::from(found.length));
        let (begun, lies_together) = pieces.look(&(begin..begin + length), limits.together);
        let stands_between = lies_together || head.lie.is_out_of_order || length > limits.interval;
        if stands_between || slice.bytes + length > limits.slice {
            let is_enough = looked_at >= LOOKED_AT_MAX;
            if slice.is_worth(limits) || is_enough {
                if !slice.is_worth(limits) {
                    slice.members.clear();
                }
                slice.next = Some(head.bound().clone());
                return slice;
            }
            slice = Slice::default();
        }
        if !stands_between {
            // The piece with which the first one begins may have begun before it.
            let more = if slice.members.is_empty() { begun.max(1) } else { begun };
            slice.pieces += more;
            slice.bytes += length;
            slice.members.push(found);
        }
    }
    if !slice.is_worth(limits) {
        slice.members.clear();
    }
    slice
}

impl Shared {
    pub(super) fn slice_limits(&self) -> Limits {
        let segment = self.figures.segment_bytes();
        let slice = self.host.memory.limit() / SLICE_PARTS;
        let slice = slice.clamp(SLICE_BYTES_MIN, SLICE_BYTES_MAX);
        let interval = 2 * u64::from(self.interval_limits().bytes);
        Limits {
            slice,
            piece: PIECE_BYTES.min(segment / PIECE_PARTS),
            together: TOGETHER_BYTES.min(segment / TOGETHER_PARTS),
            interval: interval.max(slice),
        }
    }

    /// Returns whether there is room for so large a number of further segments that no commit and
    /// no collection will lack the ones that are written now.
    fn has_room_to_defragment(&self) -> bool {
        let reserved = self.options.space(self.host.memory.limit()).reserved_segments;
        let stats = self.space.stats();
        let segments = self.options.capacity_bytes / self.figures.segment_bytes().max(1);
        let taken = stats.used_segments + stats.held_segments;
        segments.saturating_sub(taken) > u64::from(reserved) + taken / ROOM_PARTS
    }

    /// Writes the next slice as one, and returns whether the pass continues without a pause.
    pub(crate) fn defragment_slice(self: &Arc<Self>) -> Result<bool> {
        let base = Arc::clone(&self.open_state()?.base);
        let pass = &self.background.defragment_idle;
        let Some((from, allowance)) = pass.go_on(self.space.len()) else { return Ok(false) };
        let slice = next_slice(&base, &from, &self.slice_limits());
        let next = slice.next.clone();
        if slice.members.is_empty() {
            return Ok(pass.come_to(next, 0));
        }
        if slice.bytes > allowance {
            pass.break_off();
            return Ok(false);
        }
        let charge = Account::new(&self.host.memory);
        charge.set((FORMS * slice.bytes as usize) as u64);
        let intervals = self.read_slice(&base, &slice)?;
        // A base has nodes and segments.
        drop(slice);
        drop(base);
        let Some(written) = self.write_slice(intervals)? else { return Ok(false) };
        Ok(pass.come_to(next, written))
    }

    /// Step 2. Damaged intervals are left out.
    pub(super) fn read_slice(&self, base: &Arc<Base>, slice: &Slice<'_>) -> Result<Vec<InPieces>> {
        let members = slice.members.iter().filter_map(|found| {
            let head = found.entry.head()?;
            Some((UncachedInterval::new(base, found, head), head.whole()))
        });
        let (uncached, mut blocks): (Vec<UncachedInterval>, Vec<Option<Arc<Block>>>) =
            members.unzip();
        let missing: Vec<usize> = (0..uncached.len()).filter(|at| blocks[*at].is_none()).collect();
        let wanted: Vec<UncachedInterval> =
            missing.iter().map(|at| uncached[*at].clone()).collect();
        let mut failure = None;
        self.read_intervals(&wanted, &mut |at, block| match block {
            Ok(block) => blocks[missing[at]] = Some(block),
            Err(engine::Error::Corruption(_)) => {}
            Err(error) => failure = Some(error),
        });
        self.background.defragment_idle.note_read(wanted.len() as u64);
        if let Some(error) = failure {
            return Err(error);
        }
        let read = uncached.iter().zip(blocks);
        let read = read.filter_map(|(cold, block)| Some(InPieces::of(cold, block?)));
        Ok(read.collect())
    }

    /// Step 3: how many bytes were written; none if it could not be done now.
    fn write_slice(self: &Arc<Self>, intervals: Vec<InPieces>) -> Result<Option<u64>> {
        // Intervals that a commit changes now are worth it afterwards.
        let Some(mut committer) = self.committer.try_lock() else { return Ok(None) };
        self.health.check_writable()?;
        if committer.is_short_of_room || !self.has_room_to_defragment() {
            self.background.defragment_idle.break_off();
            return Ok(None);
        }
        let written = self.write_together(&mut committer, intervals)?;
        self.figures.counts.defragmented.fetch_add(written.intervals, Relaxed);
        self.figures.counts.defragmented_bytes.fetch_add(written.bytes, Relaxed);
        if !written.is_whole {
            self.background.defragment_idle.break_off();
        }
        Ok(written.is_whole.then_some(written.bytes))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
