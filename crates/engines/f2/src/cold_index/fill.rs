//! Digests for chunks that have none, from passes over the chunk log. Reading it in order costs far
//! less than reading chunk by chunk, as lookups do.
//!
//! 1. A pass begins when lookups have read chunks for about the cost of a pass, and the pass costs
//!    less than the chunk reads that its digests would save ([`is_due`]). So a store that is opened
//!    for a few keys costs no pass. A client that reads many keys pays at most twice the cost that
//!    it would have if all its reads had been known before.
//! 2. It reads the chunk log on disk from the end of the last pass, a slice at a time, and at the
//!    log's end continues at its beginning. It makes the digest of each chunk that the directory
//!    names, unless there is one. Other chunks are skipped.
//! 3. It ends when it has read the whole log, or if the only room left is that of live digests.
//!    When the split gives digests more memory, and lookups still read chunks, the next pass
//!    continues from there.
//!
//! A chunk that cannot be read is skipped: a lookup that needs it returns the error.

use engine::Result;
use workers::StopToken;

use super::chunk::{Chunk, Name};
use super::{ColdIndex, Digests};
use crate::address::LogAddress;
use crate::hybrid_log::{Stretch, stretches};

/// Cost of a read of a chunk, in bytes that are read in order.
const READ_BYTES: u64 = 16 << 10;

/// Progress of passes.
#[derive(Debug, Default)]
pub(super) struct Fill {
    /// Address to continue at; the beginning of the log, if that is above it.
    at: LogAddress,
    /// Bytes to be read before the pass in progress has read the whole log; 0: there is none.
    left: u64,
    /// Chunks that lookups had read when the last one ended.
    read_before: u64,
    /// Bytes that were read so far, of all passes.
    bytes: u64,
}

/// Figures that decide whether a pass begins.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// Bytes of the chunk log on disk.
    log_bytes: u64,
    /// Chunks without a digest, and for how many of these there is room.
    missing: u64,
    room: u64,
    /// Chunks that lookups have read since the last pass.
    read: u64,
}

/// Result of a slice.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    kept: u64,
    without_room: u64,
}

/// Whether a pass pays.
fn is_due(figures: Figures) -> bool {
    let made = figures.missing.min(figures.room);
    let cost = u128::from(figures.log_bytes) * u128::from(made);
    let cost = cost.checked_div(u128::from(figures.missing)).unwrap_or_default() as u64;
    made > 0 && cost <= READ_BYTES * made && cost <= READ_BYTES * figures.read
}

impl ColdIndex {
    /// Continues a pass, or begins one if it pays: a slice of `slice_bytes` bytes at most, or a
    /// page. Blocks, so the caller is not protected; no thread compacts the chunk log meanwhile.
    pub(crate) fn fill_digests(&self, slice_bytes: u64, stop: &StopToken) {
        if !self.digests.is_used() {
            return;
        }
        let mut fill = self.fill.lock();
        let (begin, end) = (self.log.begin(), self.log.flushed());
        if fill.left == 0 {
            let read = self.digests.chunks_read() - fill.read_before;
            let log_bytes = self.log.gaps.bytes_between(begin, end);
            let figures = Figures { log_bytes, read, ..Figures::default() };
            // All shards are examined only if lookups have read chunks.
            if read == 0 || !is_due(self.with_missing(figures)) {
                return;
            }
            fill.left = figures.log_bytes;
        }
        let from = if fill.at < begin || fill.at >= end { begin } else { fill.at };
        let geometry = &self.log.geometry;
        let slice_bytes = slice_bytes.max(geometry.page_bytes());
        let to = geometry.page_begin(geometry.page(from.plus(slice_bytes))).min(end);
        let mut slice = Slice::default();
        let read = self.fill_between(from, to, stop, &mut slice);
        let is_full = read.is_ok() && slice.without_room > slice.kept;
        let bytes = self.log.gaps.bytes_between(from, to);
        (fill.at, fill.bytes) = (to, fill.bytes + bytes);
        fill.left = if is_full || to <= from { 0 } else { fill.left.saturating_sub(bytes) };
        if fill.left == 0 {
            fill.read_before = self.digests.chunks_read();
        }
    }

    /// Whether a pass is in progress and has not read the whole log.
    pub(crate) fn is_filling_digests(&self) -> bool {
        // A slice that another thread reads is a part of a pass.
        self.digests.is_used() && self.fill.try_lock().is_none_or(|fill| fill.left > 0)
    }

    /// Bytes that passes have read.
    pub(crate) fn filled_bytes(&self) -> u64 {
        self.fill.lock().bytes
    }

    fn with_missing(&self, figures: Figures) -> Figures {
        let digests = self.digests.figures();
        let counts = self.counts();
        let chunks = counts.entries.min(self.directory.chunks() as u64);
        let bytes_each = Digests::bytes_of_all(counts.entries, chunks) / chunks.max(1);
        let bytes = self.digests.bytes_without_loss().saturating_sub(digests.kept_bytes);
        let missing = chunks.saturating_sub(digests.kept);
        Figures { missing, room: bytes / bytes_each.max(1), ..figures }
    }

    fn fill_between(
        &self,
        from: LogAddress,
        to: LogAddress,
        stop: &StopToken,
        slice: &mut Slice,
    ) -> Result<()> {
        stretches(&self.log.segments, &self.log.geometry, from, to, &mut |stretch| {
            if stop.is_stopping() { Ok(()) } else { self.fill_of(stretch, slice) }
        })
    }

    fn fill_of(&self, stretch: &Stretch, slice: &mut Slice) -> Result<()> {
        stretch.records(&mut |address, stored| {
            if stored.header.is_invalid() {
                return Ok(());
            }
            let damaged = |damage| stretch.damage(address, damage);
            let chunk = Chunk::decode(stored.key, stored.value).map_err(damaged)?;
            // Of one that a doubling has split, each half that it still is the chunk of.
            let level = self.directory.level();
            for name in chunk.name.at_level(level) {
                self.fill_one(name, address, chunk, slice);
            }
            Ok(())
        })
    }

    fn fill_one(&self, name: Name, address: LogAddress, chunk: Chunk<'_>, slice: &mut Slice) {
        let is_present = self.directory.load_at(name).is_some_and(|word| word.address() == address);
        if !is_present || self.digests.has(name, address) {
            return;
        }
        match self.digests.keep_if_room(name, address, &chunk.part(name)) {
            true => slice.kept += 1,
            false => slice.without_room += 1,
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
