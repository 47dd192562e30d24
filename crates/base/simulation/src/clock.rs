//! The clock of a process in a simulation.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use environment::{Clock, Monotonic};

use crate::world::Schedule;

/// The time of a simulation begins on 2026-01-01.
const WALL: Duration = Duration::from_secs(1_767_225_600);

/// The clock of a process: the time of the simulation, and a wall clock that may be wrong.
pub(crate) struct SimulatedClock {
    shared: Arc<Schedule>,
    /// Milliseconds by which the wall clock is fast.
    fast_ms: AtomicI64,
}

impl SimulatedClock {
    pub(crate) fn new(shared: Arc<Schedule>) -> Self {
        Self { shared, fast_ms: AtomicI64::new(0) }
    }

    /// Moves the wall clock, and not the monotonic one.
    pub(crate) fn move_wall(&self, by_ms: i64) {
        self.fast_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for SimulatedClock {
    fn monotonic(&self) -> Monotonic {
        let nanos = self.shared.time().as_nanos();
        Monotonic::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> Duration {
        let now = WALL + self.shared.time();
        let fast = self.fast_ms.load(Ordering::SeqCst);
        let moved = Duration::from_millis(fast.unsigned_abs());
        if fast < 0 { now.saturating_sub(moved) } else { now + moved }
    }

    fn sleep(&self, duration: Duration) {
        let until = self.shared.instant_after(duration);
        assert!(sync::scheduler::sleep_until(until), "only threads of the simulation sleep in it");
    }
}

impl fmt::Debug for SimulatedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedClock").field("fast_ms", &self.fast_ms).finish_non_exhaustive()
    }
}
