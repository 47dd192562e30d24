//! What writers wait for: memtables that are committed, where they would take more than their share.
//!
//! A write of any size goes in once nothing waits for its commit: then nothing else can be done for
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::{Error, Result};
use parking_lot::Mutex;
use workers::WaitError;

use crate::store::Shared;

/// Why writers stop waiting.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// Why a commit in the background did not come to its end, if writers can be told: then they try
    /// again.
    failure: Mutex<Option<Error>>,
    /// Commits that were put off, as a snapshot was being taken.
    pub(crate) put_off: AtomicU64,
    /// How often a writer waited.
    pub(crate) stalls: AtomicU64,
}

impl Pressure {
    /// A commit failed for a reason that may pass, or it has passed.
    pub(crate) fn note_commit(&self, failure: Option<Error>) {
        *self.failure.lock() = failure;
    }

    /// A commit could not begin yet.
    pub(crate) fn note_put_off(&self) {
        self.put_off.fetch_add(1, Relaxed);
    }
}

impl Shared {
    /// Waits until memtables take at most `bytes_max`, or none of them waits. Where nothing more will
    /// be done to make room, the reason is the error. Whoever holds a write's number gives way to a
    /// snapshot that is being taken, which may wait for that very write.
    pub(crate) fn wait_for_room(
        self: &Arc<Self>,
        bytes_max: u64,
        holds_a_number: bool,
    ) -> Result<()> {
        if self.has_room(bytes_max) {
            return Ok(());
        }
        self.pressure.stalls.fetch_add(1, Relaxed);
        let mut failure = None;
        let put_off = self.pressure.put_off.load(Relaxed);
        let waited = self.group.wait_until(|| {
            let is_put_off = holds_a_number && self.pressure.put_off.load(Relaxed) != put_off;
            let is_stopped = self.health.check_writable().is_err();
            if is_put_off || is_stopped || self.has_room(bytes_max) {
                return true;
            }
            failure = self.pressure.failure.lock().take();
            if failure.is_none() {
                self.schedule_commit(bytes_max);
            }
            failure.is_some()
        });
        match (failure, waited) {
            (Some(failure), _) => {
                self.health.check_writable()?;
                Err(Error::SpaceUsedUp {
                    what: "what waits in memory for a commit",
                    bytes: self.family.tally.bytes(),
                    limit: bytes_max,
                    cause: Arc::new(failure),
                })
            }
            (None, Err(WaitError::Stopped(_))) => Err(Error::Closed),
            // A task that panics is our own mistake; it is told with its text.
            (None, Err(WaitError::Panicked(panic))) => panic!("{panic}"),
            (None, Ok(())) => self.health.check_writable(),
        }
    }

    fn has_room(&self, bytes_max: u64) -> bool {
        let is_idle = || self.state.load().as_ref().is_none_or(|state| state.sealed.is_empty());
        self.family.tally.bytes() <= bytes_max || is_idle()
    }
}
