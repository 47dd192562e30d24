//! Replies that wait for the acknowledgement of writes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use environment::{Environment, JoinHandle};
use sync::{Condvar, Mutex};
use thermocline::{Db, Durability, SeqNo};

use crate::error::{Error, Result};

/// Replies that may wait. A range with more of them takes no further write.
const WAITING_MAX: usize = 8192;

/// The reaction to the end of a wait: whether the writes were acknowledged.
type OnEnd = Box<dyn FnOnce(bool) + Send>;

/// The replies of one range that wait. A thread waits for the log, for all of them together.
pub(crate) struct Acks {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    db: Db,
    state: Mutex<State>,
    has_work: Condvar,
    /// The last write that is known to be acknowledged.
    acknowledged: AtomicU64,
    is_lost: AtomicBool,
}

#[derive(Default)]
struct State {
    waiting: Vec<(SeqNo, OnEnd)>,
    is_stopped: bool,
}

impl Acks {
    /// Starts the thread.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub(crate) fn new(db: Db, environment: &Environment) -> Result<Self> {
        let shared = Arc::new(Shared {
            db,
            state: Mutex::default(),
            has_work: Condvar::new(),
            acknowledged: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let thread = environment.spawn("ltc acks", move || of_thread.work());
        let thread = thread.map_err(|error| Error::Thread(error.to_string()))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Calls `on_end` when all writes so far are acknowledged, or never will be.
    pub(crate) fn when_acknowledged(&self, on_end: impl FnOnce(bool) + Send + 'static) {
        let last = self.shared.db.last();
        if last.get() <= self.shared.acknowledged.load(SeqCst) {
            return on_end(true);
        }
        let mut state = self.shared.state.lock();
        if state.is_stopped {
            drop(state);
            return on_end(false);
        }
        state.waiting.push((last, Box::new(on_end)));
        drop(state);
        self.shared.has_work.notify_one();
    }

    /// Returns the number of replies that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.shared.state.lock().waiting.len()
    }

    /// Returns whether too many replies wait.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting() >= WAITING_MAX
    }

    /// Returns whether a write was not acknowledged: the range has another owner, or its log was
    /// closed.
    pub(crate) fn is_lost(&self) -> bool {
        self.shared.is_lost.load(SeqCst)
    }

    /// Ends the thread, after the replies that wait.
    pub(crate) fn stop(&self) {
        self.shared.state.lock().is_stopped = true;
        self.shared.has_work.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let waiting = {
                let mut state = self.state.lock();
                while state.waiting.is_empty() && !state.is_stopped {
                    self.has_work.wait(&mut state);
                }
                std::mem::take(&mut state.waiting)
            };
            let Some(last) = waiting.iter().map(|(seqno, _)| *seqno).max() else { return };
            let is_acknowledged = self.db.wait(last, Durability::Flushed).is_ok();
            match is_acknowledged {
                true => _ = self.acknowledged.fetch_max(last.get(), SeqCst),
                false => self.is_lost.store(true, SeqCst),
            }
            waiting.into_iter().for_each(|(_, on_end)| on_end(is_acknowledged));
        }
    }
}

impl Drop for Acks {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Acks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acks").field("is_lost", &self.is_lost()).finish_non_exhaustive()
    }
}
