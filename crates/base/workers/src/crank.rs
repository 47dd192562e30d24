//! The hand-cranked pool's handle: runs a task only on request, in an order that a seed decides.

use std::sync::Arc;

use environment::{Monotonic, Random};
use rand::RngExt;

use crate::runner::Runner;
use crate::schedule::Schedule;
use crate::task::Job;

/// How a hand-cranked pool picks the next task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As one worker's thread would: by class, then by age.
    InOrder,
    /// Any queued task with equal chance, as the environment's seed decides. Classes say which task
    /// should run first, not which will have ended, so any order may happen.
    Random,
}

/// A task that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Its group's name.
    pub group: String,
    /// Its own.
    pub task: &'static str,
}

#[derive(Debug)]
pub(crate) struct Picker {
    order: Order,
    random: Random,
}

impl Picker {
    pub(crate) fn new(order: Order, random: Random) -> Self {
        Self { order, random }
    }

    fn pick(&mut self, schedule: &mut Schedule) -> Option<Job> {
        match (self.order, schedule.ready_count()) {
            (_, 0) => None,
            (Order::InOrder, _) => schedule.take_next(),
            (Order::Random, count) => {
                let index = self.random.random_range(0..count);
                schedule.take_nth(index)
            }
        }
    }
}

impl Runner {
    /// Runs one task on the calling thread, if the pool is hand-cranked and one is ready.
    pub(crate) fn crank(&self) -> Option<Ran> {
        let picker = self.picker.as_ref()?;
        let mut state = self.state.lock();
        state.promote(self.env.now());
        let job = picker.lock().pick(&mut state)?;
        let ran = Ran { group: state.group(job.group).name.clone(), task: job.name };
        drop(state);
        self.run(job);
        Some(ran)
    }
}

/// Drives a pool that has no threads. Tasks run on the thread that calls, or that waits for them by
/// [`crate::Group::wait_until`], one at a time on each.
///
/// The same seed, the same submissions and the same calls give the same schedule.
#[derive(Clone, Debug)]
pub struct HandCranked(pub(crate) Arc<Runner>);

impl HandCranked {
    /// Runs one task that is queued or due, and says which; `None` if there is none.
    pub fn run_one(&self) -> Option<Ran> {
        self.0.crank()
    }

    /// Runs tasks, also the tasks that these submit, until none is ready. Returns their number.
    pub fn run_all(&self) -> usize {
        std::iter::from_fn(|| self.run_one()).count()
    }

    /// How many tasks are queued or due.
    pub fn ready(&self) -> usize {
        let mut state = self.0.state.lock();
        state.promote(self.0.env.now());
        state.ready_count()
    }

    /// When the next periodic task is due, to move the clock there.
    pub fn next_due(&self) -> Option<Monotonic> {
        self.0.state.lock().next_due()
    }
}
