//! The read-ahead of a walk: the pieces of several tables are read concurrently, before the walk
//! searches each table.

use std::sync::Arc;

use engine::Result;
use reads::{Batch, RangeBytes, RangeRead, RangeReader};

use crate::store::Shared;
use lsm_tree::cache::PieceCache;
use lsm_tree::table::{Missing, Span};

/// Pieces that are read together.
const DEPTH: usize = 32;
/// Bytes that are read together, or one piece that is longer.
const BYTES_MAX: usize = 1 << 20;
/// Pieces are of different tables, so no two of them are joined.
const BATCH: Batch = Batch { gap: 0, span_bytes_max: 0, bytes_max: BYTES_MAX };

/// The pieces that are to be read into the cache.
struct Pieces<'a> {
    shared: &'a Shared,
    missing: std::slice::Iter<'a, Missing>,
    bytes: usize,
}

impl<'a> RangeReader<(&'a Missing, Span)> for Pieces<'a> {
    fn next_range(&mut self) -> Result<Option<RangeRead<(&'a Missing, Span)>>> {
        for missing in self.missing.by_ref() {
            let Ok(span) = missing.table.span(missing.piece) else { continue };
            if self.bytes > 0 && self.bytes + span.read_len > BYTES_MAX {
                break;
            }
            self.bytes += span.read_len;
            let (file, offset, len) = (Arc::clone(&span.file), span.offset, span.read_len);
            return Ok(Some(RangeRead { file, offset, len, payload: (missing, span) }));
        }
        Ok(None)
    }

    fn take_bytes(
        &mut self,
        (Missing { table, piece }, span): (&'a Missing, Span),
        bytes: Result<RangeBytes<'_>>,
    ) -> Result<Option<RangeRead<(&'a Missing, Span)>>> {
        let kept = bytes.and_then(|bytes| {
            let stored = bytes.range.get(span.skipped..span.skipped + span.len).unwrap_or_default();
            table.keep(*piece, stored)
        });
        // The walk reads the piece alone, and reports the failure.
        drop(kept);
        self.shared.cache.note_walked(1);
        Ok(None)
    }
}

impl Shared {
    /// Reads pieces concurrently, so that the cache has them. A piece that cannot be read, that is
    /// damaged, or for which there is no room, is left to the walk, which reads it alone.
    pub(crate) fn read_ahead(&self, missing: &[Missing]) {
        let missing = missing.get(..DEPTH).unwrap_or(missing).iter();
        let mut pieces = Pieces { shared: self, missing, bytes: 0 };
        let read = self.tables.reads.read_batch(&self.tables.source, BATCH, &mut pieces);
        debug_assert!(read.is_ok(), "the pieces have no failure of their own");
    }
}
