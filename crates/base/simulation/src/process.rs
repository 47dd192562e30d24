//! Processes: groups of threads that can be killed and paused.

use std::fmt;
use std::io;
use std::sync::Arc;

use environment::{Environment, JoinHandle, Seed};

use crate::clock::SimulatedClock;
use crate::world::Schedule;

/// A process of a simulation: the threads that [`Process::spawn`] starts, and all that those start.
///
/// A new life of a killed process is another value.
#[derive(Clone)]
pub struct Process {
    shared: Arc<Schedule>,
    group: usize,
    clock: Arc<SimulatedClock>,
    environment: Environment,
}

impl Process {
    pub(crate) fn new(shared: Arc<Schedule>, name: &str, seed: Seed) -> Self {
        let group = shared.add_group(name);
        let clock = Arc::new(SimulatedClock::new(Arc::clone(&shared)));
        let environment = Environment::new(clock.clone(), seed.child(group as u64));
        Self { shared, group, clock, environment }
    }

    /// Returns its clock and its randomness.
    pub fn environment(&self) -> Environment {
        self.environment.clone()
    }

    /// Starts a thread of this process. Only threads of the simulation call this.
    ///
    /// # Errors
    /// The operating system refuses another thread.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let before = self.shared.enter_group(self.group);
        let thread = self.environment.spawn(name, work);
        self.shared.enter_group(before);
        thread
    }

    /// Kills it: none of its threads runs again. A thread that kills its own process does not
    /// return.
    pub fn kill(&self) {
        self.shared.kill(self.group);
    }

    /// Stops its threads until [`Process::resume`], as a stop signal does.
    pub fn pause(&self) {
        self.shared.pause(self.group);
    }

    /// Lets its threads run again.
    pub fn resume(&self) {
        self.shared.resume(self.group);
    }

    /// Has its monotonic clock run at another rate from now on: `ppm` millionths of a second in a
    /// second of the simulation. Waits with a limit keep the rate of the simulation.
    pub fn set_clock_rate(&self, ppm: u32) {
        self.clock.set_rate(ppm);
    }

    /// Moves its wall clock by this many milliseconds, also back.
    pub fn move_wall_clock(&self, by_ms: i64) {
        self.clock.move_wall(by_ms);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("group", &self.group).finish_non_exhaustive()
    }
}
