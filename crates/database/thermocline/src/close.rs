//! Closing a database: the first caller does it, and later callers wait for that one.
//!
//! 1. The first caller locks the catalog and all keys, and marks the database as closed. So
//!    operations that held one of these locks have ended, and later ones are refused.
//! 2. With both unlocked it ends the threads that write for futures, the background work, each
//!    engine with the thread that reads for futures from it, and the journal, and unlocks the
//!    directory.
//! 3. A later caller waits until the close has ended, and returns its outcome.
//!
//! # Invariants
//! - Z1. Step 2 waits for threads that wake futures, and a waker may do anything: also lock the
//!   catalog or a key. So neither is locked then, and a thread that locks one finds the database
//!   closed.
//! - Z2. No thread that wakes futures waits in 3: the thread that closes may be waiting for it.

#[cfg(test)]
mod tests;

use std::cell::Cell;

use sync::locks::{Condvar, Mutex};

use crate::database::{Db, Inner};
use crate::directory::leave_closed_mark;
use crate::error::{Error, Result};
use crate::read_only::Access;

thread_local! {
    static WAKES_FUTURES: Cell<bool> = const { Cell::new(false) };
}

/// Notes that from now on this thread, one of a database, wakes futures [Z2].
pub(crate) fn begin_to_wake() {
    WAKES_FUTURES.set(true);
}

/// How a close ended, once it has.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    outcome: Mutex<Option<Result<()>>>,
    ended: Condvar,
}

impl Closing {
    /// Step 3.
    fn wait(&self) -> Result<()> {
        let mut outcome = self.outcome.lock();
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                // [Z2]
                None if WAKES_FUTURES.get() => return Err(Error::Closed),
                None => self.ended.wait(&mut outcome),
            }
        }
    }
}

/// A guard that notifies the waiting threads when a close has ended, also if it ends by a panic.
struct Ending<'a> {
    closing: &'a Closing,
    outcome: Result<()>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.closing.outcome.lock() = Some(self.outcome.clone());
        self.closing.ended.notify_all();
    }
}

impl Db {
    /// Stops background work, makes every acknowledged write durable and closes the files. Every
    /// other handle gets [`Error::Closed`] from then on. Closing twice is no error.
    ///
    /// A backup or a checkpoint that is under way is broken off. Costs a few syncs. If keyspaces
    /// need more than 4 MiB of the journal, it also flushes each one whose flush writes only new
    /// data, and each one in memory whose data is smaller than the journal. So the next opening has
    /// little to apply. If more than 32 short openings have each left a little journal, it flushes
    /// every keyspace, so that they do not pile up.
    ///
    /// # Errors
    /// [`Error::Forked`] in another process, and nothing has changed. The last sync failed; the
    /// data that it covered may be lost in a power cut. [`Error::Closed`] to a waker that closes
    /// the database on a thread which wakes futures, while another thread closes it. That thread
    /// may wait for this one, so the waker does not wait for the end.
    pub fn close(&self) -> Result<()> {
        self.inner.close()
    }
}

impl Inner {
    pub(crate) fn close(&self) -> Result<()> {
        self.lifecycle.check_process()?;
        self.lifecycle.begin_close();
        let catalog = self.keyspaces.catalog.lock();
        // Key locks, so that no write is between its journaling and its application.
        let held = self.locks.all();
        let was_closed = self.lifecycle.set_closed();
        drop((held, catalog));
        if was_closed {
            return self.lifecycle.closing.wait();
        }
        let mut ending = Ending { closing: &self.lifecycle.closing, outcome: Err(Error::Closed) };
        ending.outcome = self.end();
        ending.outcome.clone()
    }

    /// Step 2.
    fn end(&self) -> Result<()> {
        // First, since their writes may wait for tasks of the pool.
        self.stop_writers();
        let mut outcome = self.background.stop();
        if self.lifecycle.failure().is_none() {
            outcome = outcome.and(self.trim_journal_at_close());
        }
        // To the end: a thread that would trim the journal now finds no keyspace that needs it, and
        // must find it closed.
        let _untrimmed = self.upkeep.trim_holds.hold();
        let entries = std::mem::take(&mut *self.keyspaces.entries.write());
        let mut is_durable =
            self.directory.access == Access::Write && self.lifecycle.failure().is_none();
        for entry in entries.values() {
            let instance = entry.last_instance();
            // The mark of this close says that all of them are durable.
            is_durable = is_durable && entry.damage.is_none() && instance.make_durable();
            // Data that no journal holds is lost unless the engine's own files have it.
            if !instance.journaled && self.directory.access == Access::Write {
                let flushed = match self.lifecycle.failure() {
                    Some(failure) => Err(failure.clone()),
                    None => instance.engine.flush().map_err(Error::from),
                };
                outcome = outcome.and(flushed);
            }
            outcome = outcome.and(instance.engine.close().map_err(Error::from));
            instance.async_reader.stop();
        }
        let closed = match self.factory.barrier.room() {
            Some(room) => room.close(&self.journal),
            None => self.journal.close().map_err(Error::from),
        };
        outcome = outcome.and(closed);
        if outcome.is_ok() && is_durable {
            leave_closed_mark(&*self.directory.device);
        }
        self.lifecycle.unlock_directory();
        outcome
    }
}
