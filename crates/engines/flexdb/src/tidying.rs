//! Tidying: while nobody wants the store, neighbours that lie in many pieces are written as one.
//!
//! What scans find in pieces is written as one for them (`fragmented`). What no scan has read lies as commits have
//! left it: after a load in no order each interval in a place of its own, with pieces of several commits.
//!
//! 1. A pass goes once over all intervals: when the store was opened, and again once commits have put an eighth of
//!    what there is.
//! 2. It goes on while the store is idle: for a second few were put and few looked for, no snapshot is held, and what
//!    there is does not fit the cache, from where nobody reads pieces.
//! 3. A task looks for the next slice that is worth it, reads it and writes it (`commit/tidying.rs`), and has itself
//!    done again. As soon as the store is not idle any more it ends, and the pass goes on later where it was.
//!
//! # Invariants
//! - D1. Passes write no more bytes than commits have put since the store was opened, and one copy of what
//!   there was then.
//! - D2. No more than a slice is in memory for it, which is charged.
//! - D3. Nothing of it is done once the store's tasks are being stopped, but for the end of a slice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use sync::locks::Mutex;
use workers::{Class, StopToken};

use crate::index::Key;
use crate::store::Shared;

/// Parts of the space as much as which commits have to put before there is another pass.
const PUT_PARTS: u64 = 8;
/// An idle second: puts took no more than such a part of the budget, and so many looks went into intervals or pairs.
const IDLE_PUT_PARTS: u64 = 1024;
const IDLE_READS_MAX: u64 = 64;

/// See the file's head.
#[derive(Debug, Default)]
pub(crate) struct Tidying {
    pass: Mutex<Pass>,
    /// Bytes that commits have put and no pass was allowed to write yet.
    put: AtomicU64,
    /// What the store had done when time was last looked at.
    seen: Mutex<Activity>,
    /// Intervals that were read for it.
    read: AtomicU64,
    is_queued: AtomicBool,
}

/// Where a pass is.
#[derive(Debug, Default)]
struct Pass {
    is_under_way: bool,
    /// Where it goes on; or where the next one begins.
    next: Key,
    /// Where it has begun, and whether it has come from the last key to the first.
    began: Key,
    has_turned: bool,
    /// Bytes that it may still write.
    allowance: u64,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Activity {
    put: u64,
    reads: u64,
}

impl Tidying {
    /// Of a store that has so many bytes: a pass is due.
    pub(crate) fn new(space_bytes: u64) -> Self {
        let pass = Pass { is_under_way: true, allowance: space_bytes, ..Pass::default() };
        Self { pass: Mutex::new(pass), ..Self::default() }
    }

    /// A commit has put so many bytes of pairs.
    pub(crate) fn note_put(&self, bytes: u64) {
        self.put.fetch_add(bytes, Relaxed);
    }

    /// So many intervals were read for it: nobody else did.
    pub(crate) fn note_read(&self, intervals: u64) {
        self.read.fetch_add(intervals, Relaxed);
    }

    /// Whether a pass is under way, or due.
    fn is_due(&self, space_bytes: u64) -> bool {
        let put = self.put.load(Relaxed);
        self.pass.lock().is_under_way || put > 0 && put >= space_bytes / PUT_PARTS
    }

    /// Where the pass goes on, and how much it may write; begins one if that is due. None if there is nothing to
    /// be done.
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
        // What is put while it is under way is its to write as well.
        pass.allowance += self.put.swap(0, Relaxed);
        Some((pass.next.clone(), pass.allowance))
    }

    /// The pass has come to a key, or behind all of them, and has written so many bytes; answers whether it goes on.
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
            // The next one may write what was put since, and no more.
            (pass.is_under_way, pass.allowance) = (false, 0);
        }
        pass.is_under_way
    }

    /// The pass ends where it is; the next one goes on there.
    pub(crate) fn break_off(&self) {
        let mut pass = self.pass.lock();
        (pass.is_under_way, pass.allowance) = (false, 0);
    }
}

impl Shared {
    fn activity(&self) -> Activity {
        let cache = &self.cache;
        let reads = cache.hits.load(Relaxed) + cache.misses.load(Relaxed) + cache.pairs().hits();
        let reads = reads.saturating_sub(self.tidying.read.load(Relaxed));
        Activity { put: self.memtables_used(), reads }
    }

    /// Whether next to nothing was done since.
    fn is_idle_since(&self, before: Activity) -> bool {
        let now = self.activity();
        let few = self.host.memory.limit() / IDLE_PUT_PARTS;
        now.put.saturating_sub(before.put) <= few
            && now.reads.saturating_sub(before.reads) <= IDLE_READS_MAX
    }

    /// Whether it may be done now and is of use, apart from what else the store does.
    fn may_tidy(&self) -> bool {
        self.options.tidies_when_idle
            && self.health.check_writable().is_ok()
            && self.host.sequence.oldest_pin().is_none()
            && self.space.len() > self.cache_share()
    }

    /// Whether a pass goes on in the next idle second.
    pub(crate) fn has_to_tidy(&self) -> bool {
        let is_queued = self.tidying.is_queued.load(SeqCst);
        is_queued || self.may_tidy() && self.tidying.is_due(self.space.len())
    }

    /// A second has passed; says how many bytes memtables took in it.
    pub(crate) fn tidy_if_idle(self: &Arc<Self>) -> u64 {
        let now = self.activity();
        let before = std::mem::replace(&mut *self.tidying.seen.lock(), now);
        if self.is_idle_since(before)
            && self.may_tidy()
            && self.tidying.go_on(self.space.len()).is_some()
        {
            self.schedule_tidying();
        }
        now.put.saturating_sub(before.put)
    }

    /// Has the next slice written, soon.
    fn schedule_tidying(self: &Arc<Self>) {
        if self.tidying.is_queued.swap(true, SeqCst) {
            return;
        }
        let shared = Arc::downgrade(self);
        let task = move |stop: &StopToken| {
            let Some(shared) = shared.upgrade() else { return };
            shared.tidying.is_queued.store(false, SeqCst);
            let seen = *shared.tidying.seen.lock();
            if stop.is_stopping() || !shared.is_idle_since(seen) || !shared.may_tidy() {
                return;
            }
            let tidied = shared.tidy_slice();
            let goes_on = *tidied.as_ref().unwrap_or(&false);
            if tidied.is_err() {
                shared.tidying.break_off();
            }
            shared.note_ended(&shared.tidying_failing, tidied.map(drop));
            if goes_on {
                shared.schedule_tidying();
            }
        };
        // A pool that is stopping runs nothing more, and nobody waits for it.
        if self.group.submit(Class::Collect, "flexdb tidy", task).is_err() {
            self.tidying.is_queued.store(false, SeqCst);
        }
    }
}
