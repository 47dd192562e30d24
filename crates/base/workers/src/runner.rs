//! Runs the tasks of a schedule, on any thread that drives it.
//!
//! # Concurrency
//! `state` is the one mutex. `work` is signalled when a task is queued or may be taken, `ended`
//! when one has ended. Neither tasks nor destructors of tasks run under the mutex.

use std::cell::RefCell;
use std::sync::Arc;

use environment::{Environment, Wake};
use telemetry::{Counter, Gauge, Histogram, Registry, Unit};

use crate::crank::Picker;
use crate::locks::{Condvar, Mutex, MutexGuard, thread_local};
use crate::schedule::Schedule;
use crate::task::{Class, GroupId, Job, OnPanic, Stopped, Work, contain};

thread_local! {
    /// The owners of the tasks that run on this thread, outermost first: the pool (by its address)
    /// and the group.
    static RUNNING: RefCell<Vec<(usize, GroupId)>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) env: Environment,
    pub(crate) state: Mutex<Schedule>,
    pub(crate) work: Condvar,
    pub(crate) ended: Condvar,
    /// How the next task is picked if the pool is cranked by hand.
    pub(crate) picker: Option<Mutex<Picker>>,
    metrics: Metrics,
}

#[derive(Debug)]
struct Metrics {
    tasks: [Counter; Class::ALL.len()],
    seconds: [Histogram; Class::ALL.len()],
    queued: Gauge,
    panics: Counter,
}

impl Runner {
    pub(crate) fn new(
        env: &Environment,
        lower_running_max: usize,
        picker: Option<Picker>,
        registry: &Registry,
    ) -> Arc<Self> {
        let by_class = |class: Class| registry.with_labels(&[("class", class.name())]);
        let metrics = Metrics {
            tasks: Class::ALL.map(|class| {
                by_class(class).counter("worker_tasks_total", "Background tasks that have ended.")
            }),
            seconds: Class::ALL.map(|class| {
                let help = "How long background tasks ran.";
                by_class(class).histogram("worker_task_seconds", help, Unit::Seconds)
            }),
            queued: registry.gauge("worker_tasks_queued", "Background tasks that wait to run."),
            panics: registry.counter("worker_task_panics_total", "Background tasks that panicked."),
        };
        let runner = Arc::new(Self {
            env: env.clone(),
            state: Mutex::new(Schedule::new(lower_running_max)),
            work: Condvar::new(),
            ended: Condvar::new(),
            picker: picker.map(Mutex::new),
            metrics,
        });
        let weak = Arc::downgrade(&runner);
        env.on_clock_move(weak);
        runner
    }

    pub(crate) fn submit(&self, job: Job) -> Result<(), Stopped> {
        let mut state = self.state.lock();
        let queued = state.submit(job);
        drop(state);
        queued.map_err(|(stopped, _job)| stopped)?;
        self.metrics.queued.add(1);
        self.work.notify_one();
        if self.picker.is_some() {
            // A thread that waits there may be the one that runs it.
            self.ended.notify_all();
        }
        Ok(())
    }

    pub(crate) fn arm(&self, job: Job) -> Result<(), Stopped> {
        let Work::Periodic(periodic) = &job.work else { unreachable!("only periodic tasks wait") };
        let due = self.env.now() + periodic.interval;
        let armed = self.state.lock().arm(due, job);
        // All of them must look at the timers again: the one that is woken for the next task may
        // be the only one that knows of this time.
        self.work.notify_all();
        armed.map_err(|(stopped, _job)| stopped)
    }

    /// Runs a task that was taken from the schedule.
    pub(crate) fn run(&self, job: Job) {
        let Job { group, class, name, work } = job;
        let one_time = !work.is_periodic();
        if one_time {
            self.metrics.queued.add(-1);
        }
        let token = self.state.lock().group(group).token.clone();
        let started = self.env.now();
        RUNNING.with(|running| running.borrow_mut().push((self.address(), group)));
        let outcome = work.run(&token);
        RUNNING.with(|running| running.borrow_mut().pop());
        self.metrics.tasks[class as usize].increment();
        self.metrics.seconds[class as usize].record_duration(self.env.now() - started);

        let (again, panic) = match outcome {
            Ok(again) => (again, None),
            Err(message) => (None, Some(message)),
        };
        let mut state = self.state.lock();
        if let Some(message) = panic {
            self.record_panic(&mut state, group, name, message);
        }
        if let Some(periodic) = again {
            let due = started + periodic.interval;
            let due = due.max(self.env.now());
            let job = Job { group, class, name, work: Work::Periodic(periodic) };
            if let Err((_, job)) = state.arm(due, job) {
                // Dropped before the group's `stop` returns, so not after `finished`.
                let dropped = MutexGuard::unlocked(&mut state, || contain(|| drop(job)));
                if let Err(message) = dropped {
                    self.record_panic(&mut state, group, name, message);
                }
            }
        }
        state.finished(group, class);
        drop(state);
        // All of them: a thread may have been refused a lower class, wait to see the end, or not
        // know of the time at which this task is due again.
        self.work.notify_all();
        self.ended.notify_all();
    }

    fn record_panic(
        &self,
        state: &mut MutexGuard<'_, Schedule>,
        id: GroupId,
        task: &'static str,
        text: String,
    ) {
        self.metrics.panics.increment();
        if let Some((OnPanic(told), panic)) = state.panicked(id, task, text) {
            // Not under the mutex, and before the group's `stop` returns. A panic of the callback
            // itself is dropped.
            let _: Result<(), String> = MutexGuard::unlocked(state, || contain(|| told(&panic)));
        }
    }

    /// Drops periodic tasks that will not run again.
    pub(crate) fn discard(&self, jobs: Vec<Job>) {
        for job in jobs {
            let (group, name) = (job.group, job.name);
            if let Err(message) = contain(|| drop(job)) {
                self.record_panic(&mut self.state.lock(), group, name, message);
            }
        }
    }

    /// Runs or waits out everything of one group, which is stopping.
    pub(crate) fn drain_group(&self, id: GroupId) {
        let mut state = self.state.lock();
        while state.group(id).unfinished > 0 {
            if let Some(job) = state.take_of(id) {
                MutexGuard::unlocked(&mut state, || self.run(job));
            } else {
                self.ended.wait(&mut state);
            }
        }
    }

    /// Runs tasks on a worker's thread until the pool is stopping and nothing is queued.
    pub(crate) fn work_until_stopped(&self) {
        let mut state = self.state.lock();
        loop {
            state.promote(self.env.now());
            if let Some(job) = state.take_next() {
                MutexGuard::unlocked(&mut state, || self.run(job));
            } else if state.stopping() && state.ready_count() == 0 {
                return;
            } else if let Some(due) = state.next_due() {
                // Under a clock that is moved by hand this may wake early, which does no harm, and
                // `wake` ensures that it does not wake late.
                self.work.wait_for(&mut state, due - self.env.now());
            } else {
                self.work.wait(&mut state);
            }
        }
    }

    /// Waits out everything that is queued or running anywhere, once nothing more is accepted.
    pub(crate) fn wait_for_end(&self) {
        let mut state = self.state.lock();
        while state.ready_count() + state.running() > 0 {
            self.ended.wait(&mut state);
        }
    }

    /// Whether the calling thread runs a task of this group.
    pub(crate) fn is_within(&self, group: GroupId) -> bool {
        RUNNING.with(|running| running.borrow().contains(&(self.address(), group)))
    }

    /// How many tasks of this pool the calling thread is in the middle of.
    pub(crate) fn depth(&self) -> usize {
        let pool = self.address();
        RUNNING.with(|running| running.borrow().iter().filter(|(of, _)| *of == pool).count())
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl Wake for Runner {
    fn wake(&self) {
        // Under the mutex, or a worker that has just looked at the clock would miss it.
        let _state = self.state.lock();
        self.work.notify_all();
    }
}
