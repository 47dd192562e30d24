//! The read-ahead of a walk: the pieces of several tables are read concurrently, before the walk
//! searches each table.

use std::sync::Arc;

use engine::{PendingLookup, Progress, ReadRequest, Result};

use crate::store::Shared;
use lsm_tree::cache::PieceCache;
use lsm_tree::table::{Missing, Piece, Table};

/// Pieces that are read together.
const DEPTH: usize = 32;
/// Bytes that are read together, or one piece that is longer.
const BYTES_MAX: usize = 1 << 20;

/// A piece that is read into the cache.
struct PieceRead {
    table: Arc<Table>,
    piece: Piece,
    skipped: usize,
    len: usize,
    read: [ReadRequest; 1],
}

impl PendingLookup for PieceRead {
    fn key(&self) -> &[u8] {
        &[]
    }

    fn reads(&self) -> &[ReadRequest] {
        &self.read
    }

    fn resume(&mut self, _: usize, bytes: Result<&[u8]>, _: &mut Vec<u8>) -> Result<Progress> {
        let stored = bytes?.get(self.skipped..self.skipped + self.len).unwrap_or_default();
        self.table.keep(self.piece, stored)?;
        Ok(Progress::Absent)
    }

    fn is_newest(&self) -> bool {
        false
    }
}

impl Shared {
    /// Reads pieces concurrently, so that the cache has them. A piece that cannot be read, that is
    /// damaged, or for which there is no room, is left to the walk, which reads it alone.
    pub(crate) fn read_ahead(&self, missing: &[Missing]) {
        self.reads.with_table(|reads| {
            let mut bytes = 0;
            for Missing { table, piece } in missing.iter().take(DEPTH) {
                let Ok(span) = table.span(*piece) else { continue };
                if bytes > 0 && bytes + span.read_len > BYTES_MAX {
                    break;
                }
                bytes += span.read_len;
                let source = Arc::clone(&self.source);
                let (file, offset, len) = (span.file, span.offset, span.read_len);
                let read = PieceRead {
                    table: Arc::clone(table),
                    piece: *piece,
                    skipped: span.skipped,
                    len: span.len,
                    read: [ReadRequest { source, file, offset, len }],
                };
                if reads.start(Box::new(read), 0).is_err() {
                    break;
                }
            }
            while !reads.is_empty() {
                let count = reads.complete(true, &mut |_, _| {});
                self.cache.note_walked(count as u64);
            }
        });
    }
}
