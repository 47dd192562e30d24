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

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use journal::Durability;
use telemetry::Registry;
use workers::{Class, Group, Order, Pool, StopToken, WaitError};

use crate::database::Inner;
use crate::error::{Error, Result};
use crate::flush::FLUSH;
use crate::keyspace_entry::KeyspaceInstance;
use crate::memory_balance;
use crate::open::segment_bytes;
use crate::options::Options;
use crate::read_only::Access;

/// Interval at which the journal is checked for a trim.
const TRIM_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which the held snapshots are checked.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Share of the journal by which it grows before another try to free some, after one that freed
/// nothing: a try asks every engine for its figures.
const RETRY_PARTS: u64 = 8;

/// Syncs do not come more often than this, or nothing else would run.
const SYNC_INTERVAL_MIN: Duration = Duration::from_millis(1);

/// A request to maintain the journal soon after it has grown by a segment. Requests that arrive
/// while the task waits for its turn share one run.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Segments begun when a writer last looked.
    seen: AtomicU64,
    is_queued: AtomicBool,
    /// Bytes of the journal below which nothing is tried, since the last try freed nothing.
    retry_at: AtomicU64,
    /// Maintenance that is under way: flushes that make a part of the journal free.
    running: AtomicU64,
    /// Bytes of the journal above which writers wait for it.
    writers_wait_at: AtomicU64,
    database: OnceLock<Weak<Inner>>,
}

#[cfg(test)]
impl Upkeep {
    /// Begins maintenance of a journal that is far too long, whatever its length is.
    pub(crate) fn begin_for_test(&self) {
        self.writers_wait_at.store(0, SeqCst);
        self.running.fetch_add(1, SeqCst);
    }

    /// Ends it.
    pub(crate) fn end_for_test(&self) {
        self.running.fetch_sub(1, SeqCst);
    }
}

/// Maintenance of the journal that is under way.
struct Running<'a>(&'a AtomicU64);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// The pool that runs this database's background work, its engines' included.
#[derive(Debug)]
pub(crate) struct Background {
    pool: Pool,
    group: Group,
}

impl Background {
    pub(crate) fn new(options: &Options, access: Access, telemetry: &Registry) -> Result<Self> {
        let threads = options.background_threads.clamp(1, Options::BACKGROUND_THREADS_MAX);
        let pool = match access {
            Access::Write => Pool::start(&options.environment, threads, telemetry)
                .map_err(|error| Error::Thread(error.to_string()))?,
            // A thread that waits for work of the opening does this work itself; nothing else is
            // done.
            Access::Read => Pool::hand_cranked(&options.environment, telemetry, Order::InOrder).0,
        };
        let group = pool.group("database");
        Ok(Self { pool, group })
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

    /// Stops all of it and waits for running tasks. A task that panicked left its work undone.
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
        let _ = self.upkeep.database.set(Arc::downgrade(self));
        if let Some(interval) = self.options.sync_interval {
            let interval = interval.max(SYNC_INTERVAL_MIN);
            self.every(Class::Flush, "journal sync", interval, Inner::sync_journal)?;
        }
        self.every(Class::Collect, "snapshot ages", LOOK_INTERVAL, |inner| {
            inner.oldest_snapshot_age();
        })?;
        if self.options.balance_memory {
            // In the class whose threads no long work takes: a look is short.
            let interval = memory_balance::LOOK_INTERVAL;
            self.every(Class::Flush, "memory balance", interval, Inner::balance_memory)?;
        }
        self.every(Class::Collect, "journal trim", TRIM_INTERVAL, Inner::maintain_journal)
    }

    /// Lets the periodic tasks of all engines run, once the opening has succeeded.
    pub(crate) fn begin_engines(&self) {
        self.entries.read().values().for_each(|entry| entry.last_instance().begin_background());
    }

    /// Returns for how long the oldest snapshot or scan is held, at least.
    pub(crate) fn oldest_snapshot_age(&self) -> Option<Duration> {
        self.snapshot_ages.look(self.sequence.pins(), self.options.environment.now())
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
            // A failure stops all later writes, which report it; no caller is here to get it.
            let _ = self.wait_durable(self.sequence.last(), true, Durability::Synced);
        }
    }

    /// Checks, after a write, whether the journal has grown by a segment, and has it maintained
    /// then. Costs two loads.
    #[inline]
    pub(crate) fn look_at_journal(&self) {
        let begun = self.journal.segments_begun();
        if begun != self.upkeep.seen.load(Relaxed) {
            self.upkeep.seen.store(begun, Relaxed);
            self.maintain_soon();
        }
    }

    #[cold]
    fn maintain_soon(&self) {
        let upkeep = &self.upkeep;
        let least = self.options.journal_bytes.max(upkeep.retry_at.load(Relaxed));
        if self.journal.bytes() <= least || upkeep.is_queued.swap(true, SeqCst) {
            return;
        }
        let database = upkeep.database.get().cloned().unwrap_or_default();
        let work = move |_: &StopToken| {
            if let Some(inner) = database.upgrade() {
                // A segment that is begun from here on requests it again.
                inner.upkeep.is_queued.store(false, SeqCst);
                inner.maintain_journal();
            }
        };
        if self.background.group.submit(Class::Collect, "journal upkeep", work).is_err() {
            upkeep.is_queued.store(false, SeqCst);
        }
    }

    /// Waits while the journal is far longer than allowed and a flush that frees a part of it is
    /// under way. The caller holds nothing that others wait for. Costs one load otherwise.
    #[inline]
    pub(crate) fn wait_for_journal(&self) {
        if self.upkeep.running.load(Relaxed) > 0 {
            self.wait_for_shorter_journal();
        }
    }

    /// Returns whether [`Inner::wait_for_journal`] would wait. Costs one load otherwise.
    #[inline]
    pub(crate) fn must_wait_for_journal(&self) -> bool {
        self.upkeep.running.load(Relaxed) > 0 && !self.is_journal_short()
    }

    /// Returns whether no writer has to wait for the journal.
    #[cold]
    fn is_journal_short(&self) -> bool {
        self.upkeep.running.load(SeqCst) == 0
            || self.journal.bytes() <= self.upkeep.writers_wait_at.load(Relaxed)
            || self.check_writable().is_err()
    }

    #[cold]
    fn wait_for_shorter_journal(&self) {
        if !self.is_journal_short() {
            let is_short = || self.is_journal_short();
            // A pool that stops, or whose task has panicked, frees nothing any more.
            let _: std::result::Result<(), WaitError> = self.background.wait_until(is_short);
        }
    }

    /// Returns the bytes of the journal above which writers wait for the flush that begins now.
    fn bytes_to_wait_at(&self) -> u64 {
        let all = self.journaled_instances();
        let rewrites_all =
            |one: &Arc<KeyspaceInstance>| one.engine.capabilities().flush_rewrites_all;
        let at_least = if all.iter().any(rewrites_all) { self.journal.bytes() } else { 0 };
        let usual = self.options.journal_bytes.max(at_least);
        usual.saturating_mul(2).saturating_add(segment_bytes(&self.options))
    }

    fn maintain_journal(&self) {
        let upkeep = &self.upkeep;
        if upkeep.running.load(SeqCst) == 0 {
            // Not again while a flush runs: the journal is longer during it.
            upkeep.writers_wait_at.store(self.bytes_to_wait_at(), Relaxed);
        }
        upkeep.running.fetch_add(1, SeqCst);
        // Also if it panics.
        let _running = Running(&upkeep.running);
        self.shorten_journal();
    }

    fn shorten_journal(&self) {
        // A flush to trim the journal is useless while the journal must stay.
        if self.check_writable().is_err() || self.trim_holds.is_held() {
            return;
        }
        // As long as that frees a segment: several keyspaces may hold it back.
        loop {
            let segments = self.journal.stats().segments;
            let flushed = match self.errors.pausing(FLUSH, &self.options.environment) {
                Some(_) => Ok(()),
                None => self.flush_what_holds_back().and_then(|()| self.flush_dead_journal()),
            };
            // A flush without room for all may have flushed a part.
            let trimmed = self.trim_journal();
            if let Err(error) = flushed.and(trimmed) {
                self.fail(error);
                return;
            }
            // Writers that wait may continue although the next flush has not ended.
            self.background.group.note_progress();
            let bytes = self.journal.bytes();
            let is_large = bytes > self.options.journal_bytes;
            let is_freed = self.journal.stats().segments < segments;
            let retry_at = if is_large && !is_freed { bytes + bytes / RETRY_PARTS } else { 0 };
            self.upkeep.retry_at.store(retry_at, Relaxed);
            if !is_large || !is_freed || self.check_writable().is_err() {
                return;
            }
        }
    }
}
