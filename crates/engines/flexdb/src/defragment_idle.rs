//! Idle defragmentation: while a store is idle, neighbours in many pieces are written as one.
//!
//! Intervals that scans find in pieces are written as one for them (`fragmented_queue`). Intervals
//! that no scan has read keep the layout that commits have left. After a load in no order that is a
//! place of its own for each interval, with pieces of several commits.
//!
//! 1. A pass visits all intervals once: after the store was opened, and again once commits have put
//!    an eighth of the store's bytes.
//! 2. It continues while the store is idle: few puts and few lookups for a second, no snapshot, and
//!    data that do not fit the cache, from which no reader reads pieces.
//! 3. A task looks for the next slice that is worth it, reads it and writes it
//!    (`commit/defragment_idle.rs`), and queues itself again. As soon as the store is not idle any
//!    more the task ends, and the pass later continues where it was.
//!
//! # Invariants
//! - D1. Passes write no more bytes than commits have put since the store was opened, and one copy
//!   of the data at that time.
//! - D2. No more than a slice is in memory for it, which is charged.
//! - D3. Once the store's tasks are being stopped, nothing of it is done, except the end of a
//!   slice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use sync::locks::Mutex;
use workers::{Class, StopToken};

use crate::background_errors::DEFRAGMENT;
use crate::index::Key;
use crate::store::Shared;

/// The next pass begins after commits have put this part of the space's bytes (one eighth).
const PUT_PARTS: u64 = 8;
/// Limits of an idle second: the part of the budget (one in this many) that puts took, and the
/// lookups in intervals or pairs.
const IDLE_PUT_PARTS: u64 = 1024;
const IDLE_READS_MAX: u64 = 64;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct IdleDefragmentation {
    pass: Mutex<Pass>,
    /// Bytes that commits have put and no pass was allowed to write yet.
    put: AtomicU64,
    /// The work that the store had done at the last check of the time.
    seen: Mutex<Activity>,
    /// Intervals that were read for it.
    read: AtomicU64,
    is_queued: AtomicBool,
}

/// The progress of a pass.
#[derive(Debug, Default)]
struct Pass {
    is_under_way: bool,
    /// The key at which it continues, or at which the next one begins.
    next: Key,
    /// The key at which it began, and whether it has wrapped from the last key to the first.
    began: Key,
    has_turned: bool,
    /// Bytes that it may still write.
    allowance: u64,
}

/// The work that a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity {
    put: u64,
    reads: u64,
}

impl IdleDefragmentation {
    /// The state for a store of `space_bytes` bytes: a pass is due.
    pub(crate) fn new(space_bytes: u64) -> Self {
        let pass = Pass { is_under_way: true, allowance: space_bytes, ..Pass::default() };
        Self { pass: Mutex::new(pass), ..Self::default() }
    }

    /// Notes that a commit has put `bytes` bytes of pairs.
    pub(crate) fn note_put(&self, bytes: u64) {
        self.put.fetch_add(bytes, Relaxed);
    }

    /// Notes that `intervals` intervals were read for defragmentation, and not for a reader.
    pub(crate) fn note_read(&self, intervals: u64) {
        self.read.fetch_add(intervals, Relaxed);
    }

    /// Whether a pass is under way, or due.
    fn is_due(&self, space_bytes: u64) -> bool {
        let put = self.put.load(Relaxed);
        self.pass.lock().is_under_way || put > 0 && put >= space_bytes / PUT_PARTS
    }

    /// Returns the key at which the pass continues, and the bytes that it may write; begins a pass
    /// if one is due. None if there is nothing to be done.
    pub(crate) fn go_on(&self, space_bytes: u64) -> Option<(Key, u64)> {
        let mut pass = self.pass.lock();
        let put = self.put.load(Relaxed);
        if !pass.is_under_way {
            if put == 0 || put < space_bytes / PUT_PARTS {
                return None;
            }
            let next = std::mem::take(&mut pass.next);
            let (began, allowance) = (next.clone(), pass.allowance);
            *pass = Pass { is_under_way: true, next, began, has_turned: false, allowance };
        }
        // The pass may also write the bytes that are put while it is under way.
        pass.allowance += self.put.swap(0, Relaxed);
        Some((pass.next.clone(), pass.allowance))
    }

    /// Notes that the pass has reached a key, or the end of all keys, and has written `written`
    /// bytes. Returns whether it continues.
    pub(crate) fn come_to(&self, next: Option<Key>, written: u64) -> bool {
        let mut pass = self.pass.lock();
        pass.allowance = pass.allowance.saturating_sub(written);
        let is_at_end = next.is_none();
        pass.next = next.unwrap_or_default();
        let was_turned = pass.has_turned;
        pass.has_turned |= is_at_end;
        let is_round = match is_at_end {
            true => was_turned || pass.began.is_empty(),
            false => was_turned && pass.next >= pass.began,
        };
        if is_round {
            // The next pass may write the bytes that were put since, and no more.
            (pass.is_under_way, pass.allowance) = (false, 0);
        }
        pass.is_under_way
    }

    /// Ends the pass where it is; the next one continues there.
    pub(crate) fn break_off(&self) {
        let mut pass = self.pass.lock();
        (pass.is_under_way, pass.allowance) = (false, 0);
    }
}

impl Shared {
    fn activity(&self) -> Activity {
        let cache = &self.cache;
        let reads = cache.hits.load(Relaxed) + cache.misses.load(Relaxed) + cache.pairs.hits();
        let reads = reads.saturating_sub(self.background.defragment_idle.read.load(Relaxed));
        Activity { put: self.memtables_used(), reads }
    }

    /// Whether next to nothing was done since.
    fn is_idle_since(&self, before: Activity) -> bool {
        let now = self.activity();
        let few = self.host.memory.limit() / IDLE_PUT_PARTS;
        now.put.saturating_sub(before.put) <= few
            && now.reads.saturating_sub(before.reads) <= IDLE_READS_MAX
    }

    /// Whether it may be done now and is of use, apart from the store's other work.
    fn may_defragment(&self) -> bool {
        self.options.defragments_when_idle
            && self.health.check_writable().is_ok()
            && self.host.sequence.oldest_pin().is_none()
            && self.space.len() > self.cache_share()
    }

    /// Whether a pass continues in the next idle second.
    pub(crate) fn has_to_defragment(&self) -> bool {
        let is_queued = self.background.defragment_idle.is_queued.load(SeqCst);
        let is_due = || self.background.defragment_idle.is_due(self.space.len());
        is_queued || self.may_defragment() && is_due()
    }

    /// A second has passed; says how many bytes memtables took in it.
    pub(crate) fn defragment_if_idle(self: &Arc<Self>) -> u64 {
        let now = self.activity();
        let before = std::mem::replace(&mut *self.background.defragment_idle.seen.lock(), now);
        if self.is_idle_since(before)
            && self.may_defragment()
            && self.background.defragment_idle.go_on(self.space.len()).is_some()
        {
            self.schedule_defragmentation();
        }
        now.put.saturating_sub(before.put)
    }

    /// Schedules the writing of the next slice.
    fn schedule_defragmentation(self: &Arc<Self>) {
        if self.background.defragment_idle.is_queued.swap(true, SeqCst) {
            return;
        }
        let shared = Arc::downgrade(self);
        let task = move |stop: &StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            shared.background.defragment_idle.is_queued.store(false, SeqCst);
            let seen = *shared.background.defragment_idle.seen.lock();
            if stop.is_stopping() || !shared.is_idle_since(seen) || !shared.may_defragment() {
                return;
            }
            let defragmented = shared.defragment_slice();
            let goes_on = *defragmented.as_ref().unwrap_or(&false);
            if defragmented.is_err() {
                shared.background.defragment_idle.break_off();
            }
            shared.note_ended(DEFRAGMENT, defragmented.map(drop));
            if goes_on {
                shared.schedule_defragmentation();
            }
        };
        // A pool that is stopping runs nothing more, and no thread waits for it.
        if self.background.group.submit(Class::Collect, "flexdb defragment", task).is_err() {
            self.background.defragment_idle.is_queued.store(false, SeqCst);
        }
    }
}
