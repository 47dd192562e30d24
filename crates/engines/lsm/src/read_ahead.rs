//! The read-ahead of a walk: what it needs of several tables is read concurrently, before the walk
//! searches each table.

use std::sync::Arc;

use engine::Result;
use reads::{Batch, RangeBytes, RangeRead, RangeReader};

use crate::store::Shared;
use lsm_tree::cache::PieceCache;
use lsm_tree::table::{Missing, Span};

/// Reads of one batch.
const DEPTH: usize = 32;
/// Bytes in flight, or one read that is longer.
const BYTES_MAX: usize = 1 << 20;
/// The reads are of different tables, so no two of them are joined.
const BATCH: Batch = Batch { gap: 0, span_bytes_max: 0, bytes_max: BYTES_MAX };

/// The pieces that are to be read into the cache.
struct Pieces<'a> {
    shared: &'a Shared,
    missing: std::slice::Iter<'a, Missing>,
}

impl<'a> RangeReader<(&'a Missing, Span)> for Pieces<'a> {
    fn next_range(&mut self) -> Result<Option<RangeRead<(&'a Missing, Span)>>> {
        for missing in self.missing.by_ref() {
            let Ok(span) = missing.span() else { continue };
            let (file, offset, len) = (Arc::clone(&span.file), span.offset, span.read_len);
            return Ok(Some(RangeRead { file, offset, len, payload: (missing, span) }));
        }
        Ok(None)
    }

    fn take_bytes(
        &mut self,
        (missing, span): (&'a Missing, Span),
        bytes: Result<RangeBytes<'_>>,
    ) -> Result<Option<RangeRead<(&'a Missing, Span)>>> {
        // After a failure the walk reads its blocks alone, and reports the failure.
        let bytes = bytes.ok().and_then(|bytes| bytes.range.get(span.skipped..)?.get(..span.len));
        self.shared.cache.note_walked(bytes.map_or(1, |stored| missing.keep(stored)));
        Ok(None)
    }
}

impl Shared {
    /// Reads what is missing concurrently, so that the cache has it. A piece that cannot be read,
    /// or that is damaged, is left to the walk, which reads it alone.
    pub(crate) fn read_ahead(&self, missing: &[Missing]) {
        let missing = missing.get(..DEPTH).unwrap_or(missing).iter();
        let mut pieces = Pieces { shared: self, missing };
        let read = self.tables.reads.read_batch(&self.tables.source, BATCH, &mut pieces);
        debug_assert!(read.is_ok(), "the pieces have no failure of their own");
    }
}
