//! The pool: threads (or a crank) and one schedule for all groups.

use std::io;
use std::sync::Arc;

use environment::{Environment, JoinHandle};
use telemetry::Registry;

use crate::crank::{HandCranked, Order, Picker};
use crate::gate::{Gate, GateId};
use crate::group::Group;
use crate::locks::Mutex;
use crate::runner::Runner;
use crate::task::TaskPanic;

/// A pool of threads for background work. Cheap to clone; one pool serves a whole database.
///
/// The owner that starts it calls [`Pool::stop`]; if it does not, the last handle that is dropped
/// stops the pool and waits, except on one of its own threads.
#[derive(Clone, Debug)]
pub struct Pool {
    owner: Arc<Owner>,
    /// The gate behind which this handle makes groups.
    gate: Option<GateId>,
}

#[derive(Debug)]
struct Owner {
    runner: Arc<Runner>,
    /// Held while they are joined, so that a second `stop` waits as well.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Pool {
    /// Starts a pool with this many threads (at least one).
    ///
    /// It registers `worker_tasks_total`, `worker_task_seconds`, `worker_tasks_queued` and
    /// `worker_task_panics_total`.
    ///
    /// # Errors
    /// The operating system refuses a thread. Threads that had started are stopped.
    pub fn start(env: &Environment, threads: usize, registry: &Registry) -> io::Result<Self> {
        let threads = threads.max(1);
        let runner = Runner::new(env, (threads - 1).max(1), None, registry);
        let owner = Arc::new(Owner { runner, threads: Mutex::default() });
        let pool = Self { owner, gate: None };
        for number in 0..threads {
            let runner = pool.owner.runner.clone();
            let work = move || {
                telemetry::note_background_thread();
                runner.work_until_stopped();
            };
            pool.owner.threads.lock().push(env.spawn(&format!("worker-{number}"), work)?);
        }
        Ok(pool)
    }

    /// A pool without threads, and the crank that drives it.
    pub fn hand_cranked(
        env: &Environment,
        registry: &Registry,
        order: Order,
    ) -> (Self, HandCranked) {
        let picker = Picker::new(order, env.random("workers"));
        let runner = Runner::new(env, usize::MAX, Some(picker), registry);
        let owner = Owner { runner: runner.clone(), threads: Mutex::default() };
        (Self { owner: Arc::new(owner), gate: None }, HandCranked(runner))
    }

    /// A group of tasks with one owner. `name` appears in reports of panics.
    pub fn group(&self, name: &str) -> Group {
        Group::new(&self.owner.runner, name, self.gate)
    }

    /// A handle to this pool whose groups are behind a gate: their periodic tasks do not run before
    /// it is opened. Their one-time tasks do.
    pub fn behind_gate(&self) -> (Self, Gate) {
        let (id, gate) = Gate::closed(&self.owner.runner);
        (Self { owner: Arc::clone(&self.owner), gate: Some(id) }, gate)
    }

    /// Stops all groups: accepts no more tasks, notifies the running ones by their tokens, runs the
    /// queued ones, and returns when all have ended and the threads are joined. Returns the panics
    /// that were reported to no group's owner. Stopping again does no harm.
    ///
    /// # Panics
    /// If called from a task, which would wait for itself.
    #[must_use = "a task that panicked has left its work undone"]
    pub fn stop(&self) -> Vec<TaskPanic> {
        assert!(self.owner.runner.depth() == 0, "a task cannot stop its pool");
        self.owner.stop()
    }
}

impl Owner {
    fn stop(&self) -> Vec<TaskPanic> {
        let periodic = self.runner.state.lock().stop_all();
        self.runner.discard(periodic);
        self.runner.work.notify_all();
        while self.runner.crank().is_some() {}
        for thread in self.threads.lock().drain(..) {
            // Tasks cannot unwind a worker's thread, so a panic there is a fault in this crate.
            thread.join().expect("a worker's thread ends by itself");
        }
        // Threads that stop a group help on their own threads.
        self.runner.wait_for_end();
        self.runner.ended.notify_all();
        self.runner.state.lock().take_panics()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.runner.depth() > 0 {
            // On a thread that would have to wait for itself. The workers end on their own.
            let periodic = self.runner.state.lock().stop_all();
            self.runner.discard(periodic);
            self.runner.work.notify_all();
        } else {
            // An owner that wants to know of panics calls `stop`; the panic hook has shown them.
            let _ = self.stop();
        }
    }
}
