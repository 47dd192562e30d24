//! Whether the database takes calls: it may be closed, have failed, or be a forked child's copy.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use device::{File, Process};
use sync::locks::Mutex;

use crate::close::Closing;
use crate::error::{Error, Result};

/// The reasons for which the database refuses calls, or writes alone, and the lock that it has on
/// its directory until it is closed.
pub(crate) struct Lifecycle {
    /// The process that opened it.
    process: Process,
    /// The first failure of a write or a sync, as later writes report it.
    failure: OnceLock<Error>,
    /// Set before a close waits for anything.
    is_closing: AtomicBool,
    closed: AtomicBool,
    /// How the close ended.
    pub(crate) closing: Closing,
    /// The lock on the directory, until it is closed.
    directory_lock: Mutex<Option<Arc<dyn File>>>,
}

impl Lifecycle {
    /// Returns that of a database that this process opens now. `failure` is set if it takes no
    /// writes.
    pub(crate) fn new(failure: OnceLock<Error>, directory_lock: Option<Arc<dyn File>>) -> Self {
        Self {
            process: Process::current(),
            failure,
            is_closing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            closing: Closing::default(),
            directory_lock: Mutex::new(directory_lock),
        }
    }

    /// Refuses once the database is closed or a write failed.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        match self.failure.get() {
            Some(cause) => Err(cause.clone()),
            None => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_process()?;
        if self.closed.load(Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Refuses in another process than the one that opened the database, before anything is locked
    /// or waited for. Costs one relaxed load.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.process.is_current() { Ok(()) } else { Err(self.forked()) }
    }

    /// Returns the error of a call in a child. Closes the child's copy of the directory's lock, so
    /// that only the parent keeps it.
    #[cold]
    fn forked(&self) -> Error {
        // Another thread of the parent may have held this lock at the fork.
        if let Some(mut lock) = self.directory_lock.try_lock() {
            drop(lock.take());
        }
        self.process.forked().into()
    }

    /// Refuses as soon as a thread begins to close the database, so that it need not wait for long
    /// work.
    pub(crate) fn check_staying_open(&self) -> Result<()> {
        if self.is_closing.load(Relaxed) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Returns the failure for which writes are refused, if they are.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Stops all later writes, unless the failed work may be tried again, and returns `error` for
    /// this one.
    pub(crate) fn fail(&self, error: Error) -> Error {
        if error.is_temporary_refusal() { error } else { self.fail_for_good(error) }
    }

    /// Stops all later writes, whatever the error: some work was only half done.
    pub(crate) fn fail_for_good(&self, error: Error) -> Error {
        // Closing is no failure of the storage, and the first cause is the one to report.
        if error != Error::Closed {
            let _ = self.failure.set(error.poisoning());
        }
        error
    }

    /// Breaks off long work, for a thread that is about to close the database.
    pub(crate) fn begin_close(&self) {
        self.is_closing.store(true, Relaxed);
    }

    /// Refuses every later call. Returns whether an earlier close has done so.
    pub(crate) fn set_closed(&self) -> bool {
        self.closed.swap(true, Relaxed)
    }

    /// Lets other processes open the directory.
    pub(crate) fn unlock_directory(&self) {
        drop(self.directory_lock.lock().take());
    }
}
