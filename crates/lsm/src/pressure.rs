//! What writers wait for: a moment where compactions are behind, and for flushes where memory ends.
//!
//! The wait of a write grows with its bytes and with the tables of Level 0 above the mark, so that
//! writers come down to the pace of the compactions instead of running into a wall. Only at twice
//! the mark do they wait until a compaction is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use engine::{Error, Result};
use parking_lot::{Condvar, Mutex};
use workers::WaitError;

use crate::memory_split::SEALED_MAX;
use crate::store::Shared;

/// What each table above the mark adds to the time that a byte takes: at one 50 MB/s, at ten 5
/// MB/s.
const NANOS_PER_BYTE: u64 = 20;
/// Waits are added up until they are as long as this: shorter ones cost more than they slow down.
const WAIT_NANOS: u64 = 1_000_000;

/// What a write waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Memtables that wait for their flush, at most.
    pub(crate) sealed_max: usize,
    /// Tables in Level 0, at most.
    pub(crate) level0_max: usize,
}

impl Room {
    /// What a write waits for that was admitted, or is replayed: only that memory does not grow for
    /// ever.
    pub(crate) const FOR_ADMITTED: Self =
        Self { sealed_max: 2 * SEALED_MAX, level0_max: usize::MAX };
}

/// Where writers wait, and how much they owe.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    owed_nanos: AtomicU64,
    waiting: Mutex<()>,
    relieved: Condvar,
    /// Why a flush in the background did not come to its end, if writers can be told: then they try
    /// again.
    failure: Mutex<Option<Error>>,
    /// How long writers were slowed down, and how often they waited until something was done.
    pub(crate) slowed_nanos: AtomicU64,
    pub(crate) stalls: AtomicU64,
}

impl Pressure {
    /// Something was flushed or compacted.
    pub(crate) fn relieve(&self) {
        self.relieved.notify_all();
    }

    /// A flush failed for a reason that may pass.
    pub(crate) fn fail(&self, error: Error) {
        *self.failure.lock() = Some(error);
    }

    /// How long to wait by now for `bytes`, if it is worth waiting.
    fn owe(&self, bytes: u64, above: u64) -> Option<Duration> {
        let more = bytes.saturating_mul(NANOS_PER_BYTE).saturating_mul(above);
        let owed = self.owed_nanos.fetch_add(more, Relaxed).saturating_add(more);
        if owed < WAIT_NANOS {
            return None;
        }
        self.owed_nanos.store(0, Relaxed);
        Some(Duration::from_nanos(owed.min(100 * WAIT_NANOS)))
    }
}

impl Shared {
    /// Waits in proportion to `bytes` where Level 0 has too many tables.
    pub(crate) fn slow_down(self: &Arc<Self>, bytes: u64) {
        let tables = self.state.load().version.level(0).len();
        let above = tables.saturating_sub(self.options.level0_tables_slow) as u64;
        if above == 0 {
            return;
        }
        if let Some(wait) = self.pressure.owe(bytes, above) {
            self.pressure.slowed_nanos.fetch_add(wait.as_nanos() as u64, Relaxed);
            let mut waiting = self.pressure.waiting.lock();
            self.pressure.relieved.wait_for(&mut waiting, wait);
        }
    }

    /// Waits until there is as much room as a write wants. Where nothing more will be done to make
    /// some, the reason is the error.
    pub(crate) fn wait_for_room(self: &Arc<Self>, wanted: Room) -> Result<()> {
        if self.has_room(wanted) {
            return Ok(());
        }
        self.pressure.stalls.fetch_add(1, Relaxed);
        let mut failure = None;
        let waited = self.group.wait_until(|| {
            if self.health.check_writable().is_err() || self.has_room(wanted) {
                return true;
            }
            failure = self.pressure.failure.lock().take();
            if failure.is_none() {
                self.schedule_flush();
                self.schedule_compactions();
                if self.state.load().sealed() <= wanted.sealed_max {
                    // Only compactions can help. The last one may have ended just now, and did.
                    failure = self.compactions_halted().filter(|_| !self.has_room(wanted));
                }
            }
            failure.is_some()
        });
        match (failure, waited) {
            (Some(failure), _) => Err(failure),
            (None, Err(WaitError::Stopped(_))) => Err(Error::Closed),
            // A task that panics is our own mistake; it is told with its text.
            (None, Err(WaitError::Panicked(panic))) => panic!("{panic}"),
            (None, Ok(())) => self.health.check_writable(),
        }
    }

    fn has_room(&self, wanted: Room) -> bool {
        let state = self.state.load();
        state.sealed() <= wanted.sealed_max && state.version.level(0).len() <= wanted.level0_max
    }

    /// What a write that is to be admitted waits for.
    pub(crate) fn room_for_new(&self) -> Room {
        Room { sealed_max: SEALED_MAX, level0_max: 2 * self.options.level0_tables_slow.max(1) }
    }
}
