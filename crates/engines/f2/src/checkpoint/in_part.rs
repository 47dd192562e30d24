//! A checkpoint of the flushed part of the hot log, if the device has no room for the rest.
//!
//! 1. A store that finds the device full may have much in the journal that its files have, too. The
//!    journal is only trimmed after a checkpoint, and a whole checkpoint needs room for all of the
//!    hot log that is in memory. So both would stay unchanged.
//! 2. While the hot log grows, [`Marks`] notes how far all writes were applied when its tail was at
//!    some address.
//! 3. A checkpoint that fails for lack of room is made once more: it ends at the flushed end of the
//!    hot log, and names the number of the last mark below. The journal is trimmed to that number,
//!    which releases room.
//!
//! # Invariants
//! - P1. A mark's number was read before its address. So each write up to the number has its
//!   record, or a newer one of its key, below the address, or in the cold log.
//! - P2. Such a checkpoint needs a journal and a cold log. Without a journal it would not be a
//!   prefix: a write above its end may be older than a change in place below it. With a single log,
//!   copies of a compaction may be above its end, and their originals below the log's beginning.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::{Result, SeqNo, Sequence};
use sync::locks::Mutex;

use super::Checkpointer;
use crate::address::LogAddress;
use crate::failing_compactions::FLUSH;
use crate::hybrid_log::HybridLog;
use crate::store::Shared;

/// How far writes were applied at some addresses of the hot log.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// The tail from which on another mark is due.
    next: AtomicU64,
    /// The tail, and the number up to which each write was applied. Oldest first, one for each page
    /// in memory.
    marks: Mutex<VecDeque<(LogAddress, SeqNo)>>,
    /// Checkpoints that were made of a part.
    parts: AtomicU64,
}

impl Marks {
    /// Takes a mark if the log has grown by a page. Costs two loads otherwise.
    #[inline]
    pub(crate) fn note(&self, log: &HybridLog, sequence: &Sequence) {
        if log.tail().get() >= self.next.load(Relaxed) {
            self.take(log, sequence);
        }
    }

    #[cold]
    fn take(&self, log: &HybridLog, sequence: &Sequence) {
        // Another thread takes one.
        let Some(mut marks) = self.marks.try_lock() else { return };
        // P1.
        let visible = sequence.visible();
        let tail = log.tail();
        let flushed = log.flushed();
        while marks.get(1).is_some_and(|(next, _)| *next <= flushed) {
            marks.pop_front();
        }
        marks.push_back((tail, visible));
        self.next.store(tail.get() + log.geometry.page_bytes(), Relaxed);
    }

    /// Checkpoints that were made of a part.
    pub(crate) fn parts(&self) -> u64 {
        self.parts.load(Relaxed)
    }

    /// The number up to which each write is below `end`, if it is known.
    fn below(&self, end: LogAddress) -> Option<SeqNo> {
        let marks = self.marks.lock();
        marks.iter().rev().find(|(tail, _)| *tail <= end).map(|(_, visible)| *visible)
    }
}

impl Shared {
    /// Makes a whole checkpoint. If there is no room for it, makes a checkpoint of the flushed
    /// part, and returns the failure.
    pub(super) fn fold_over(&self, checkpointer: &mut Checkpointer) -> Result<()> {
        let takes_parts = self.cold.is_some() && self.host.barrier.is_journaled();
        // First, since pages that are flushed may take all the room, and the superblock needs some,
        // too.
        if takes_parts && self.background.errors.is_failing(FLUSH) {
            self.fold_over_part(checkpointer)?;
        }
        match self.fold_over_whole(checkpointer) {
            Err(error) if error.is_retryable() && takes_parts => {
                self.fold_over_part(checkpointer)?;
                Err(error)
            }
            folded => folded,
        }
    }

    /// Makes a checkpoint of the flushed part, if there is room for its superblock.
    fn fold_over_part(&self, checkpointer: &mut Checkpointer) -> Result<()> {
        match self.fold_over_flushed(checkpointer) {
            Err(error) if error.is_retryable() => Ok(()),
            folded => folded,
        }
    }

    fn fold_over_flushed(&self, checkpointer: &mut Checkpointer) -> Result<()> {
        let named = checkpointer.committed;
        let begins = self.begins();
        let (end, cuts, counts) = {
            let flushed = self.hot.log.flushed();
            let _held = self.checkpoints.gate.hold(flushed);
            let ([cold, chunks], counts) = self.cut_cold(checkpointer.durable_tails);
            (flushed, [Some(flushed), cold, chunks], counts)
        };
        let marks = &self.checkpoints.marks;
        let Some(applied) = marks.below(end).filter(|applied| *applied > named.persisted) else {
            return Ok(());
        };
        self.make_durable(cuts)?;
        let reached = self.host.barrier.reach(self.host.sequence.last())?;
        let persisted = applied.min(reached).max(named.persisted);
        let spans = super::moved(named.spans(), begins, cuts);
        let cold_live_bytes = self.cold_live_bytes(spans);
        let committed =
            super::Committed { persisted, counts, cold_live_bytes, ..named.with_spans(spans) };
        self.name(checkpointer, committed, cuts)?;
        marks.parts.fetch_add(1, Relaxed);
        Ok(())
    }
}
