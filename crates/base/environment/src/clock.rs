//! Monotonic and wall clocks, real and manual.
#![expect(clippy::disallowed_methods, reason = "this file is where the process's clock is read")]

use std::fmt::Debug;
use std::ops::{Add, Sub};
use std::sync::{OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sync::locks::{Condvar, Mutex};

/// A point on a monotonic clock, in nanoseconds since an origin that is fixed per process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(u64);

impl Monotonic {
    /// The point `nanos` nanoseconds after the clock's origin.
    pub fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Sub for Monotonic {
    type Output = Duration;
    /// The time from `earlier` to `self`; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Monotonic {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Now, on a clock that never runs backwards.
    fn monotonic(&self) -> Monotonic;
    /// Now, as time since the Unix epoch; may jump.
    fn wall(&self) -> Duration;
    /// Returns once `duration` has passed on this clock.
    fn sleep(&self, duration: Duration);

    /// Calls `waiter` each time this clock has been moved by hand, for as long as it lives, so that
    /// a thread that waits for a time may look at the clock again. A clock that only runs never
    /// calls.
    fn on_move(&self, waiter: Weak<dyn Wake>) {
        drop(waiter);
    }
}

/// Something that waits for a point in time.
pub trait Wake: Send + Sync {
    /// The clock was moved. Called on the thread that moved it.
    fn wake(&self);
}

/// The operating system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn monotonic(&self) -> Monotonic {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        let nanos = ORIGIN.get_or_init(Instant::now).elapsed().as_nanos();
        Monotonic(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// A clock that stops until it is moved. Its wall clock can be moved apart from its monotonic one,
/// to play a machine whose date jumps.
///
/// A [`Clock::sleep`] on it waits for another thread to move it.
#[derive(Debug)]
pub struct ManualClock {
    state: Mutex<Times>,
    moved: Condvar,
    waiters: Mutex<Vec<Weak<dyn Wake>>>,
}

#[derive(Debug)]
struct Times {
    monotonic: Monotonic,
    wall: Duration,
}

impl Default for ManualClock {
    /// Monotonic zero, and a wall clock on 2026-01-01.
    fn default() -> Self {
        let wall = Duration::from_secs(1_767_225_600);
        let times = Times { monotonic: Monotonic(0), wall };
        Self { state: Mutex::new(times), moved: Condvar::new(), waiters: Mutex::default() }
    }
}

impl ManualClock {
    /// Moves both clocks forward, and wakes the sleepers whose time is reached.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state.lock();
        state.monotonic = state.monotonic + by;
        state.wall = state.wall.saturating_add(by);
        self.moved.notify_all();
        drop(state);
        // A waiter may ask for the time or register another waiter, so no lock is held here.
        let waiters = {
            let mut waiters = self.waiters.lock();
            waiters.retain(|waiter| waiter.strong_count() > 0);
            waiters.clone()
        };
        waiters.iter().filter_map(Weak::upgrade).for_each(|waiter| waiter.wake());
    }

    /// Sets the wall clock alone.
    pub fn set_wall(&self, since_epoch: Duration) {
        self.state.lock().wall = since_epoch;
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Monotonic {
        self.state.lock().monotonic
    }

    fn wall(&self) -> Duration {
        self.state.lock().wall
    }

    fn sleep(&self, duration: Duration) {
        let mut state = self.state.lock();
        let until = state.monotonic + duration;
        while state.monotonic < until {
            self.moved.wait(&mut state);
        }
    }

    fn on_move(&self, waiter: Weak<dyn Wake>) {
        self.waiters.lock().push(waiter);
    }
}
