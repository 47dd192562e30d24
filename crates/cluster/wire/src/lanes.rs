//! Threads that do jobs, those of one lane in order.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use environment::{Environment, JoinHandle};
use sync::locks::{Condvar, Mutex};

/// A job.
type Job = Box<dyn FnOnce() + Send>;

/// Threads that do jobs. Each lane does its jobs in the order in which they were added, one at a
/// time. Lanes do not wait for each other.
pub struct Lanes<K> {
    shared: Arc<Shared<K>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared<K> {
    state: Mutex<State<K>>,
    has_work: Condvar,
}

struct State<K> {
    /// The lanes that have a job, or a thread. A lane is in `ready` exactly if it has a job and no
    /// thread.
    lanes: BTreeMap<K, VecDeque<Job>>,
    ready: VecDeque<Ready<K>>,
    is_stopped: bool,
}

enum Ready<K> {
    Lane(K),
    Job(Job),
}

impl<K: Ord + Clone + Send + 'static> Lanes<K> {
    /// Starts threads.
    ///
    /// # Errors
    /// The operating system has no thread.
    pub fn new(name: &str, threads: usize, environment: &Environment) -> io::Result<Self> {
        let state = State { lanes: BTreeMap::new(), ready: VecDeque::new(), is_stopped: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), has_work: Condvar::new() });
        let lanes = Self { shared, threads: Mutex::default() };
        for _ in 0..threads {
            let shared = Arc::clone(&lanes.shared);
            let thread = environment.spawn(name, move || shared.work())?;
            lanes.threads.lock().push(thread);
        }
        Ok(lanes)
    }

    /// Adds a job to a lane, or to none: then its order does not matter. After a stop the job is
    /// dropped.
    pub fn add(&self, lane: Option<K>, job: impl FnOnce() + Send + 'static) {
        let job: Job = Box::new(job);
        let mut state = self.shared.state.lock();
        if state.is_stopped {
            // Its destructor may take locks.
            drop(state);
            return drop(job);
        }
        match lane {
            None => state.ready.push_back(Ready::Job(job)),
            Some(key) => match state.lanes.get_mut(&key) {
                Some(lane) => {
                    lane.push_back(job);
                    return;
                }
                None => {
                    state.lanes.insert(key.clone(), VecDeque::from([job]));
                    state.ready.push_back(Ready::Lane(key));
                }
            },
        }
        drop(state);
        self.shared.has_work.notify_one();
    }
}

impl<K> Lanes<K> {
    /// Drops the jobs that have not begun, and waits for the end of the others.
    pub fn stop(&self) {
        let (lanes, ready) = {
            let mut state = self.shared.state.lock();
            state.is_stopped = true;
            (std::mem::take(&mut state.lanes), std::mem::take(&mut state.ready))
        };
        self.shared.has_work.notify_all();
        drop((lanes, ready));
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            let _ended = thread.join();
        }
    }
}

impl<K: Ord + Clone> Shared<K> {
    fn work(&self) {
        while let Some((lane, job)) = self.next() {
            // The lane and the thread outlive a job that panics.
            let _ended = catch_unwind(AssertUnwindSafe(job));
            if let Some(lane) = lane {
                self.leave(lane);
            }
        }
    }

    /// Waits for a job, and returns it with its lane.
    fn next(&self) -> Option<(Option<K>, Job)> {
        let mut state = self.state.lock();
        loop {
            if state.is_stopped {
                return None;
            }
            match state.ready.pop_front() {
                Some(Ready::Job(job)) => return Some((None, job)),
                Some(Ready::Lane(key)) => {
                    let job = state.lanes.get_mut(&key).and_then(VecDeque::pop_front);
                    if let Some(job) = job {
                        return Some((Some(key), job));
                    }
                }
                None => self.has_work.wait(&mut state),
            }
        }
    }

    /// Ends the turn of a lane.
    fn leave(&self, key: K) {
        let mut state = self.state.lock();
        match state.lanes.get(&key).map(VecDeque::is_empty) {
            Some(true) => _ = state.lanes.remove(&key),
            Some(false) => {
                state.ready.push_back(Ready::Lane(key));
                drop(state);
                self.has_work.notify_one();
            }
            None => {}
        }
    }
}

/// Waits for the jobs that have begun.
impl<K> Drop for Lanes<K> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<K> fmt::Debug for Lanes<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lanes").finish_non_exhaustive()
    }
}
