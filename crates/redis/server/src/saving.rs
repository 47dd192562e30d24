//! When everything was last made durable, and backups on a thread of their own.
//!
//! A server that was given a directory for it makes a backup when Redis would write its dump: one
//! at a time, by a thread that ends with it. The server's end waits for it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use thermocline::SeqNo;
use thermocline::environment::{Environment, JoinHandle};
use thermocline::sync::locks::Mutex;

use crate::store::Durable;

/// The state of SAVE and BGSAVE: the last one, and the one under way.
#[derive(Debug)]
pub(crate) struct Saving {
    /// Wall seconds of the last time that one of them succeeded.
    last_s: AtomicU64,
    /// Number of the last write that was made then.
    last_write: AtomicU64,
    is_running: AtomicBool,
    has_failed: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Saving {
    /// Nothing was saved since the start, when `last` was the last write.
    pub(crate) fn new(environment: &Environment, last: SeqNo) -> Self {
        Self {
            last_s: AtomicU64::new(environment.wall().as_secs()),
            last_write: AtomicU64::new(last.get()),
            is_running: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            thread: Mutex::default(),
        }
    }

    /// Notes that every write up to `last` was saved now.
    pub(crate) fn note(&self, environment: &Environment, last: SeqNo) {
        self.last_s.store(environment.wall().as_secs(), Relaxed);
        self.last_write.fetch_max(last.get(), Relaxed);
    }

    /// Returns how many writes were made after the last one that was saved, if `last` is the last
    /// of all.
    pub(crate) fn writes_since(&self, last: SeqNo) -> u64 {
        last.get().saturating_sub(self.last_write.load(Relaxed))
    }

    /// Wall seconds of the last time.
    pub(crate) fn last_s(&self) -> u64 {
        self.last_s.load(Relaxed)
    }

    /// Whether a backup is being made.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(SeqCst)
    }

    /// Notes whether a BGSAVE that is no backup succeeded.
    pub(crate) fn note_outcome(&self, is_ok: bool) {
        self.has_failed.store(!is_ok, SeqCst);
    }

    /// Whether the last BGSAVE failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(SeqCst)
    }

    /// Begins a backup; `false` while one is being made.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub(crate) fn begin(
        self: &Arc<Self>,
        store: &Arc<dyn Durable>,
        environment: &Environment,
        into: PathBuf,
    ) -> io::Result<bool> {
        let mut thread = self.thread.lock();
        if self.is_running.swap(true, SeqCst) {
            return Ok(false);
        }
        let (saving, store, clock) = (Arc::clone(self), Arc::clone(store), environment.clone());
        let spawned = environment.spawn("backup", move || {
            let running = Running(&saving);
            // Set before it is over, so that no reader sees neither.
            running.0.has_failed.store(true, SeqCst);
            let last = store.last();
            match store.backup(&into) {
                Ok(()) => {
                    running.0.note(&clock, last);
                    running.0.has_failed.store(false, SeqCst);
                }
                Err(error) => eprintln!("thermocline: backup to {}: {error}", into.display()),
            }
        });
        match spawned {
            Ok(spawned) => {
                // The one before has ended, or it would be running.
                *thread = Some(spawned);
                Ok(true)
            }
            Err(error) => {
                self.is_running.store(false, SeqCst);
                Err(error)
            }
        }
    }

    /// Waits for the backup that is being made.
    pub(crate) fn wait(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // One that panicked is seen by its failure.
            let _ = thread.join();
        }
    }
}

/// Says that it is over when it goes, by a panic too.
struct Running<'a>(&'a Saving);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.is_running.store(false, SeqCst);
    }
}
