//! The world of a simulation: its schedule, its time and its processes.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use environment::{Environment, Seed};
use sync::locks::Wake;
use sync::scheduler::Scheduler;

use crate::clock::SimulatedClock;
use crate::process::Process;
use crate::state::{Alive, FIRST_GROUP, FIRST_THREAD, Given, Hang, Settings, State};
use crate::{locked, turn};

/// The world of a simulation. Cheap to clone.
#[derive(Clone, Debug)]
pub struct World {
    shared: Arc<Schedule>,
    environment: Environment,
}

/// The turns of a simulation.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) turns: Vec<Given>,
    pub(crate) names: Vec<String>,
    pub(crate) stacks: Vec<String>,
}

impl Record {
    /// Describes a turn, and the thread of the turn before.
    pub(crate) fn described(&self, turn: usize) -> String {
        let name = |turn: usize| {
            let thread = self.turns.get(turn).map_or(usize::MAX, |(thread, ..)| *thread);
            self.names.get(thread).map_or("none", String::as_str)
        };
        let (_, nanos, passes) = self.turns.get(turn).copied().unwrap_or_default();
        let (time, before) = (Duration::from_nanos(nanos), name(turn.saturating_sub(1)));
        format!("{} after {before}, at {time:?}, after {passes} locks", name(turn))
    }
}

/// The part that all threads share.
pub(crate) struct Schedule {
    state: Mutex<State>,
    over: Condvar,
    origin: Instant,
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "deadlines are instants, so they need an origin")]
    pub(crate) fn new(seed: u64, settings: Settings) -> Self {
        let mut state = State::new(seed, settings);
        state.add_group("test");
        let (state, origin) = (Mutex::new(state), Instant::now());
        let shared = Arc::new(Schedule { state, over: Condvar::new(), origin });
        let clock = Arc::new(SimulatedClock::new(Arc::clone(&shared)));
        Self { shared, environment: Environment::new(clock, Seed::from(seed)) }
    }

    /// Returns the clock and the randomness of the simulation.
    pub fn environment(&self) -> Environment {
        self.environment.clone()
    }

    /// Returns a new process. It has no thread yet.
    pub fn process(&self, name: &str) -> Process {
        Process::new(Arc::clone(&self.shared), name, self.environment.seed())
    }

    pub(crate) fn scheduler(&self) -> Arc<dyn Scheduler> {
        Arc::clone(&self.shared) as Arc<dyn Scheduler>
    }

    pub(crate) fn add_first(&self) -> usize {
        locked(&self.shared.state).add_thread("test", FIRST_GROUP)
    }

    /// Gives the first thread its turn.
    pub(crate) fn start(&self) {
        let mut state = locked(&self.shared.state);
        let chosen = state.choose().map(|thread| Arc::clone(&state.threads[thread].turn));
        chosen.expect("the first thread can run").give();
    }

    /// Waits until the first thread has ended, and returns the failure, if there is one.
    pub(crate) fn wait_for_end(&self, still: Duration) -> Option<String> {
        let mut state = locked(&self.shared.state);
        while !state.is_over {
            let turns = state.turns;
            let waited = self.shared.over.wait_timeout(state, still);
            let (after, time) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
            state = after;
            if time.timed_out() && state.turns == turns && !state.is_over {
                let name = &state.threads[state.running].name;
                return Some(format!("{name} has the turn, and blocks outside the simulation"));
            }
        }
        state.failure.clone()
    }

    /// Takes the record of the turns, and the names of the threads.
    pub(crate) fn take_record(&self) -> Record {
        let mut state = locked(&self.shared.state);
        let names = state.threads.iter().map(|thread| thread.name.clone()).collect();
        let turns = std::mem::take(&mut state.record);
        Record { turns, names, stacks: std::mem::take(&mut state.stacks) }
    }

    /// Returns the trace, the turns and the time.
    pub(crate) fn totals(&self) -> (u64, u64, Duration) {
        let state = locked(&self.shared.state);
        (state.trace, state.turns, Duration::from_nanos(state.nanos))
    }
}

impl Schedule {
    /// Returns the time since the simulation began.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_nanos(locked(&self.state).nanos)
    }

    /// Returns the moment at which `duration` will have passed.
    pub(crate) fn instant_after(&self, duration: Duration) -> Instant {
        // A deadline of years is none.
        let longest = Duration::from_secs(1 << 30);
        self.origin + self.time() + duration.min(longest)
    }

    pub(crate) fn add_group(&self, name: &str) -> usize {
        locked(&self.state).add_group(name)
    }

    /// Has the running thread start others in this group. Returns the group before.
    pub(crate) fn enter_group(&self, group: usize) -> usize {
        let mut state = locked(&self.state);
        let running = state.running;
        std::mem::replace(&mut state.threads[running].group, group)
    }

    pub(crate) fn kill(&self, group: usize) {
        let mut state = locked(&self.state);
        if state.kill(group) {
            let running = state.running;
            let turn = Arc::clone(&state.threads[running].turn);
            self.give_next(state);
            turn.never();
        }
    }

    pub(crate) fn pause(&self, group: usize) {
        let mut state = locked(&self.state);
        if state.pause(group) {
            let running = state.running;
            state.make_runnable(running, Wake::Changed);
            self.switch(state, running);
        }
    }

    pub(crate) fn resume(&self, group: usize) {
        locked(&self.state).resume(group);
    }

    /// Lets the next thread run, and returns when the calling one has the turn again.
    fn switch(&self, mut state: MutexGuard<'_, State>, thread: usize) {
        let mine = Arc::clone(&state.threads[thread].turn);
        match state.choose() {
            Ok(next) if next == thread => return,
            Ok(next) => {
                let theirs = Arc::clone(&state.threads[next].turn);
                drop(state);
                theirs.give();
            }
            Err(hang) => self.fail(state, hang),
        }
        mine.take();
    }

    /// Lets the next thread run. The caller does not wait for its own turn.
    fn give_next(&self, mut state: MutexGuard<'_, State>) {
        match state.choose() {
            Ok(next) => {
                let theirs = Arc::clone(&state.threads[next].turn);
                drop(state);
                theirs.give();
            }
            Err(hang) => self.fail(state, hang),
        }
    }

    /// Ends the simulation with the stacks of its threads.
    fn fail(&self, state: MutexGuard<'_, State>, hang: Hang) {
        let cause = match hang {
            Hang::NoDeadline => "all threads wait, and none has a deadline",
            Hang::Limit => "its time is over",
            Hang::Stop => "it was stopped",
        };
        let (time, turns) = (Duration::from_nanos(state.nanos), state.turns);
        let threads = state.alive();
        // A thread that begins takes the lock before it can describe its stack.
        drop(state);
        let mut failure = format!("{cause} (at {time:?}, after {turns} turns)");
        for Alive { name, turn } in threads {
            let stack = turn.map_or_else(turn::stack, |turn| turn.stack());
            failure.push_str(&format!("\n  {name}: {}", stack.join(" < ")));
        }
        let mut state = locked(&self.state);
        state.failure = Some(failure);
        state.is_over = true;
        self.over.notify_all();
    }

    /// Ends the simulation with its first thread.
    fn end_all(&self, state: &mut State) {
        let names: Vec<String> = state.alive().into_iter().map(|alive| alive.name).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            state.failure = Some(format!("the test has ended before these threads: {names}"));
        }
        state.is_over = true;
        self.over.notify_all();
    }

    fn nanos_of(&self, deadline: Instant) -> u64 {
        let nanos = deadline.saturating_duration_since(self.origin).as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

/// Returns a word for the end of a thread. It is the address of no value.
fn end_of(thread: usize) -> usize {
    usize::MAX - thread
}

impl Scheduler for Schedule {
    fn now(&self) -> Instant {
        self.origin + self.time()
    }

    fn process(&self, thread: usize) -> u64 {
        let state = locked(&self.state);
        state.process_of(thread)
    }

    fn pass(&self, thread: usize) {
        let mut state = locked(&self.state);
        if state.is_looked_at() {
            state.stacks.push(turn::stack().join(" < "));
        }
        if state.draws_switch() {
            state.make_runnable(thread, Wake::Changed);
            self.switch(state, thread);
        }
    }

    fn yield_now(&self, thread: usize) {
        let mut state = locked(&self.state);
        state.jump_if_idle();
        state.make_runnable(thread, Wake::Changed);
        self.switch(state, thread);
    }

    fn wait(&self, thread: usize, word: usize, deadline: Option<Instant>) -> Wake {
        let mut state = locked(&self.state);
        state.wait(thread, word, deadline.map(|deadline| self.nanos_of(deadline)));
        self.switch(state, thread);
        locked(&self.state).threads[thread].wake
    }

    fn wake(&self, _thread: usize, word: usize, count: u32) -> u32 {
        locked(&self.state).wake(word, count)
    }

    fn add(&self, thread: usize, name: &str) -> usize {
        let mut state = locked(&self.state);
        let group = state.threads[thread].group;
        state.add_thread(name, group)
    }

    fn begin(&self, thread: usize) {
        let turn = Arc::clone(&locked(&self.state).threads[thread].turn);
        turn.take();
    }

    fn forget(&self, thread: usize) {
        locked(&self.state).end(thread);
    }

    fn end(&self, thread: usize) {
        let mut state = locked(&self.state);
        state.end(thread);
        state.wake(end_of(thread), u32::MAX);
        match thread {
            FIRST_THREAD => self.end_all(&mut state),
            _ => self.give_next(state),
        }
    }

    fn join(&self, thread: usize, other: usize) {
        while !self.has_ended(other) {
            self.wait(thread, end_of(other), None);
        }
    }

    fn has_ended(&self, other: usize) -> bool {
        locked(&self.state).has_ended(other)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schedule").finish_non_exhaustive()
    }
}
