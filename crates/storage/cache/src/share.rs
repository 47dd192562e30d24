//! The part of a cache that pairs may take.
//!
//! It is the share that gets have in the reads below memtables, which are those of gets and walks,
//! up to a maximum. Older counts count less.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sync::locks::Mutex;

/// Insertions of blocks between two decisions on the part of pairs ([`crate::RowCache::fit`]).
pub(crate) const INSERTIONS_A_ROUND: u64 = 256;
/// Pairs leave room for the blocks that they are found in.
pub const PART_MAX: f64 = 0.75;
/// Pairs that gets find and blocks that walks read, together, before the part is computed again.
const COUNTED_MIN: u64 = 1024;

/// The part.
#[derive(Debug)]
pub(crate) struct Share {
    part_max: f64,
    /// Blocks that walks have read.
    walked: AtomicU64,
    counted: Mutex<Counted>,
}

/// How much there was of what pairs might have spared, and of what not.
#[derive(Debug)]
struct Counted {
    /// Pairs that gets had found and blocks that walks had read at the last count.
    offered: u64,
    walked: u64,
    /// Gets' part of both.
    of_gets: f64,
}

impl Share {
    /// A half, until something is known, and never more than `part_max`.
    pub(crate) fn new(part_max: f64) -> Self {
        let counted = Counted { offered: 0, walked: 0, of_gets: 0.5 };
        Self { part_max, walked: AtomicU64::new(0), counted: Mutex::new(counted) }
    }

    pub(crate) fn note_walked(&self, blocks: u64) {
        self.walked.fetch_add(blocks, Relaxed);
    }

    /// Looks again, if there is enough to be counted: so far gets found `offered`.
    pub(crate) fn look_again(&self, offered: u64) {
        let walked = self.walked.load(Relaxed);
        let mut counted = self.counted.lock();
        let gets = offered.saturating_sub(counted.offered);
        let walks = walked.saturating_sub(counted.walked);
        if gets + walks >= COUNTED_MIN {
            let of_gets = gets as f64 / (gets + walks) as f64;
            *counted = Counted { offered, walked, of_gets: (counted.of_gets + of_gets) / 2.0 };
        }
    }

    pub(crate) fn part(&self) -> f64 {
        self.counted.lock().of_gets.min(self.part_max)
    }
}
