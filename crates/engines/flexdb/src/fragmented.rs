//! Intervals that scans have read in several pieces, on their way to be written as one, and how much may
//! be written for that.
//!
//! A scan hands over the block that it has read, so nothing is read again (`commit/rewriting.rs`).
//!
//! # Invariants
//! - G1. No more bytes are written for scans than there is allowance for. It grows with what commits write, by
//!   a half of that, and with time, by what puts have left of a part of the budget a second; up to a
//!   bound, so that an idle day is no reason for an hour of writing.
//! - G2. What waits holds no more bytes of blocks than a small part of the budget, which counts them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use sync::Mutex;
use workers::Class;

use crate::block::Block;
use crate::index::{Head, Key};
use crate::read::Cold;
use crate::store::Shared;

/// Of so many bytes that commits write one more may be written for scans.
const COMMITTED_PARTS: u64 = 2;
/// Parts of the budget of which one may be written for scans in a second without puts, and the most.
const IDLE_PARTS: u64 = 8;
const IDLE_BYTES_MAX: u64 = 32 << 20;
/// Seconds of that which are kept for later.
const IDLE_KEPT: u64 = 4;
/// Parts of the budget of which one is for blocks that wait, and the most.
const WAITING_PARTS: u64 = 64;
const WAITING_BYTES_MAX: u64 = 4 << 20;

/// An interval that waits.
#[derive(Debug)]
pub(crate) struct InPieces {
    pub(crate) head: Arc<Head>,
    pub(crate) block: Arc<Block>,
    /// In how many pieces it lies.
    pieces: usize,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Fragmented {
    waiting: Mutex<Waiting>,
    allowance: AtomicU64,
    /// What memtables had taken when time was last looked at.
    used_before: AtomicU64,
    is_queued: AtomicBool,
    /// Whether something was written as one and not made durable.
    is_unsynced: AtomicBool,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By their bounds.
    intervals: BTreeMap<Key, InPieces>,
    bytes: u64,
}

/// What may wait, and what may be kept of the allowance, under a budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    waiting: u64,
    idle: u64,
}

impl Bounds {
    pub(crate) fn of(limit: u64) -> Self {
        let waiting = (limit / WAITING_PARTS).min(WAITING_BYTES_MAX);
        Self { waiting, idle: (limit / IDLE_PARTS).min(IDLE_BYTES_MAX) }
    }

    fn allowance(self) -> u64 {
        self.idle * IDLE_KEPT
    }
}

impl InPieces {
    /// What was read of an interval.
    pub(crate) fn of(cold: &Cold, block: Arc<Block>) -> Self {
        Self { head: Arc::clone(cold.head()), block, pieces: cold.pieces() }
    }
}

impl Fragmented {
    /// Bytes that may be written for scans now.
    pub(crate) fn allowance(&self) -> u64 {
        self.allowance.load(Relaxed)
    }

    /// A commit has written so many bytes.
    pub(crate) fn note_committed(&self, bytes: u64, bounds: Bounds) {
        self.earn(bytes / COMMITTED_PARTS, bounds);
    }

    /// A second has passed, and memtables have taken so many bytes so far.
    pub(crate) fn note_second(&self, used: u64, bounds: Bounds) {
        let put = used.saturating_sub(self.used_before.swap(used, Relaxed));
        self.earn(bounds.idle.saturating_sub(put), bounds);
    }

    fn earn(&self, bytes: u64, bounds: Bounds) {
        let add = |had: u64| Some(had.saturating_add(bytes).min(bounds.allowance()));
        // It always has another value to give.
        let _ = self.allowance.fetch_update(Relaxed, Relaxed, add);
    }

    /// Has an interval wait, if there is room; answers whether it is time to write.
    fn offer(&self, interval: InPieces, bounds: Bounds) -> bool {
        let mut waiting = self.waiting.lock();
        let bytes = interval.block.memory_bytes();
        if waiting.bytes + bytes <= bounds.waiting {
            let key = interval.head.bound().clone();
            let before = waiting.intervals.insert(key, interval);
            waiting.bytes += bytes;
            waiting.bytes -= before.map_or(0, |before| before.block.memory_bytes());
        }
        waiting.bytes >= bounds.waiting / 2
    }

    /// Takes the intervals that there is allowance for, those in most pieces first; in the order of their
    /// keys. The others go: a scan that comes by hands them over again.
    pub(crate) fn take(&self) -> Vec<InPieces> {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let mut intervals: Vec<InPieces> = waiting.intervals.into_values().collect();
        intervals.sort_by_key(|interval| std::cmp::Reverse(interval.pieces));
        let mut left = self.allowance();
        intervals.retain(|interval| {
            let bytes = interval.block.pair_bytes() as u64;
            let is_allowed = bytes <= left;
            left -= if is_allowed { bytes } else { 0 };
            is_allowed
        });
        intervals.sort_by(|left, right| left.head.bound().cmp(right.head.bound()));
        intervals
    }

    /// So many bytes were written.
    pub(crate) fn note_written(&self, bytes: u64) {
        let less = |had: u64| Some(had.saturating_sub(bytes));
        let _ = self.allowance.fetch_update(Relaxed, Relaxed, less);
    }

    /// Something was written as one that is not durable.
    pub(crate) fn note_unsynced(&self) {
        self.is_unsynced.store(true, Relaxed);
    }

    /// Whether something was written since this was asked last.
    pub(crate) fn take_unsynced(&self) -> bool {
        self.is_unsynced.swap(false, Relaxed)
    }

    /// Lets go all that waits.
    pub(crate) fn clear(&self) {
        *self.waiting.lock() = Waiting::default();
    }

    fn is_empty(&self) -> bool {
        self.waiting.lock().intervals.is_empty()
    }
}

impl Shared {
    /// A scan has read an interval: where it did so from several pieces, it is written as one, if there is
    /// allowance for that.
    pub(crate) fn offer_if_fragmented(self: &Arc<Self>, cold: &Cold, block: &Arc<Block>) {
        let is_allowed = self.fragmented.allowance() >= block.pair_bytes() as u64;
        if cold.head().lie.fragments <= 1 || !is_allowed {
            return;
        }
        let interval = InPieces::of(cold, Arc::clone(block));
        if interval.pieces <= 1 {
            return;
        }
        let bounds = Bounds::of(self.host.memory.limit());
        if self.fragmented.offer(interval, bounds) {
            self.schedule_rewriting();
        }
        self.wake_looks_unnumbered();
    }

    /// Has what waits written as one, soon.
    pub(crate) fn schedule_rewriting(self: &Arc<Self>) {
        if self.fragmented.is_empty() || self.fragmented.is_queued.swap(true, SeqCst) {
            return;
        }
        let shared = Arc::downgrade(self);
        let task = move |_stop: &workers::StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            shared.fragmented.is_queued.store(false, SeqCst);
            // What could not be done is handed over again by the next scan.
            let rewritten = shared.rewrite_fragmented();
            shared.note_ended(&shared.rewriting_failing, rewritten);
        };
        // A pool that is stopping runs nothing more, and nobody waits for it.
        if self.group.submit(Class::Collect, "flexdb rewrite", task).is_err() {
            self.fragmented.is_queued.store(false, SeqCst);
        }
    }

    /// Whether intervals wait to be written as one, or the allowance for that grows with time.
    pub(crate) fn has_to_rewrite(&self) -> bool {
        let (fragmented, bounds) = (&self.fragmented, Bounds::of(self.host.memory.limit()));
        !fragmented.is_empty()
            || fragmented.allowance() < bounds.allowance()
            || fragmented.is_queued.load(SeqCst)
            || fragmented.is_unsynced.load(Relaxed)
    }

    /// A second has passed.
    pub(crate) fn refill_allowance(self: &Arc<Self>) {
        let bounds = Bounds::of(self.host.memory.limit());
        self.fragmented.note_second(self.memtables_used(), bounds);
        self.schedule_rewriting();
    }
}
