//! The clock of a process in a simulation.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use environment::{Clock, Monotonic};

use crate::world::Schedule;

/// The time of a simulation begins on 2026-01-01.
const WALL: Duration = Duration::from_secs(1_767_225_600);

/// Parts of a rate.
const MILLION: u128 = 1_000_000;

/// The clock of a process: it may be faster or slower than the time of the simulation, and its wall
/// clock may be wrong.
pub(crate) struct SimulatedClock {
    shared: Arc<Schedule>,
    rate: Mutex<Rate>,
    /// Milliseconds by which the wall clock is fast.
    fast_ms: AtomicI64,
}

/// How fast a clock is.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Millionths of a second of the clock for a second of the simulation.
    ppm: u32,
    /// A time of the simulation, and that of the clock then.
    since: (Duration, Duration),
}

impl Rate {
    /// Returns the time of the clock at a time of the simulation.
    fn time(&self, now: Duration) -> Duration {
        let (simulated, own) = self.since;
        let nanos = (now - simulated).as_nanos() * u128::from(self.ppm) / MILLION;
        own + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the time that passes in the simulation while `own` passes by the clock.
    fn simulated(&self, own: Duration) -> Duration {
        let nanos = own.as_nanos() * MILLION / u128::from(self.ppm.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl SimulatedClock {
    pub(crate) fn new(shared: Arc<Schedule>) -> Self {
        let rate = Rate { ppm: MILLION as u32, since: (Duration::ZERO, Duration::ZERO) };
        Self { shared, rate: Mutex::new(rate), fast_ms: AtomicI64::new(0) }
    }

    /// Locks the rate. The lock is one of the operating system: its holder always has the turn.
    fn rate(&self) -> MutexGuard<'_, Rate> {
        self.rate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the clock run at another rate from now on.
    pub(crate) fn set_rate(&self, ppm: u32) {
        let mut rate = self.rate();
        let now = self.shared.time();
        *rate = Rate { ppm, since: (now, rate.time(now)) };
    }

    /// Moves the wall clock, and not the monotonic one.
    pub(crate) fn move_wall(&self, by_ms: i64) {
        self.fast_ms.fetch_add(by_ms, Ordering::SeqCst);
    }
}

impl Clock for SimulatedClock {
    fn monotonic(&self) -> Monotonic {
        let nanos = self.rate().time(self.shared.time()).as_nanos();
        Monotonic::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> Duration {
        let now = WALL + self.shared.time();
        let fast = self.fast_ms.load(Ordering::SeqCst);
        let moved = Duration::from_millis(fast.unsigned_abs());
        if fast < 0 { now.saturating_sub(moved) } else { now + moved }
    }

    fn sleep(&self, duration: Duration) {
        let duration = self.rate().simulated(duration);
        let until = self.shared.instant_after(duration);
        assert!(sync::scheduler::sleep_until(until), "only threads of the simulation sleep in it");
    }
}

impl fmt::Debug for SimulatedClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedClock").field("fast_ms", &self.fast_ms).finish_non_exhaustive()
    }
}
