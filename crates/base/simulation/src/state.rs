//! The threads of a simulation and their schedule.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use environment::{Random, Seed};
use rand::Rng;
use sync::locks::Wake;

use crate::turn::Turn;

/// One in a million.
const MILLION: u64 = 1_000_000;
/// Chances to lose a turn, of which the seed draws one: threads that run until they wait show other
/// faults than threads that alternate.
const SWITCHES_PPM: [u32; 4] = [0, 1_000, 20_000, 200_000];
/// Time that a turn takes, so that a thread that looks at the clock again and again sees it move.
const TURN: Duration = Duration::from_micros(1);

/// Groups so far, of all simulations.
static GROUPS: AtomicU64 = AtomicU64::new(0);

/// The number of the group of the first thread.
pub(crate) const FIRST_GROUP: usize = 0;
/// The number of the first thread.
pub(crate) const FIRST_THREAD: usize = 0;

/// The settings of a simulation. The seed draws the chance of a switch, unless the caller sets it.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The time after which it fails.
    pub(crate) limit: Duration,
    /// The chance that a thread which takes a lock loses its turn, in parts of a million.
    pub(crate) switch_ppm: u32,
    /// Whether all turns are recorded.
    pub(crate) records: bool,
    /// The turn in which the stacks at all locks are recorded, and after which the simulation
    /// stops.
    pub(crate) looks_at: Option<u64>,
}

impl Settings {
    pub(crate) fn drawn(seed: u64) -> Self {
        let mut random = Seed::from(seed).stream("simulation");
        let switch_ppm = SWITCHES_PPM[below(&mut random, SWITCHES_PPM.len())];
        let limit = Duration::from_secs(3600);
        Self { limit, switch_ppm, records: false, looks_at: None }
    }
}

/// Draws a number below `end`, which is not zero.
fn below(random: &mut Random, end: usize) -> usize {
    // The upper half of the product of two 64-bit numbers fits in 64 bits.
    ((u128::from(random.next_u64()) * end as u128) >> 64) as usize
}

/// The key of a deadline: its time in nanoseconds, and a number that keeps equal ones in order.
type Timer = (u64, u64);

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) group: usize,
    pub(crate) turn: Arc<Turn>,
    phase: Phase,
    /// How its last wait ended.
    pub(crate) wake: Wake,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Runnable,
    Running,
    Waiting { word: usize, timer: Option<Timer> },
    Ended,
}

#[derive(Debug)]
struct Group {
    name: String,
    /// The number that no other group of this program has.
    number: u64,
    is_killed: bool,
    is_paused: bool,
    /// Threads that could run if the group were not paused.
    held: Vec<usize>,
}

/// A thread that exists and may run again.
#[derive(Debug)]
pub(crate) struct Alive {
    /// Its name, and its process.
    pub(crate) name: String,
    /// Its turn, unless it has it.
    pub(crate) turn: Option<Arc<Turn>>,
}

/// The reason why no thread can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hang {
    /// All threads wait, and none has a deadline.
    NoDeadline,
    /// The time of the simulation is over.
    Limit,
    /// The turn has ended after which it was to stop.
    Stop,
}

/// A turn: its thread, its time in nanoseconds, and the locks that threads have taken before.
pub(crate) type Given = (usize, u64, u64);

#[derive(Debug)]
pub(crate) struct State {
    settings: Settings,
    random: Random,
    pub(crate) nanos: u64,
    pub(crate) turns: u64,
    /// How often a thread could have lost its turn.
    passes: u64,
    pub(crate) trace: u64,
    pub(crate) threads: Vec<Thread>,
    groups: Vec<Group>,
    runnable: Vec<usize>,
    timers: BTreeMap<Timer, usize>,
    next_timer: u64,
    /// Threads that wait on a word, the longest first. Only look-ups depend on the addresses.
    queues: BTreeMap<usize, VecDeque<usize>>,
    pub(crate) running: usize,
    pub(crate) failure: Option<String>,
    pub(crate) is_over: bool,
    /// All turns so far, if they are recorded.
    pub(crate) record: Vec<Given>,
    /// The stacks at the locks of one turn.
    pub(crate) stacks: Vec<String>,
}

impl State {
    pub(crate) fn new(seed: u64, settings: Settings) -> Self {
        Self {
            settings,
            random: Seed::from(seed).stream("schedule"),
            nanos: 0,
            turns: 0,
            passes: 0,
            trace: seed,
            threads: Vec::new(),
            groups: Vec::new(),
            runnable: Vec::new(),
            timers: BTreeMap::new(),
            next_timer: 0,
            queues: BTreeMap::new(),
            running: FIRST_THREAD,
            failure: None,
            is_over: false,
            record: Vec::new(),
            stacks: Vec::new(),
        }
    }

    pub(crate) fn add_group(&mut self, name: &str) -> usize {
        let (name, number) = (name.to_owned(), GROUPS.fetch_add(1, Relaxed));
        let group = Group { name, number, is_killed: false, is_paused: false, held: Vec::new() };
        self.groups.push(group);
        self.groups.len() - 1
    }

    pub(crate) fn add_thread(&mut self, name: &str, group: usize) -> usize {
        let number = self.threads.len();
        self.threads.push(Thread {
            name: name.to_owned(),
            group,
            turn: Arc::default(),
            phase: Phase::Runnable,
            wake: Wake::Changed,
        });
        self.make_runnable(number, Wake::Changed);
        number
    }

    /// Returns the number of the group of a thread, which no other one of this program has.
    pub(crate) fn process_of(&self, thread: usize) -> u64 {
        self.groups[self.threads[thread].group].number
    }

    pub(crate) fn has_ended(&self, thread: usize) -> bool {
        self.threads[thread].phase == Phase::Ended
    }

    /// Returns whether a thread exists and may run again.
    fn is_alive(&self, thread: usize) -> bool {
        !self.has_ended(thread) && !self.groups[self.threads[thread].group].is_killed
    }

    /// Ends a thread, which does not run again.
    pub(crate) fn end(&mut self, thread: usize) {
        self.leave(thread);
        self.threads[thread].phase = Phase::Ended;
    }

    /// Has a thread wait on a word.
    pub(crate) fn wait(&mut self, thread: usize, word: usize, deadline: Option<u64>) {
        let timer = deadline.map(|nanos| {
            self.next_timer += 1;
            (nanos, self.next_timer)
        });
        if let Some(timer) = timer {
            self.timers.insert(timer, thread);
        }
        self.queues.entry(word).or_default().push_back(thread);
        self.threads[thread].phase = Phase::Waiting { word, timer };
    }

    /// Wakes at most `count` threads that wait on a word, and returns how many.
    pub(crate) fn wake(&mut self, word: usize, count: u32) -> u32 {
        let mut woken = 0;
        while woken < count
            && let Some(queue) = self.queues.get(&word)
            && let Some(thread) = queue.front().copied()
        {
            self.leave(thread);
            self.make_runnable(thread, Wake::Woken);
            woken += 1;
        }
        woken
    }

    /// Takes a thread out of everything that may give it a turn.
    fn leave(&mut self, thread: usize) {
        if let Phase::Waiting { word, timer } = self.threads[thread].phase {
            if let Some(timer) = timer {
                self.timers.remove(&timer);
            }
            if let Some(queue) = self.queues.get_mut(&word) {
                queue.retain(|other| *other != thread);
                if queue.is_empty() {
                    self.queues.remove(&word);
                }
            }
        }
        self.runnable.retain(|other| *other != thread);
        let group = self.threads[thread].group;
        self.groups[group].held.retain(|other| *other != thread);
    }

    /// Lets a thread run that waits for nothing any more.
    pub(crate) fn make_runnable(&mut self, thread: usize, wake: Wake) {
        let record = &mut self.threads[thread];
        record.phase = Phase::Runnable;
        record.wake = wake;
        let group = &mut self.groups[record.group];
        match (group.is_killed, group.is_paused) {
            (true, _) => {}
            (false, true) => group.held.push(thread),
            (false, false) => self.runnable.push(thread),
        }
    }

    /// Returns whether the stacks at the locks of this turn are recorded.
    pub(crate) fn is_looked_at(&self) -> bool {
        self.settings.looks_at == Some(self.turns)
    }

    /// Draws whether the running thread loses its turn at a lock.
    pub(crate) fn draws_switch(&mut self) -> bool {
        self.passes += 1;
        let ppm = self.settings.switch_ppm as usize;
        ppm > 0 && below(&mut self.random, MILLION as usize) < ppm
    }

    /// Moves the time to the next deadline if no thread can run.
    pub(crate) fn jump_if_idle(&mut self) {
        self.expire();
        if self.runnable.is_empty()
            && let Some((timer, _)) = self.timers.first_key_value()
        {
            self.nanos = self.nanos.max(timer.0);
            self.expire();
        }
    }

    /// Gives the next thread its turn.
    pub(crate) fn choose(&mut self) -> Result<usize, Hang> {
        if self.is_looked_at() {
            return Err(Hang::Stop);
        }
        self.turns += 1;
        self.nanos += TURN.as_nanos() as u64;
        while self.runnable.is_empty() || self.is_due() {
            if self.timers.is_empty() {
                return Err(Hang::NoDeadline);
            }
            self.jump_if_idle();
        }
        if u128::from(self.nanos) > self.settings.limit.as_nanos() {
            return Err(Hang::Limit);
        }
        let index = below(&mut self.random, self.runnable.len());
        let thread = self.runnable.swap_remove(index);
        self.threads[thread].phase = Phase::Running;
        self.running = thread;
        if self.settings.records {
            self.record.push((thread, self.nanos, self.passes));
        }
        self.mix(thread as u64);
        self.mix(self.nanos);
        Ok(thread)
    }

    fn is_due(&self) -> bool {
        self.timers.first_key_value().is_some_and(|(timer, _)| timer.0 <= self.nanos)
    }

    /// Ends the waits whose deadlines have passed.
    fn expire(&mut self) {
        while let Some((timer, thread)) = self.timers.first_key_value()
            && timer.0 <= self.nanos
        {
            let thread = *thread;
            self.leave(thread);
            self.make_runnable(thread, Wake::TimedOut);
        }
    }

    /// Mixes a number into the trace.
    fn mix(&mut self, number: u64) {
        let mixed = (self.trace ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.trace = mixed ^ (mixed >> 29);
    }

    fn members(&self, group: usize) -> Vec<usize> {
        let is_member = |thread: &usize| self.threads[*thread].group == group;
        (0..self.threads.len()).filter(is_member).collect()
    }

    /// Has the threads of a group never run again. Returns whether the running one is among them.
    pub(crate) fn kill(&mut self, group: usize) -> bool {
        for thread in self.members(group) {
            self.leave(thread);
        }
        self.groups[group].is_killed = true;
        self.threads[self.running].group == group
    }

    /// Holds the threads of a group. Returns whether the running one is among them.
    pub(crate) fn pause(&mut self, group: usize) -> bool {
        self.groups[group].is_paused = true;
        let threads = &self.threads;
        let is_member = |thread: &mut usize| threads[*thread].group == group;
        self.groups[group].held.extend(self.runnable.extract_if(.., is_member));
        self.threads[self.running].group == group
    }

    /// Lets the threads of a group run again.
    pub(crate) fn resume(&mut self, group: usize) {
        self.groups[group].is_paused = false;
        let held = std::mem::take(&mut self.groups[group].held);
        self.runnable.extend(held);
    }

    /// Returns the threads that exist and may run again.
    pub(crate) fn alive(&self) -> Vec<Alive> {
        let alive = (0..self.threads.len()).filter(|thread| self.is_alive(*thread));
        let described = alive.map(|number| {
            let thread = &self.threads[number];
            let turn = (number != self.running).then(|| Arc::clone(&thread.turn));
            let name = format!("{} of {}", thread.name, self.groups[thread.group].name);
            Alive { name, turn }
        });
        described.collect()
    }
}
