//! One owner's tasks: submitted, waited for and stopped apart from everyone else's.

use std::sync::Arc;
use std::time::Duration;

use crate::gate::GateId;
use crate::planted::Planted;
use crate::runner::Runner;
use crate::task::{
    Class, GroupId, Job, Next, OnPanic, Periodic, StopToken, Stopped, TaskPanic, Work,
};

/// How long another thread has that is about to queue a task in a hand-cranked pool, and how often
/// that.
const IDLE_LOOK: Duration = Duration::from_millis(10);
const IDLE_LOOKS_MAX: u32 = 200;

/// The tasks of one owner, say a keyspace. The owner calls [`Group::stop`] when it closes.
///
/// Dropping a group stops it too but waits for nothing, because the last owner may be dropped by
/// one of its own tasks.
#[derive(Debug)]
pub struct Group {
    runner: Arc<Runner>,
    id: GroupId,
    token: StopToken,
}

/// Why a wait ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    /// The group was stopped, and all its tasks have ended.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// One of its tasks panicked, perhaps the awaited one.
    #[error(transparent)]
    Panicked(#[from] TaskPanic),
}

impl Group {
    pub(crate) fn new(runner: &Arc<Runner>, name: &str, gate: Option<GateId>) -> Self {
        let (id, token) = runner.state.lock().add_group(name, gate);
        Self { runner: runner.clone(), id, token }
    }

    /// Queues a task. It runs exactly once, also if the group is stopped before it began.
    ///
    /// # Errors
    /// The group or the pool is stopping; the task was dropped.
    pub fn submit(
        &self,
        class: Class,
        name: &'static str,
        work: impl FnOnce(&StopToken) + Send + 'static,
    ) -> Result<(), Stopped> {
        let work = Work::Once(Box::new(work));
        self.runner.submit(Job { group: self.id, class, name, work })
    }

    /// Runs a task again and again, first after `interval`, then `interval` after it last began, or
    /// when it ends if it takes longer. Rounds that were missed are not made up for. If another
    /// periodic task of the pool is due, it may run up to an eighth of `interval` earlier.
    ///
    /// The pool holds `work` until the group is stopped: what it captures should not keep the
    /// group's owner from being dropped.
    ///
    /// # Errors
    /// The group or the pool is stopping; the task was dropped.
    pub fn every(
        &self,
        class: Class,
        name: &'static str,
        interval: Duration,
        mut work: impl FnMut(&StopToken) + Send + 'static,
    ) -> Result<(), Stopped> {
        let work = move |token: &StopToken| {
            work(token);
            Next::AsBefore
        };
        self.repeat(class, name, interval, work)
    }

    /// Does the same for a task of which each round decides when the next one comes: a task that
    /// finds nothing to do comes less often, or ends.
    ///
    /// # Errors
    /// The same.
    pub fn repeat(
        &self,
        class: Class,
        name: &'static str,
        interval: Duration,
        work: impl FnMut(&StopToken) -> Next + Send + 'static,
    ) -> Result<(), Stopped> {
        let work = Work::Periodic(Periodic { interval, work: Box::new(work) });
        self.runner.arm(Job { group: self.id, class, name, work })
    }

    /// Returns the token that this group's tasks are given, for work that runs on their behalf
    /// elsewhere.
    pub fn token(&self) -> StopToken {
        self.token.clone()
    }

    /// How many tasks are queued or running, leaving out periodic ones that wait for their time.
    pub fn unfinished(&self) -> usize {
        self.runner.state.lock().group(self.id).unfinished
    }

    /// From now on `report` is called with each panic of a task of this group, by the thread on
    /// which the task ran, before [`Group::stop`] returns. It should not keep the group's owner
    /// from being dropped.
    pub fn on_panic(&self, report: impl Fn(&TaskPanic) + Send + Sync + 'static) {
        let report = OnPanic(Arc::new(report));
        self.runner.state.lock().group(self.id).on_panic = Some(report);
    }

    /// The first panic of a task of this group, if there ever was one.
    pub fn first_panic(&self) -> Option<TaskPanic> {
        self.runner.state.lock().group(self.id).first_panic.clone()
    }

    /// Has all callers of [`Group::wait_until`] ask again, as the end of a task does. So a long
    /// task can report a part of its work.
    pub fn note_progress(&self) {
        self.runner.state.lock().note_progress();
        self.runner.ended.notify_all();
    }

    /// Blocks until `met` returns true. Asks it immediately, after each task of the pool and after
    /// [`Group::note_progress`].
    ///
    /// This is how a writer waits for room that a flush must make. In a hand-cranked pool it runs
    /// the next tasks itself; in one with threads it must not be called from a task, whose thread
    /// may be the one that is needed.
    ///
    /// # Errors
    /// `met` is false, and either a task of this group has panicked, or the group is stopping and
    /// has no task left.
    ///
    /// # Panics
    /// In a hand-cranked pool, if nothing is queued, due or running on another thread, and for two
    /// seconds no other thread queues anything: the wait would never end.
    pub fn wait_until(&self, mut met: impl FnMut() -> bool) -> Result<(), WaitError> {
        let mut idle_looks = 0;
        loop {
            let seen = self.runner.state.lock().ended();
            // Without the lock: `met` may take locks under which others submit.
            if met() {
                return Ok(());
            }
            let mut state = self.runner.state.lock();
            let seen = sync::mutant!(Planted::EndedUnseen, seen, state.ended());
            let group = state.group(self.id);
            if let Some(panic) = &group.first_panic {
                return Err(panic.clone().into());
            }
            if group.token.is_stopping() && group.unfinished == 0 {
                return Err(Stopped.into());
            }
            if state.ended() != seen {
                continue;
            }
            if self.runner.picker.is_some() {
                drop(state);
                if self.runner.crank().is_some() {
                    continue;
                }
                state = self.runner.state.lock();
                if state.ended() != seen || state.ready_count() > 0 {
                    continue;
                }
                let elsewhere = state.running() > self.runner.depth();
                // Shuttle has no such time, and reports a wait without end by itself.
                if !elsewhere && !cfg!(shuttle) {
                    assert!(idle_looks < IDLE_LOOKS_MAX, "a wait for which no task is left to run");
                    idle_looks += 1;
                    self.runner.ended.wait_for(&mut state, IDLE_LOOK);
                    continue;
                }
            }
            self.runner.ended.wait(&mut state);
        }
    }

    /// Stops the group. It accepts no more tasks, notifies the running ones by their token, runs
    /// the queued ones (helping on the calling thread), and returns when all have ended and the
    /// values they had captured are dropped. Returns the panics that have not been reported yet.
    /// Stopping again does no harm.
    ///
    /// # Panics
    /// If called from a task of this group, which would wait for itself.
    #[must_use = "a task that panicked has left its work undone"]
    pub fn stop(&self) -> Vec<TaskPanic> {
        assert!(!self.runner.is_within(self.id), "a task cannot stop its own group");
        let periodic = self.runner.state.lock().stop_group(self.id);
        self.runner.discard(periodic);
        self.runner.drain_group(self.id);
        self.runner.ended.notify_all();
        std::mem::take(&mut self.runner.state.lock().group(self.id).panics)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let periodic = self.runner.state.lock().stop_group(self.id);
        self.runner.discard(periodic);
        self.runner.state.lock().drop_handle(self.id);
    }
}
