//! Intervals that scans have read in several pieces, which wait to be written as one.
//!
//! The bytes that may be written for that are limited.
//!
//! A scan hands over the block that it has read, so nothing is read again
//! (`commit/defragment_scanned.rs`).
//!
//! # Invariants
//! - G1. No more bytes are written for scans than the allowance. It grows by half of the bytes that
//!   commits write, and with time, by the bytes that puts have left of a part of the budget each
//!   second. It has a bound, so that an idle day does not cause an hour of writing.
//! - G2. Waiting intervals hold no more bytes of blocks than a small part of the budget, which
//!   counts them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use sync::Mutex;
use workers::Class;

use crate::background_errors::REWRITE;
use crate::block::Block;
use crate::index::{Head, Key};
use crate::read::UncachedInterval;
use crate::store::Shared;

/// Bytes that commits write for each byte that may be rewritten for scans.
const COMMITTED_PARTS: u64 = 2;
/// Part of the budget (one in this many) that may be written for scans in a second without puts,
/// and the most bytes.
const IDLE_PARTS: u64 = 8;
const IDLE_BYTES_MAX: u64 = 32 << 20;
/// Seconds of that part that are kept for later.
const IDLE_KEPT: u64 = 4;
/// Parts of the budget of which one is for blocks that wait, and the most.
const WAITING_PARTS: u64 = 64;
const WAITING_BYTES_MAX: u64 = 4 << 20;

/// An interval that waits.
#[derive(Debug)]
pub(crate) struct InPieces {
    pub(crate) head: Arc<Head>,
    pub(crate) block: Arc<Block>,
    /// The number of pieces in which it is.
    pieces: usize,
}

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct FragmentedQueue {
    waiting: Mutex<Waiting>,
    allowance: AtomicU64,
    /// Bytes that memtables had taken at the last check of the time.
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

/// Limits of the waiting bytes and of the allowance under a budget.
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
    /// An interval whose block was read.
    pub(crate) fn of(cold: &UncachedInterval, block: Arc<Block>) -> Self {
        Self { head: Arc::clone(cold.head()), block, pieces: cold.pieces() }
    }
}

impl FragmentedQueue {
    /// Bytes that may be written for scans now.
    pub(crate) fn allowance(&self) -> u64 {
        self.allowance.load(Relaxed)
    }

    /// Notes that a commit has written `bytes` bytes.
    pub(crate) fn note_committed(&self, bytes: u64, bounds: Bounds) {
        self.earn(bytes / COMMITTED_PARTS, bounds);
    }

    /// Notes that a second has passed, and that memtables have taken `used` bytes so far.
    pub(crate) fn note_second(&self, used: u64, bounds: Bounds) {
        let put = used.saturating_sub(self.used_before.swap(used, Relaxed));
        self.earn(bounds.idle.saturating_sub(put), bounds);
    }

    fn earn(&self, bytes: u64, bounds: Bounds) {
        let add = |had: u64| Some(had.saturating_add(bytes).min(bounds.allowance()));
        // It always has another value to give.
        let _ = self.allowance.fetch_update(Relaxed, Relaxed, add);
    }

    /// Lets an interval wait, if there is room, and returns whether it is time to write.
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

    /// Takes the intervals that the allowance covers, chosen by the most pieces first, in the order
    /// of their keys. The others are dropped: the next scan that reads them hands them over again.
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

    /// Notes that `bytes` bytes were written.
    pub(crate) fn note_written(&self, bytes: u64) {
        let less = |had: u64| Some(had.saturating_sub(bytes));
        let _ = self.allowance.fetch_update(Relaxed, Relaxed, less);
    }

    /// Notes that intervals were written as one that are not durable.
    pub(crate) fn note_unsynced(&self) {
        self.is_unsynced.store(true, Relaxed);
    }

    /// Whether something was written since this was asked last.
    pub(crate) fn take_unsynced(&self) -> bool {
        self.is_unsynced.swap(false, Relaxed)
    }

    /// Drops all waiting intervals.
    pub(crate) fn clear(&self) {
        *self.waiting.lock() = Waiting::default();
    }

    fn is_empty(&self) -> bool {
        self.waiting.lock().intervals.is_empty()
    }
}

impl Shared {
    /// Notes that a scan has read an interval. If it read several pieces, the interval is written
    /// as one if the allowance covers that.
    pub(crate) fn offer_if_fragmented(
        self: &Arc<Self>,
        cold: &UncachedInterval,
        block: &Arc<Block>,
    ) {
        let is_allowed = self.background.fragmented_queue.allowance() >= block.pair_bytes() as u64;
        if cold.head().lie.fragments <= 1 || !is_allowed {
            return;
        }
        let interval = InPieces::of(cold, Arc::clone(block));
        if interval.pieces <= 1 {
            return;
        }
        let bounds = Bounds::of(self.host.memory.limit());
        if self.background.fragmented_queue.offer(interval, bounds) {
            self.schedule_rewriting();
        }
        self.wake_looks_unnumbered();
    }

    /// Schedules the writing of the waiting intervals.
    pub(crate) fn schedule_rewriting(self: &Arc<Self>) {
        let queue = &self.background.fragmented_queue;
        if queue.is_empty() || queue.is_queued.swap(true, SeqCst) {
            return;
        }
        let shared = Arc::downgrade(self);
        let task = move |_stop: &workers::StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            shared.background.fragmented_queue.is_queued.store(false, SeqCst);
            // If some could not be written, the next scan hands them over again.
            let rewritten = shared.rewrite_fragmented();
            shared.note_ended(REWRITE, rewritten);
        };
        // A pool that is stopping runs nothing more, and no thread waits for it.
        if self.background.group.submit(Class::Collect, "flexdb rewrite", task).is_err() {
            queue.is_queued.store(false, SeqCst);
        }
    }

    /// Whether intervals wait to be written as one, or the allowance for that grows with time.
    pub(crate) fn has_to_rewrite(&self) -> bool {
        let fragmented = &self.background.fragmented_queue;
        let bounds = Bounds::of(self.host.memory.limit());
        !fragmented.is_empty()
            || fragmented.allowance() < bounds.allowance()
            || fragmented.is_queued.load(SeqCst)
            || fragmented.is_unsynced.load(Relaxed)
    }

    /// A second has passed.
    pub(crate) fn refill_allowance(self: &Arc<Self>) {
        let bounds = Bounds::of(self.host.memory.limit());
        self.background.fragmented_queue.note_second(self.memtables_used(), bounds);
        self.schedule_rewriting();
    }
}
