//! Ranges that this process serves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use coordinator::{Coordinator, Descriptor, LogMode, Order, Owner, RangeLogs};
use environment::{Environment, Monotonic};
use logc::{Closing, Mode, Setup, Stocs};
use scatter::RangeDevice;
use stoc::RangeId;
use sync::Mutex;
use thermocline::{Db, Durability};

use crate::error::{Error, Result};

/// Time after which a close waits for no StoC any more.
const CLOSE_MAX: Duration = Duration::from_secs(60);
/// Bytes that a StoC may be behind the others in a log.
const BACKLOG_BYTES: u64 = 16 << 20;
/// Bytes of a buffer of a range's journal. An LTC has many ranges.
const JOURNAL_BUFFER_BYTES: usize = 1 << 20;
/// Bytes of a journal in the memories of StoCs above which it is flushed and trimmed.
const MEMORY_JOURNAL_BYTES: u64 = 32 << 20;
/// Time between two flushes of a range whose log stays weak.
const WEAK_PAUSE: Duration = Duration::from_secs(10);
/// Time between two looks at a close.
const LOOK: Duration = Duration::from_millis(2);

/// How the files of ranges are stored.
#[derive(Clone, Debug)]
pub struct RangeOptions {
    /// E: the StoCs of a segment of a log.
    pub ensemble: usize,
    /// Qa: the StoCs that have to acknowledge an append; more than half of E.
    pub quorum: usize,
    /// The StoCs that have a fragment of a table.
    pub copies: usize,
    /// The most fragments of a table: the paper's rho.
    pub rho: u32,
    /// Time after which a StoC without a reply has failed.
    pub slow: Duration,
}

/// Three StoCs have each log, of which two acknowledge an append. Two StoCs have each
/// fragment of a table, and a table has up to three fragments.
impl Default for RangeOptions {
    fn default() -> Self {
        Self { ensemble: 3, quorum: 2, copies: 2, rho: 3, slow: Duration::from_secs(1) }
    }
}

/// A range that is served.
#[derive(Debug)]
struct Range {
    db: Db,
    device: RangeDevice,
    log: LogMode,
    weak: Mutex<Weak>,
}

/// The last look at weak segments of a range's write log.
#[derive(Debug, Default)]
struct Weak {
    /// The segments that were weak.
    segments: Vec<u64>,
    /// The time from which on the range may be flushed for them.
    next: Option<Monotonic>,
}

/// The ranges of a process.
pub struct Ltc {
    coordinator: Arc<Coordinator>,
    stocs: Arc<dyn Stocs>,
    owner: Owner,
    options: RangeOptions,
    environment: Environment,
    ranges: Mutex<BTreeMap<RangeId, Arc<Range>>>,
    closing: Closing,
}

impl Ltc {
    /// Returns an LTC without a range. `closing` ends all calls that wait for a StoC, also of an
    /// opening: nothing is written any more. (R2)
    pub fn new(
        coordinator: Arc<Coordinator>,
        stocs: Arc<dyn Stocs>,
        owner: Owner,
        options: RangeOptions,
        environment: Environment,
        closing: Closing,
    ) -> Self {
        let ranges = Mutex::default();
        Self { coordinator, stocs, owner, options, environment, ranges, closing }
    }

    /// Returns how the coordinator knows this LTC.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Opens a range by an order of the coordinator. (R1)
    ///
    /// It waits as long as too few StoCs are there for an append, until `closing` is closed.
    ///
    /// # Errors
    /// As [`Ltc::open`]; [`coordinator::Error::OldOrder`].
    pub(crate) fn open_ordered(
        &self,
        order: Order,
        options: thermocline::Options,
        closing: Closing,
    ) -> Result<(Descriptor, LogMode, Db)> {
        let taken = self.coordinator.take_ordered(order, self.owner)?;
        let opened = self.open_taken(&taken, options, closing)?;
        let (db, log) = (opened.db.clone(), opened.log);
        self.ranges.lock().insert(order.range, Arc::new(opened));
        Ok((taken, log, db))
    }

    /// Writes what the memtables of a range have to tables.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn flush(&self, range: RangeId) -> Result<()> {
        let found = self.ranges.lock().get(&range).map(Arc::clone);
        found.map_or(Ok(()), |found| Ok(found.db.flush()?))
    }

    /// Ends the calls of a range that wait for StoCs. Nothing is written any more.
    pub(crate) fn close_device(&self, range: RangeId) {
        let found = self.ranges.lock().get(&range).map(Arc::clone);
        found.iter().for_each(|found| found.device.close());
    }

    /// Closes a range. (R2)
    ///
    /// # Errors
    /// The database's. It is closed nevertheless.
    pub(crate) fn close_range(&self, range: RangeId) -> Result<()> {
        let Some(found) = self.ranges.lock().remove(&range) else { return Ok(()) };
        let closed = found.db.close();
        found.device.close();
        Ok(closed?)
    }

    /// Returns the handle that ends all calls which wait for StoCs.
    pub(crate) fn closing(&self) -> &Closing {
        &self.closing
    }

    /// Ends all calls that wait for StoCs. Nothing is written any more.
    pub fn abandon(&self) {
        self.closing.close();
    }

    /// Opens a range that no other process may have, and serves it. (R1)
    ///
    /// It waits as long as too few StoCs are there for an append, until the LTC is closed.
    ///
    /// # Errors
    /// Those of the coordinator, of the logs and of the database. [`Error::NotSynced`],
    /// [`Error::Options`].
    pub fn open(&self, range: RangeId, options: thermocline::Options) -> Result<Db> {
        let taken = self.coordinator.take(range, self.owner)?;
        let closing = self.closing.child();
        let opened = self.open_taken(&taken, options, closing)?;
        let db = opened.db.clone();
        self.ranges.lock().insert(range, Arc::new(opened));
        Ok(db)
    }

    fn open_taken(
        &self,
        Descriptor { id: range, epoch, keyspace, gives_up_log, .. }: &Descriptor,
        mut options: thermocline::Options,
        closing: Closing,
    ) -> Result<Range> {
        let (range, epoch) = (*range, *epoch);
        let log = self.log_of(keyspace)?;
        if log != LogMode::Durable && options.durability == Durability::Synced {
            return Err(Error::NotSynced { keyspace: keyspace.clone(), mode: log });
        }
        // The rest of the journal, if any, is not a prefix of it.
        options.discard_journal = *gives_up_log;
        options.journal_buffer_bytes = options.journal_buffer_bytes.min(JOURNAL_BUFFER_BYTES);
        let mode = if log == LogMode::Memory { Mode::Memory } else { Mode::Durable };
        if mode == Mode::Memory {
            options.journal_bytes = options.journal_bytes.min(MEMORY_JOURNAL_BYTES);
        }
        let logs = Setup {
            range,
            epoch,
            registry: Arc::new(RangeLogs::new(Arc::clone(&self.coordinator), range)),
            stocs: Arc::clone(&self.stocs),
            ensemble: self.options.ensemble,
            quorum: self.options.quorum,
            mode,
            slow: self.options.slow,
            backlog_bytes: BACKLOG_BYTES,
            gives_up_log: *gives_up_log,
            environment: self.environment.clone(),
            closing,
        };
        let (copies, rho) = (self.options.copies, self.options.rho);
        let device = scatter::open(&scatter::Options { logs, copies, rho });
        let device = device.map_err(|cause| Error::Files { range, cause })?;
        let place = format!("range {range}");
        let db = Db::open_on(Arc::new(device.clone()), &place, options)?;
        self.coordinator.serve(range, epoch)?;
        Ok(Range { db, device, log, weak: Mutex::default() })
    }

    /// Returns how the write logs of a keyspace are kept.
    fn log_of(&self, keyspace: &str) -> Result<LogMode> {
        let record = self.coordinator.keyspace(keyspace)?;
        LogMode::of_options(&record.options)
            .map_err(|cause| Error::Options { keyspace: keyspace.to_owned(), cause })
    }

    /// Returns the databases of the ranges that are served.
    pub fn databases(&self) -> Vec<(RangeId, Db)> {
        let ranges = self.ranges.lock();
        ranges.iter().map(|(range, served)| (*range, served.db.clone())).collect()
    }

    /// Copies tables of which too few StoCs have a copy to other StoCs. Returns the number of
    /// tables that were copied.
    ///
    /// # Errors
    /// A table has no copy that can be read. Other ranges are repaired before.
    pub fn repair(&self) -> Result<usize> {
        let ranges: Vec<Arc<Range>> = self.ranges.lock().values().map(Arc::clone).collect();
        let (mut repaired, mut failure) = (0, None);
        for range in ranges {
            match range.device.repair() {
                Ok(tables) => repaired += tables,
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(repaired), |error| Err(error.into()))
    }

    /// Flushes the ranges whose write logs in memory have lost replicas, and removes these logs: a
    /// further loss loses nothing then. A segment counts if two looks have found it weak.
    pub(crate) fn renew_weak(&self) {
        let ranges: Vec<Arc<Range>> = self.ranges.lock().values().map(Arc::clone).collect();
        // With too few StoCs the next log would be as weak.
        if self.stocs.choose(self.options.ensemble, &[]).len() < self.options.ensemble {
            return;
        }
        for range in ranges.iter().filter(|range| range.log == LogMode::Memory) {
            let segments = range.device.weak_segments();
            let now = self.environment.now();
            let mut weak = range.weak.lock();
            let is_weak = segments.iter().any(|segment| weak.segments.contains(segment));
            if segments.is_empty() {
                weak.next = None;
            }
            weak.segments = segments;
            if is_weak && weak.next.is_none_or(|next| now >= next) {
                weak.next = Some(now + WEAK_PAUSE);
                drop(weak);
                // The next look repeats a flush that has failed.
                let _ = range.db.renew_journal();
            }
        }
    }

    /// Returns the number of copies of tables that reads have found damaged, or missing.
    pub fn damaged_copies(&self) -> usize {
        let ranges = self.ranges.lock();
        ranges.values().map(|range| range.device.damaged_copies()).sum()
    }

    /// Closes all ranges. Ranges that wait for StoCs for longer than a minute are closed without
    /// them. (R2)
    ///
    /// # Errors
    /// Those of the databases. All are closed nevertheless.
    pub fn close(&self) -> Result<()> {
        let ranges = std::mem::take(&mut *self.ranges.lock());
        let close = || {
            let closed = ranges.values().map(|range| range.db.close());
            closed.collect::<Vec<_>>()
        };
        let closed = thread::scope(|scope| {
            let closes = scope.spawn(close);
            let deadline = self.environment.now() + CLOSE_MAX;
            while !closes.is_finished() && self.environment.now() < deadline {
                self.environment.sleep(LOOK);
            }
            // Nothing that waits for a StoC waits longer.
            self.closing.close();
            closes.join()
        });
        let closed = closed.unwrap_or_default();
        Ok(closed.into_iter().collect::<thermocline::Result<()>>()?)
    }
}

impl fmt::Debug for Ltc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ltc").field("owner", &self.owner).finish_non_exhaustive()
    }
}
