//! What a database does by itself: sync the journal, and have it trimmed (`flush.rs`).

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};
use std::time::Duration;

use journal::Durability;
use telemetry::Registry;
use workers::{Class, Group, Order, Pool, StopToken, WaitError};

use crate::database::Inner;
use crate::error::{Error, Result};
use crate::memory_balance;
use crate::options::Options;
use crate::read_only::Access;

/// How often the journal is looked at for trimming.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

/// How often what snapshots are held is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Syncs do not come more often than this, or nothing else would run.
const SYNC_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The pool that runs this database's background work, its engines' included.
#[derive(Debug)]
pub(crate) struct Background {
    pool: Pool,
    group: Group,
    threads: usize,
}

impl Background {
    pub(crate) fn new(options: &Options, access: Access, telemetry: &Registry) -> Result<Self> {
        let threads = options.background_threads.clamp(1, Options::BACKGROUND_THREADS_MAX);
        let pool = match access {
            Access::Write => Pool::start(&options.environment, threads, telemetry)
                .map_err(|error| Error::Thread(error.to_string()))?,
            // What opening waits for is done by who waits; nothing else is done.
            Access::Read => Pool::hand_cranked(&options.environment, telemetry, Order::InOrder).0,
        };
        let group = pool.group("database");
        Ok(Self { pool, group, threads })
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Whether a thread is left for what writers wait for, whatever the others wait for ([`Class::Flush`]).
    pub(crate) fn has_thread_for_flushes(&self) -> bool {
        self.threads > 1
    }

    /// Waits until `met`, which is asked after each task of the pool; not from one.
    pub(crate) fn wait_until(
        &self,
        met: impl FnMut() -> bool,
    ) -> std::result::Result<(), WaitError> {
        self.group.wait_until(met)
    }

    /// Stops all of it and waits for what runs. A task that panicked left its work undone.
    pub(crate) fn stop(&self) -> Result<()> {
        let mut panics = self.group.stop();
        panics.extend(self.pool.stop());
        match panics.into_iter().next() {
            Some(panic) => Err(Error::Background(panic)),
            None => Ok(()),
        }
    }
}

impl Inner {
    /// Starts the periodic tasks. They hold the database weakly, so that they do not keep it open.
    pub(crate) fn start_background(self: &Arc<Self>) -> Result<()> {
        if let Some(interval) = self.options.sync_interval {
            let interval = interval.max(SYNC_INTERVAL_MIN);
            self.every(Class::Flush, "journal sync", interval, Inner::sync_journal)?;
        }
        self.every(Class::Collect, "snapshot ages", LOOK_INTERVAL, |inner| {
            inner.oldest_snapshot_age();
        })?;
        if self.options.balance_memory {
            // Of the class whose threads no long work takes: a look is short.
            let interval = memory_balance::LOOK_INTERVAL;
            self.every(Class::Flush, "memory balance", interval, Inner::balance_memory)?;
        }
        self.every(Class::Collect, "journal trim", TRIM_INTERVAL, Inner::maintain_journal)
    }

    /// For how long the oldest snapshot or scan is held, at least.
    pub(crate) fn oldest_snapshot_age(&self) -> Option<Duration> {
        self.snapshot_ages.look(self.sequence.pinned(), self.options.environment.now())
    }

    fn every(
        self: &Arc<Self>,
        class: Class,
        name: &'static str,
        interval: Duration,
        task: fn(&Self),
    ) -> Result<()> {
        let weak: Weak<Self> = Arc::downgrade(self);
        let work = move |_: &StopToken| {
            if let Some(inner) = weak.upgrade() {
                task(&inner);
            }
        };
        self.background.group.every(class, name, interval, work).map_err(|_| Error::Closed)
    }

    fn sync_journal(&self) {
        if self.check_writable().is_ok() {
            // A failure stops all later writes, which report it; there is nobody to tell here.
            let _ = self.settle(self.sequence.last(), true, Durability::Synced);
        }
    }

    fn maintain_journal(&self) {
        // What is flushed to trim the journal would be flushed for nothing while it must stay.
        if self.check_writable().is_err() || self.trim_holds.is_held() {
            return;
        }
        let flushed = match self.flushes.pausing(&self.options.environment) {
            Some(_) => Ok(()),
            None => self.flush_what_holds_back(),
        };
        if let Err(error) = flushed.and_then(|()| self.trim_journal()) {
            self.fail(error);
        }
    }
}
