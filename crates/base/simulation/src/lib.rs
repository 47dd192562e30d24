//! Simulations: the threads of whole databases and clusters, in one schedule that follows from a
//! seed.
//!
//! The threads are those of the operating system, and run the code of the product. Exactly one of
//! them runs at a time. A thread that waits for a lock, a condition variable, the end of a sleep or
//! of another thread gives its turn to the next one, which the seed chooses. A thread that takes a
//! lock loses its turn with some chance. When all threads wait, the time of the simulation jumps to
//! the next deadline. If there is none, the simulation fails with the stacks of all threads.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use sync::locks::Mutex;
//! use thermocline_simulation::Simulation;
//!
//! let outcome = Simulation::new(7).run(|world| {
//!     let environment = world.environment();
//!     let numbers = Arc::new(Mutex::new(Vec::new()));
//!     let threads: Vec<_> = (0..3).map(|number| {
//!         let (environment, numbers) = (environment.clone(), Arc::clone(&numbers));
//!         let name = format!("thread-{number}");
//!         let sleeps = environment.clone();
//!         environment.spawn(&name, move || {
//!             sleeps.sleep(Duration::from_secs(600));
//!             numbers.lock().push(number);
//!         })
//!     }).collect();
//!     for thread in threads {
//!         thread.expect("a thread starts").join().expect("it does not panic");
//!     }
//!     numbers.lock().clone()
//! });
//! assert_eq!(outcome.value.len(), 3);
//! assert!(outcome.time >= Duration::from_secs(600));
//! ```
//!
//! # Use
//! [`Simulation::run`] calls the test on the first thread. [`World::environment`] gives the clock,
//! and threads that the environment starts belong to the simulation. [`World::process`] makes a
//! group of threads that can be killed and paused, as a process of a cluster can.
//!
//! # Limits
//! - A wait that does not come from `sync` or `environment` blocks the whole simulation: a channel
//!   of the standard library, or a descriptor. A simulation that does not move for a minute of real
//!   time fails, and names the thread that has the turn.
//! - Atomics are no scheduling points. The models under loom and shuttle check those.
//! - The threads of killed processes stay until the end of the operating system's process, with
//!   their memory.
//! - Code must not depend on the order of a hash map, on addresses, or on any clock but the
//!   environment's. Two runs of one seed with different traces show such a dependency.
//!
//! # Invariants
//! - N1. At most one thread of a simulation has the turn. It has it until it gives it to another
//!   one.
//! - N2. The schedule follows from the seed and from the calls of the threads alone.
//! - N3. A thread of a killed process never runs again, is counted by no wake, and runs none of its
//!   destructors.

mod clock;
mod process;
mod state;
mod turn;
mod world;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Duration;

use environment::Environment;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sync::scheduler::Starting;

pub use process::Process;
pub use world::World;

use state::Settings;
use world::Record;

/// Real time after which a simulation that does not move has failed.
const STILL: Duration = Duration::from_secs(60);

/// A simulation that was not run yet.
#[derive(Clone, Debug)]
pub struct Simulation {
    seed: u64,
    settings: Settings,
    still: Duration,
}

/// The end of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<T> {
    /// The result of the test.
    pub value: T,
    /// A hash over the schedule. Two runs with the same seed have the same one.
    pub trace: u64,
    /// Turns that were given.
    pub turns: u64,
    /// The time of the simulation.
    pub time: Duration,
}

impl Simulation {
    /// Returns the simulation of a seed. The seed draws how often threads lose their turn.
    pub fn new(seed: u64) -> Self {
        Self { seed, settings: Settings::drawn(seed), still: STILL }
    }

    /// Sets the time after which the simulation fails. It is an hour otherwise.
    #[must_use]
    pub fn limit(mut self, time: Duration) -> Self {
        self.settings.limit = time;
        self
    }

    /// Sets the chance, in parts of a million, that a thread which takes a lock loses its turn. The
    /// seed draws it otherwise.
    #[must_use]
    pub fn switches_ppm(mut self, ppm: u32) -> Self {
        self.settings.switch_ppm = ppm;
        self
    }

    /// Sets the real time after which a simulation that does not move has failed.
    #[must_use]
    pub fn still(mut self, time: Duration) -> Self {
        self.still = time;
        self
    }

    /// Runs `test` on the first thread of the simulation, and returns when it has ended.
    ///
    /// # Panics
    /// With the panic of the test. With a description of all threads in these cases:
    ///
    /// - All threads wait, and none has a deadline.
    /// - The time is over.
    /// - A thread blocks outside the simulation.
    /// - Threads of processes that were not killed still exist at the end.
    pub fn run<T: Send + 'static>(
        self,
        test: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Outcome<T> {
        self.run_recorded(test).0
    }

    /// Runs a test twice. Both runs must be the same.
    ///
    /// # Panics
    /// As [`Simulation::run`]; and if the runs differ, with the first turn that differs and the
    /// stacks of all threads before it.
    pub fn run_twice<T: PartialEq + fmt::Debug + Send + 'static>(
        mut self,
        test: impl FnOnce(&World) -> T + Clone + Send + 'static,
    ) -> Outcome<T> {
        self.settings.records = true;
        let (first, one) = self.clone().run_recorded(test.clone());
        let (second, other) = self.clone().run_recorded(test.clone());
        let differ = one.turns.iter().zip(&other.turns).position(|(one, other)| one != other);
        if let Some(turn) = differ {
            let [one, other] = [one, other].map(|record| record.described(turn));
            self.settings.looks_at = Some(turn as u64);
            let [first, second] = [(); 2].map(|()| self.clone().stacks(test.clone()));
            let at = first.iter().zip(&second).position(|(one, other)| one != other);
            let at = at.unwrap_or(first.len().min(second.len()));
            let lock = |stacks: &[String]| stacks.get(at).cloned().unwrap_or("none".to_owned());
            panic!(
                "the runs of seed {} differ at turn {turn}\n  {one}\n  {other}\nlock {at} of the turn \
                 before\n  {}\n  {}",
                self.seed,
                lock(&first),
                lock(&second)
            );
        }
        assert_eq!(first, second, "the runs of seed {} differ", self.seed);
        first
    }

    /// Returns the stacks at the locks of the turn in the settings.
    fn stacks<T: Send + 'static>(
        self,
        test: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Vec<String> {
        let world = World::new(self.seed, self.settings.clone());
        let _stopped = self.run_in(&world, test);
        world.take_record().stacks
    }

    fn run_recorded<T: Send + 'static>(
        self,
        test: impl FnOnce(&World) -> T + Send + 'static,
    ) -> (Outcome<T>, Record) {
        let world = World::new(self.seed, self.settings.clone());
        match self.run_in(&world, test) {
            Ok(Ok(value)) => {
                let (trace, turns, time) = world.totals();
                (Outcome { value, trace, turns, time }, world.take_record())
            }
            Ok(Err(panic)) => {
                eprintln!("the simulation of seed {} panicked", self.seed);
                resume_unwind(panic)
            }
            Err(failure) => panic!("the simulation of seed {} failed: {failure}", self.seed),
        }
    }

    /// Runs a test in a new world. Returns its result or its panic; or the failure of the
    /// simulation.
    fn run_in<T: Send + 'static>(
        &self,
        world: &World,
        test: impl FnOnce(&World) -> T + Send + 'static,
    ) -> Result<std::thread::Result<T>, String> {
        let (results, result) = mpsc::channel();
        let shared = world.clone();
        let starting = Starting::first(world.scheduler(), world.add_first());
        let work = move || {
            starting.begin();
            // All threads on one processor: a turn is then given without a wake of another one.
            use_one_processor();
            let value = catch_unwind(AssertUnwindSafe(|| test(&shared)));
            let _ = results.send(value);
        };
        let thread = Environment::real().spawn("simulation", work);
        let _ends_with_its_world = thread.expect("the operating system starts a thread");
        world.start();
        let failure = world.wait_for_end(self.still);
        let value = result.try_recv().ok();
        match failure {
            Some(failure) => {
                let panic = value.and_then(Result::err);
                let text = panic
                    .as_deref()
                    .and_then(text_of)
                    .map(|text| format!("\nthe test panicked: {text}"));
                Err(failure + text.as_deref().unwrap_or_default())
            }
            None => Ok(value.expect("the first thread sends its result before it ends")),
        }
    }
}

/// Returns the text of a panic.
fn text_of(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
}

/// The number of simulations so far, to spread them over the processors.
static SIMULATIONS: AtomicUsize = AtomicUsize::new(0);

/// Keeps the calling thread, and all that it starts, on one processor. Without permission nothing
/// changes.
fn use_one_processor() {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|one| allowed.is_set(*one)).collect();
    // Several processes run simulations next to each other.
    let number = SIMULATIONS.fetch_add(1, Relaxed) + std::process::id() as usize;
    if let Some(processor) = processors.get(number % processors.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(*processor);
        let _may_be_refused = sched_setaffinity(None, &one);
    }
}

/// Ends the wait of a poisoned lock of this crate: a panic while it is held is a fault here, and
/// is reported by its own thread.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
