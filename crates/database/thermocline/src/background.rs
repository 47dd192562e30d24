//! Background work of a database: it syncs the journal, and trims it (`flush.rs`).
//!
//! The journal is trimmed once a second, and when it has grown by a segment beyond its size.
//!
//! While the flush for a trim runs, writers continue until the journal has twice its size and a
//! segment more. Then each waits, before it is admitted, until the journal is shorter or the flush
//! has ended. A writer that waits has locked no key and taken no number, so the flush never waits
//! for it. A flush of an engine that writes all its data takes long, and begins when the journal is
//! as long as the data. So its writers wait only when the journal has doubled since it began.
//!
//! # Invariants
//! - O1. The periodic tasks of an engine run only once the opening has succeeded, or the replay has
//!   applied a record to the engine ([`KeyspaceInstance::begin_background`]). One-time tasks run
//!   for a call that waits for them. So an opening that is refused before it replays anything lets
//!   no task change a file of an engine.

#[cfg(test)]
mod tests;
mod upkeep;

use std::sync::{Arc, Weak};
use std::time::Duration;

use environment::LongWaits;
use journal::Durability;
use telemetry::Registry;
use workers::{Class, Group, Order, Pool, StopToken, WaitError};

use crate::async_writes::async_writer::Writers;
use crate::database::Inner;
use crate::error::{Error, Result};
use crate::expiry::{ExpirySweep, PauseExpiry};
use crate::flush::FLUSH;
use crate::keyspace_entry::KeyspaceInstance;
use crate::memory_balance;
use crate::open::segment_bytes;
use crate::options::Options;
use crate::read_only::Access;

pub(crate) use upkeep::Upkeep;

/// Interval at which the journal is checked for a trim.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which the held snapshots are checked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Syncs do not come more often than this, or nothing else would run.
const SYNC_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The threads that work for a database: the pool of its background work, its engines' included,
/// the expiry sweep, and the threads that do the writes of futures.
#[derive(Debug)]
pub(crate) struct Background {
    pool: Pool,
    group: Group,
    pub(crate) sweep: ExpirySweep,
    pub(crate) writers: Writers,
    /// Long waits of writers for a journal that is too long.
    pub(crate) journal_waits: LongWaits,
}

impl Background {
    pub(crate) fn new(
        options: &Options,
        access: Access,
        telemetry: &Registry,
        pause_expiry: PauseExpiry,
    ) -> Result<Self> {
        let threads = options.background_threads.clamp(1, Options::BACKGROUND_THREADS_MAX);
        let pool = match access {
            Access::Write => Pool::start(&options.environment, threads, telemetry)
                .map_err(|error| Error::Thread(error.to_string()))?,
            // A thread that waits for work of the opening does this work itself; nothing else is
            // done.
            Access::Read => Pool::hand_cranked(&options.environment, telemetry, Order::InOrder).0,
        };
        let group = pool.group("database");
        let (sweep, writers) = (ExpirySweep::new(telemetry, pause_expiry), Writers::default());
        Ok(Self { pool, group, sweep, writers, journal_waits: LongWaits::default() })
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Waits until `met` returns true. It is called after each task of the pool. A task of the pool
    /// must not wait here.
    pub(crate) fn wait_until(
        &self,
        met: impl FnMut() -> bool,
    ) -> std::result::Result<(), WaitError> {
        self.group.wait_until(met)
    }

    /// Stops the sweep and the pool, and waits for running tasks. A task that panicked left its
    /// work undone.
    pub(crate) fn stop(&self) -> Result<()> {
        let swept = self.sweep.stop();
        let mut panics = self.group.stop();
        panics.extend(self.pool.stop());
        swept.and(match panics.into_iter().next() {
            Some(panic) => Err(Error::Background(panic)),
            None => Ok(()),
        })
    }
}

impl Inner {
    /// Starts the periodic tasks. They hold the database weakly, so that they do not keep it open.
    pub(crate) fn start_background(self: &Arc<Self>) -> Result<()> {
        let weak = Arc::downgrade(self);
        self.upkeep.set_task(Arc::new(move || {
            if let Some(inner) = weak.upgrade() {
                inner.upkeep.note_begun();
                inner.maintain_journal();
            }
        }));
        if let Some(interval) = self.options.sync_interval {
            let interval = interval.max(SYNC_INTERVAL_MIN);
            self.every(Class::Flush, "journal sync", interval, Inner::sync_journal)?;
        }
        self.every(Class::Collect, "snapshot ages", LOOK_INTERVAL, |inner| {
            inner.order.oldest_snapshot_age(&inner.options.environment);
        })?;
        if self.options.balance_memory {
            // In the class whose threads no long work takes: a look is short.
            let interval = memory_balance::LOOK_INTERVAL;
            self.every(Class::Flush, "memory balance", interval, Inner::balance_memory)?;
        }
        self.every(Class::Collect, "journal trim", TRIM_INTERVAL, Inner::maintain_journal)
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
        if self.lifecycle.check_writable().is_ok() {
            // A failure stops all later writes, which report it; no caller is here to get it.
            let _ = self.wait_durable(self.order.sequence.last(), true, Durability::Synced);
        }
    }

    /// Checks, after a write, whether the journal has grown by a segment, and has it maintained
    /// then. Costs two loads.
    #[inline]
    pub(crate) fn look_at_journal(&self) {
        if self.upkeep.sees_new_segment(&self.journal) {
            let bytes_max = self.options.journal_bytes;
            self.upkeep.request(&self.journal, bytes_max, &self.background);
        }
    }

    /// Waits while the journal is far longer than allowed and a flush that frees a part of it is
    /// under way. The caller holds nothing that others wait for. Costs one load otherwise.
    #[inline]
    pub(crate) fn wait_for_journal(&self) {
        if self.upkeep.is_running() {
            self.wait_for_shorter_journal();
        }
    }

    /// Returns whether [`Inner::wait_for_journal`] would wait. Costs one load otherwise.
    #[inline]
    pub(crate) fn must_wait_for_journal(&self) -> bool {
        self.upkeep.is_running() && !self.is_journal_short()
    }

    /// Returns whether no writer has to wait for the journal.
    #[cold]
    fn is_journal_short(&self) -> bool {
        self.upkeep.is_short(&self.journal) || self.lifecycle.check_writable().is_err()
    }

    #[cold]
    fn wait_for_shorter_journal(&self) {
        if !self.is_journal_short() {
            let is_short = || self.is_journal_short();
            let wait = || self.background.wait_until(is_short);
            let waits = &self.background.journal_waits;
            // A pool that stops, or whose task has panicked, frees nothing any more.
            let _: std::result::Result<(), WaitError> = waits.time(&self.options.environment, wait);
        }
    }

    /// Returns the bytes of the journal above which writers wait for the flush that begins now.
    fn bytes_to_wait_at(&self) -> u64 {
        let all = self.keyspaces.journaled_instances();
        let rewrites_all =
            |one: &Arc<KeyspaceInstance>| one.engine.capabilities().flush_rewrites_all;
        let at_least = if all.iter().any(rewrites_all) { self.journal.bytes() } else { 0 };
        let usual = self.options.journal_bytes.max(at_least);
        usual.saturating_mul(2).saturating_add(segment_bytes(&self.options))
    }

    fn maintain_journal(&self) {
        // Until it ends, also if it panics.
        let _running = self.upkeep.begin(|| self.bytes_to_wait_at());
        self.shorten_journal();
    }

    fn shorten_journal(&self) {
        // A flush to trim the journal is useless while the journal must stay.
        if self.lifecycle.check_writable().is_err() || self.upkeep.trim_holds.is_held() {
            return;
        }
        // As long as that frees a segment: several keyspaces may hold it back.
        loop {
            let segments = self.journal.stats().segments;
            let flushed = match self.upkeep.errors.pausing(FLUSH, &self.options.environment) {
                Some(_) => Ok(()),
                None => self.flush_what_holds_back().and_then(|()| self.flush_dead_journal()),
            };
            // A flush without room for all may have flushed a part.
            let trimmed = self.trim_journal();
            if let Err(error) = flushed.and(trimmed) {
                self.lifecycle.fail(error);
                return;
            }
            // Writers that wait may continue although the next flush has not ended.
            self.background.group.note_progress();
            let bytes = self.journal.bytes();
            let is_large = bytes > self.options.journal_bytes;
            let is_freed = self.journal.stats().segments < segments;
            self.upkeep.note_try(bytes, is_large && !is_freed);
            if !is_large || !is_freed || self.lifecycle.check_writable().is_err() {
                return;
            }
        }
    }
}
