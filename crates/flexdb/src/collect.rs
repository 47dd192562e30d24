//! Room that is given back: the space's collector, and what no snapshot needs any more.
//!
//! The base that readers look into holds segments that the collector has emptied. So once it has
//! emptied some, another base takes its place, of the same pairs.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::{Error, Result};
use flexspace::space::Collected;
use workers::{Class, StopToken};

use crate::error::from_space;
use crate::store::Shared;

/// How often it is looked after.
const INTERVAL: Duration = Duration::from_secs(1);
/// Parts of the budget of which one is put in such a time where much is written.
const MUCH_PUT_PARTS: u64 = 64;

/// Has the space collected as long as the store is open.
pub(crate) fn begin(shared: &Arc<Shared>) -> Result<()> {
    let weak = Arc::downgrade(shared);
    let work = move |stop: &StopToken| {
        let Some(shared) = weak.upgrade() else { return };
        // The budget may have become less since something was cached.
        shared.cache.shrink(shared.cache_share());
        shared.refill_allowance();
        let put = shared.tidy_if_idle();
        shared.reclaim();
        if let Err(error) = shared.sync_rewritten() {
            shared.note_ended(&shared.rewriting_failing, Err(error));
        }
        let much = shared.host.memory.limit() / MUCH_PUT_PARTS;
        while !stop.is_stopping() && shared.collect_and_tell(put > much) {}
        shared.forget_pins();
        if let Some(committer) = shared.committer.try_lock() {
            shared.count_nodes(committer.index());
        }
    };
    let group = &shared.group;
    group.every(Class::Collect, "flexdb collect", INTERVAL, work).map_err(|_| Error::Closed)
}

impl Shared {
    /// Empties segments, if it is worth it; says how many.
    /// Where much is written segments come to be empty without it, so more of them may be dead before.
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
    fn collect_and_tell(&self, is_much_written: bool) -> bool {
        match self.collect(is_much_written) {
            Ok(segments) => segments > 0,
            Err(error) => {
                self.note_ended(&self.collector_failing, Err(error));
                false
            }
        }
    }

    pub(crate) fn count_collected(&self, done: &Collected) {
        self.note_collected(done);
        self.counts.collected_segments.fetch_add(done.segments, Relaxed);
        self.counts.collected_bytes.fetch_add(done.moved_bytes, Relaxed);
    }

    /// Puts another base of the same pairs in the place of the present one. A commit that runs does so
    /// itself.
    fn renew_if_idle(&self) -> Result<()> {
        let Some(mut committer) = self.committer.try_lock() else { return Ok(()) };
        // What a commit that failed has left there is in no base.
        self.health.check_writable()?;
        self.renew_base(&mut committer)
    }

    /// Lets go what pins saw that are gone.
    fn forget_pins(&self) {
        let _install = self.install.lock();
        let Some(state) = self.state.load_full() else { return };
        let held = self.host.sequence.pins();
        let mut pinned = state.pinned.clone();
        pinned.retain(|seqno, _| held.contains(seqno));
        if pinned.len() < state.pinned.len() {
            let next = state.with_base(Arc::clone(&state.base), None, pinned);
            self.state.store(Some(Arc::new(next)));
        }
    }
}
