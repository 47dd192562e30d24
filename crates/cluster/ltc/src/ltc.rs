//! Ranges that this process serves.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use coordinator::{Coordinator, Descriptor, Order, Owner, RangeLogs};
use environment::Environment;
use logc::{Closing, Setup, Stocs};
use scatter::RangeDevice;
use stoc::{Epoch, RangeId};
use sync::Mutex;
use thermocline::Db;

use crate::error::{Error, Result};

/// Time after which a close waits for no StoC any more.
const CLOSE_MAX: Duration = Duration::from_secs(60);
/// Bytes that a StoC may be behind the others in a log.
const BACKLOG_BYTES: u64 = 16 << 20;
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
    ) -> Result<(Descriptor, Db)> {
        let taken = self.coordinator.take_ordered(order, self.owner)?;
        let opened = self.open_taken((order.range, taken.epoch), options, closing)?;
        let db = opened.db.clone();
        self.ranges.lock().insert(order.range, Arc::new(opened));
        Ok((taken, db))
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
    /// Those of the coordinator, of the logs and of the database.
    pub fn open(&self, range: RangeId, options: thermocline::Options) -> Result<Db> {
        let taken = self.coordinator.take(range, self.owner)?;
        let closing = self.closing.child();
        let opened = self.open_taken((range, taken.epoch), options, closing)?;
        let db = opened.db.clone();
        self.ranges.lock().insert(range, Arc::new(opened));
        Ok(db)
    }

    fn open_taken(
        &self,
        (range, epoch): (RangeId, Epoch),
        options: thermocline::Options,
        closing: Closing,
    ) -> Result<Range> {
        let logs = Setup {
            range,
            epoch,
            registry: Arc::new(RangeLogs::new(Arc::clone(&self.coordinator), range)),
            stocs: Arc::clone(&self.stocs),
            ensemble: self.options.ensemble,
            quorum: self.options.quorum,
            slow: self.options.slow,
            backlog_bytes: BACKLOG_BYTES,
            environment: self.environment.clone(),
            closing,
        };
        let (copies, rho) = (self.options.copies, self.options.rho);
        let device = scatter::open(&scatter::Options { logs, copies, rho });
        let device = device.map_err(|cause| Error::Files { range, cause })?;
        let place = format!("range {range}");
        let db = Db::open_on(Arc::new(device.clone()), &place, options)?;
        self.coordinator.serve(range, epoch)?;
        Ok(Range { db, device })
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
