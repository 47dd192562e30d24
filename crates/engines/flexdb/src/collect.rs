//! Room that is freed: the space's collector, and data that no snapshot needs any more.
//!
//! The base of readers holds segments that the collector has emptied. So after it has emptied some,
//! another base of the same pairs replaces it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::{Error, Result};
use flexspace::space::Collected;
use workers::{Class, Next, StopToken, Stopped};

use crate::background_errors::{COLLECT, REWRITE};
use crate::error::from_space;
use crate::store::Shared;

/// Time between two checks.
const INTERVAL: Duration = Duration::from_secs(1);
/// Part of the budget (one in this many) that is put in such a time if much is written.
const MUCH_PUT_PARTS: u64 = 64;

/// Starts a task that collects the space each second until nothing is left to do
/// ([`engine::Rounds`]).
pub(crate) fn begin(shared: &Arc<Shared>) -> Result<()> {
    shared.begin_looks().map_err(|_| Error::Closed)
}

impl Shared {
    fn begin_looks(self: &Arc<Self>) -> std::result::Result<(), Stopped> {
        let weak = Arc::downgrade(self);
        let look = move |stop: &StopToken| {
            let Some(shared) = weak.upgrade() else { return Next::Never };
            shared.background.rounds.run(&shared.host.sequence, || shared.look(stop))
        };
        self.background.group.repeat(Class::Collect, "flexdb collect", INTERVAL, look)
    }

    /// A second has passed. Returns whether looks find nothing to do until the next write or scan.
    fn look(self: &Arc<Self>, stop: &StopToken) -> bool {
        // The budget may have become less since a block was cached.
        self.cache.shrink(self.cache_share());
        self.refill_allowance();
        let put = self.defragment_if_idle();
        let has_deletes = self.reclaim();
        if let Err(error) = self.sync_rewritten() {
            self.note_ended(REWRITE, Err(error));
        }
        let much = self.host.memory.limit() / MUCH_PUT_PARTS;
        let mut has_collected = false;
        while !stop.is_stopping() && self.collect_and_report(put > much) {
            has_collected = true;
        }
        self.forget_pins();
        let Some(committer) = self.committer.try_lock() else { return false };
        self.index_memory.count_nodes(committer.index(), &self.space);
        drop(committer);
        if self.health.check_writable().is_err() {
            return true;
        }
        put == 0 && !has_deletes && !has_collected && self.has_nothing_left()
    }

    fn has_nothing_left(&self) -> bool {
        let state = self.state.load_full();
        // A snapshot keeps old pairs, and the store is defragmented only after it.
        self.host.sequence.oldest_pin().is_none()
            && state.is_some_and(|state| state.sealed.is_empty() && state.pinned.is_empty())
            && self.is_quiet()
            && !self.has_to_defragment()
            && !self.has_to_rewrite()
            && self.background_errors().is_empty()
    }

    /// A write, whose number is not over yet, may have left something to do.
    #[inline]
    pub(crate) fn wake_looks(self: &Arc<Self>) {
        self.background.rounds.wake(|| self.look_again());
    }

    /// Something without a number may have left something to do.
    pub(crate) fn wake_looks_unnumbered(self: &Arc<Self>) {
        self.background.rounds.wake_unnumbered(|| self.look_again());
    }

    #[cold]
    fn look_again(self: &Arc<Self>) {
        // A pool that is stopping looks no more.
        let _: std::result::Result<(), Stopped> = self.begin_looks();
    }

    /// Empties segments if it is worth it, and returns how many. While much is written, segments
    /// become empty without it, so more of their bytes may be dead before it empties them.
    pub(crate) fn collect(&self, is_much_written: bool) -> Result<u64> {
        let done = match is_much_written {
            true => self.space.collect_beside_writes(),
            false => self.space.collect(),
        };
        let done = done.map_err(from_space)?;
        self.count_collected(&done);
        if done.segments > 0 {
            self.renew_if_idle()?;
        }
        Ok(done.segments)
    }

    /// Collects; says whether there may be more to do.
    fn collect_and_report(&self, is_much_written: bool) -> bool {
        match self.collect(is_much_written) {
            Ok(segments) => segments > 0,
            Err(error) => {
                self.note_ended(COLLECT, Err(error));
                false
            }
        }
    }

    pub(crate) fn count_collected(&self, done: &Collected) {
        self.note_collected(done);
        self.figures.counts.collected_segments.fetch_add(done.segments, Relaxed);
        self.figures.counts.collected_bytes.fetch_add(done.moved_bytes, Relaxed);
    }

    /// Replaces the present base with another base of the same pairs. A commit that runs does so
    /// itself.
    fn renew_if_idle(&self) -> Result<()> {
        let Some(mut committer) = self.committer.try_lock() else { return Ok(()) };
        // The changes that a failed commit has left there are in no base.
        self.health.check_writable()?;
        self.renew_base(&mut committer)
    }

    /// Drops the state of pins that no longer exist.
    fn forget_pins(&self) {
        let _install = self.state.lock();
        let Some(state) = self.state.load_full() else { return };
        let held = self.host.sequence.pins();
        let mut pinned = state.pinned.clone();
        pinned.retain(|seqno, _| held.contains(seqno));
        if pinned.len() < state.pinned.len() {
            let next = state.with_base(Arc::clone(&state.base), None, pinned);
            self.state.replace(next);
        }
    }
}
