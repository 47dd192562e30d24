//! Clock, randomness and threads: the one place a Thermocline process takes them from.
//!
//! Everything that would make a run differ from its replay comes through an [`Environment`] that is
//! handed in. The lint `disallowed_methods` (see `clippy.toml`) refuses the standard library's own
//! clocks, sleeps and spawns everywhere else. [`Environment::real`] is for a process;
//! [`Environment::simulated`] is for a test: its clock moves only when the test moves it, and its
//! randomness follows from one seed. The crate `simulation` schedules the threads, too.
//!
//! Nothing here touches storage; that is the `device` crate's.

mod clock;
mod long_waits;
mod random;
mod threads;

pub use clock::{Clock, ManualClock, Monotonic, SystemClock, Wake};
pub use long_waits::{LongWaits, WaitCounts};
pub use random::{Random, Seed};
pub use threads::{JoinHandle, Threads};

use std::sync::{Arc, Weak};
use std::time::Duration;

/// The source of a component's time, randomness and threads. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Environment {
    clock: Arc<dyn Clock>,
    seed: Seed,
    threads: Threads,
}

impl Environment {
    /// The operating system's clock and threads, and a seed drawn from its entropy.
    pub fn real() -> Self {
        Self::new(Arc::new(SystemClock), Seed::from_entropy())
    }

    /// A clock that moves only when the returned handle moves it, and randomness from `seed`.
    ///
    /// ```
    /// use std::time::Duration;
    /// let (env, clock) = thermocline_environment::Environment::simulated(7);
    /// let before = env.now();
    /// clock.advance(Duration::from_millis(5));
    /// assert_eq!(env.now() - before, Duration::from_millis(5));
    /// ```
    pub fn simulated(seed: u64) -> (Self, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::default());
        (Self::new(clock.clone(), Seed::from(seed)), clock)
    }

    /// Returns an environment with this clock and this seed. The threads are the operating
    /// system's.
    pub fn new(clock: Arc<dyn Clock>, seed: Seed) -> Self {
        Self { clock, seed, threads: Threads }
    }

    /// Returns the real environment with a seed that is chosen, so that its randomness can be
    /// replayed.
    pub fn seeded(seed: u64) -> Self {
        Self { seed: Seed::from(seed), ..Self::real() }
    }

    /// The monotonic clock.
    pub fn now(&self) -> Monotonic {
        self.clock.monotonic()
    }

    /// The wall clock, as time since the Unix epoch. It may jump, also backwards.
    pub fn wall(&self) -> Duration {
        self.clock.wall()
    }

    /// The wall clock in whole milliseconds since the Unix epoch.
    pub fn wall_ms(&self) -> u64 {
        u64::try_from(self.wall().as_millis()).unwrap_or(u64::MAX)
    }

    /// Blocks the calling thread for `duration` of this environment's time.
    pub fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }

    /// Has `waiter` called whenever the clock is moved by hand; see `Clock::on_move`.
    pub fn on_clock_move(&self, waiter: Weak<dyn Wake>) {
        self.clock.on_move(waiter);
    }

    /// A generator for one purpose. The same seed and the same `purpose` give the same numbers,
    /// independent of other generators made before.
    pub fn random(&self, purpose: &str) -> Random {
        self.seed.stream(purpose)
    }

    /// The seed that replays this environment's randomness.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Starts a named thread. Its handle must be joined; a component that starts a thread stops it
    /// on close.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<JoinHandle<T>> {
        self.threads.spawn(name, work)
    }
}
