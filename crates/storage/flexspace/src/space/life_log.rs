//! The log of the life of an opening.

use sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use sync::{Mutex, MutexGuard};

use crate::log::{LogWriter, Replayed};

/// The log of this opening's life, which begins with the first change.
#[derive(Debug)]
pub(super) struct LifeLog {
    /// The end of the log: one commit at a time. `None` until the life of this opening has begun.
    writer: Mutex<Option<LogWriter>>,
    has_begun: AtomicBool,
    /// The result of the opening's replay.
    replayed: Replayed,
}

impl LifeLog {
    /// Returns the log of a life that has not begun.
    pub(super) fn new(replayed: Replayed) -> Self {
        Self { writer: Mutex::new(None), has_begun: AtomicBool::new(false), replayed }
    }

    /// Waits for the commit that is under way.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<LogWriter>> {
        self.writer.lock()
    }

    /// Returns `None` if a thread has the end of the log.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Option<LogWriter>>> {
        self.writer.try_lock()
    }

    /// Returns whether the life has begun, without the lock.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun.load(Acquire)
    }

    /// Begins the life with its log, whose end the caller has locked (L2).
    pub(super) fn begin(&self, locked: &mut Option<LogWriter>, begun: LogWriter) {
        *locked = Some(begun);
        self.has_begun.store(true, Release);
    }

    /// Returns how many records the opening has replayed.
    pub(super) fn replayed_records(&self) -> u64 {
        self.replayed.records
    }
}
