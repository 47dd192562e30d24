//! Admission of writes: the debt of writers to compaction, and room for their records.
//!
//! Compaction frees what writes take: entries of the hot index, and space of the hot log. If it is
//! behind, each write owes some time, in proportion to its length and with the square of the
//! excess. One writer pays at a time, so that all writers together come down to the pace of
//! compaction; no writer compacts. A wait has a bound of a tenth of a second: a writer pays a slice
//! and leaves the rest to the next ones, and a writer that does not get its turn pays nothing.
//! Compaction always catches up unless it fails. Then no writer waits for it, and writes are
//! refused once memory or disk space is used up (`failing_compactions`).
//!
//! 1. A write that is never accepted is refused.
//! 2. A writer that may wait pays a part of the debt. Another one gets no room while there is one.
//! 3. Room in memory is reserved for its records (`hybrid_log::reserve`). A writer that may wait
//!    helps to flush pages. If a flush fails for lack of room on the device, the write is refused,
//!    and so are others until a flush succeeds. Flushes are tried again after pauses that grow, by
//!    the next writer and by a caller that requests a flush.
//! 4. Room is held on the device for all writes that have reservations (`held_room`), or the write
//!    is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use admission::{DebtPolicy, WriteController};
use engine::{Demand, Error, InOrder, Op, Reservation, Result, Wait};
use environment::{Environment, WaitCounts};
use sync::locks::Mutex;

use crate::failing_compactions::FLUSH;
use crate::held_room::HeldRoom;
use crate::ops::{record_bytes, unordered};
use crate::planted::{Planted, mutant};
use crate::record::Shape;
use crate::store::Shared;

/// How far compaction is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    None,
    /// Something is above its mark. A write owes this number of nanoseconds for each
    /// [`UNIT_BYTES`].
    Behind(u64),
    /// The index has used up twice its share of the memory.
    OutOfMemory,
}

/// The unit of the debt of a write, of which each part counts as a whole.
const UNIT_BYTES: u64 = 1024;
/// The debt of a unit if twice the mark is used. At another excess it changes with the square of
/// that: at a tenth above the mark it is 100 microseconds.
const DEBT_AT_TWICE: Duration = Duration::from_millis(10);
/// The largest debt of a unit.
const DEBT_MAX: Duration = Duration::from_secs(1);
/// The share of its mark from which on the index has no room at all.
const OUT_OF_MEMORY: f64 = 2.0;
const PACE: DebtPolicy = DebtPolicy {
    debt_min: Duration::from_micros(200),
    payment_max: Duration::from_millis(10),
    // Ten writers may wait for their turns that all pay.
    turn_max: Some(Duration::from_millis(90)),
};
/// How long an append without a reservation waits for a flush that fails, and the time before it
/// tries again.
const WAIT_MAX: Duration = Duration::from_secs(2);
const WAIT_STEP: Duration = Duration::from_millis(10);

#[cfg(all(test, shuttle, not(loom)))]
mod models;
#[cfg(test)]
mod tests;

/// The stored form of the level.
const NOTHING: u8 = 0;
const BEHIND: u8 = 1;
const OUT: u8 = 2;
const REFUSED: u8 = 3;

/// The present level, and the waits of writers.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) writers: WriteController,
    /// Room on the device for the records of admitted writes.
    pub(crate) room: HeldRoom,
    level: AtomicU8,
    /// The page at which the level was found.
    page: AtomicU64,
    /// Whether the work that writers would wait for fails.
    is_hopeless: AtomicBool,
    /// The error that writes are refused with, if not for want of memory.
    refusal: Mutex<Option<Error>>,
    /// The debt of a unit.
    unit_nanos: AtomicU64,
}

/// The size of a write.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Bytes of its records.
    bytes: u64,
    /// Units of work that it adds.
    units: u64,
    /// Whether it may take some of the index.
    takes_index: bool,
}

impl Level {
    /// The level at which `index` and `disk` are used, each as a share of its mark.
    pub(crate) fn of(index: f64, disk: f64) -> Self {
        let excess = (index.max(disk) - 1.0).max(0.0);
        match (excess, index) {
            (_, index) if index > OUT_OF_MEMORY => Self::OutOfMemory,
            (excess, _) if excess > 0.0 => {
                let nanos = DEBT_AT_TWICE.as_nanos() as f64 * excess * excess;
                Self::Behind(nanos.min(DEBT_MAX.as_nanos() as f64) as u64)
            }
            _ => Self::None,
        }
    }
}

impl Admission {
    /// Returns an admission that lets writes pass, with the room that the device holds.
    pub(crate) fn new(room: HeldRoom, environment: &Environment) -> Self {
        let (level, page, is_hopeless, refusal, unit_nanos) = Default::default();
        let writers = WriteController::new(PACE, environment);
        Self { writers, room, level, page, is_hopeless, refusal, unit_nanos }
    }

    /// Returns the long waits of writers, by cause.
    pub(crate) fn long_waits(&self) -> Vec<(&'static str, WaitCounts)> {
        let mut waits =
            self.writers.long_waits("room in the hot log", "compactions that are behind").to_vec();
        waits.push(("room on the device", self.room.waits.counts()));
        waits
    }

    /// Whether the log has turned to another page since the last call: then the level is old.
    fn is_new_page(&self, page: u64) -> bool {
        self.page.load(Relaxed) != page && self.page.swap(page, Relaxed) != page
    }

    /// Sets the level. Writers that wait continue if compaction is not behind any more.
    pub(crate) fn set(&self, level: Level, is_hopeless: bool) {
        let (level, nanos) = match level {
            Level::None => (NOTHING, 0),
            Level::Behind(nanos) => (BEHIND, nanos),
            Level::OutOfMemory => (OUT, 0),
        };
        self.store(level, nanos, is_hopeless);
    }

    /// From now on writes are refused with this error, until a level is set.
    pub(crate) fn refuse(&self, error: Error) {
        *self.refusal.lock() = Some(error);
        self.store(REFUSED, 0, true);
    }

    fn store(&self, level: u8, unit_nanos: u64, is_hopeless: bool) {
        self.is_hopeless.store(is_hopeless, Relaxed);
        self.unit_nanos.store(unit_nanos, Relaxed);
        self.level.store(level, Relaxed);
        if self.delay_per_unit() == 0 {
            self.writers.forgive();
        }
    }

    /// Returns the nanoseconds that a write owes for each unit: 0 if there is nothing to wait for.
    fn delay_per_unit(&self) -> u64 {
        let is_behind = self.level.load(Relaxed) == BEHIND && !self.is_hopeless.load(Relaxed);
        if is_behind { self.unit_nanos.load(Relaxed) } else { 0 }
    }

    /// Returns the error that writes are refused with, if not for want of memory.
    pub(crate) fn refusal(&self) -> Option<Error> {
        (self.level.load(Relaxed) == REFUSED).then(|| self.refusal.lock().clone())?
    }

    /// Whether compaction keeps up.
    pub(crate) fn is_none(&self) -> bool {
        self.level.load(Relaxed) == NOTHING
    }

    /// Whether new values are refused.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] with the limit given; [`Error::SpaceUsedUp`].
    fn check(&self, limit: u64) -> Result<()> {
        if self.level.load(Relaxed) < OUT {
            return Ok(());
        }
        Err(self.refusal().unwrap_or(Error::OutOfMemory { limit }))
    }

    /// Pays a part of the debt, of which `units` are new, if compaction is behind.
    fn delay(&self, units: u64) {
        if !self.is_none() {
            self.writers.delay(units * UNIT_BYTES, || self.delay_per_unit());
        }
    }
}

impl Shared {
    /// Reserves room for a write, as [`engine::Engine::reserve`] says. The caller is not protected.
    pub(crate) fn reserve(
        &self,
        demand: &Demand<'_>,
        wait: Wait,
    ) -> Result<Option<Reservation<'_>>> {
        let size = self.check_admission(demand, wait)?;
        match mutant!(Planted::WaitedAnyway, wait, Wait::Yes) {
            Wait::No => self.try_reserve(size),
            Wait::Yes => {
                self.note_new_page();
                self.check_level(size)?;
                self.admission.delay(size.units);
                self.check_level(size)?;
                let room = self.reserve_in_log(size.bytes)?;
                self.hot.log.hold_reserved(room, || self.hold_room_as_writer()).map(Some)
            }
            Wait::Replay => Ok(Some(Reservation::uncounted())),
        }
    }

    /// Step 1.
    fn check_admission(&self, demand: &Demand<'_>, wait: Wait) -> Result<Size> {
        self.health.check_writable()?;
        self.wake_upkeep();
        let units_of = |bytes: u64| bytes.div_ceil(UNIT_BYTES);
        match demand {
            Demand::Ops(ops) => {
                self.check_ops(ops)?;
                let is_delete = ops.iter().all(|op| op.value().is_none());
                let records = || ops.iter().map(record_bytes);
                let (bytes, units) = (records().sum(), records().map(units_of).sum());
                let limit = self.hot.log.reservation_bytes_max();
                // A batch that is longer than memory cannot become visible as a whole.
                if wait != Wait::Replay && bytes > limit {
                    return Err(Error::WriteTooLarge { bytes, limit });
                }
                // With a single log a tombstone takes none of the index.
                let takes_index = self.cold.is_some() || !is_delete;
                Ok(Size { bytes, units, takes_index })
            }
            Demand::Update { key, bytes_max } => {
                self.check_record(key, &[])?;
                let shape = Shape { key_bytes: key.len(), value_bytes: *bytes_max as usize };
                let longest = self.hot.log.geometry.record_bytes_max();
                let bytes = shape.bytes().min(longest) as u64;
                Ok(Size { bytes, units: units_of(bytes), takes_index: true })
            }
            Demand::Ingestion => Err(Error::NoIngestion { engine: "f2" }),
        }
    }

    /// Refuses the steps of a write that the store never accepts.
    pub(crate) fn check_ops(&self, ops: &[Op<'_>]) -> Result<()> {
        ops.iter().try_for_each(|op| match op {
            Op::DeleteRange { .. } => Err(unordered(InOrder::RangeDelete)),
            op => self.check_record(op.key(), op.value().unwrap_or_default()),
        })
    }

    /// Whether the write is refused at the present level.
    fn check_level(&self, size: Size) -> Result<()> {
        match self.admission.check(self.host.memory.limit()) {
            Err(Error::OutOfMemory { .. }) if !size.takes_index => Ok(()),
            checked => checked,
        }
    }

    /// Whether new values are refused: for a value that nothing knew of when room was reserved.
    pub(crate) fn check_new_value(&self) -> Result<()> {
        self.admission.check(self.host.memory.limit())
    }

    /// Does steps 2 to 4 for a writer that must not wait. A refusal is left to a writer that may.
    fn try_reserve(&self, size: Size) -> Result<Option<Reservation<'_>>> {
        self.note_new_page();
        let is_free = self.admission.delay_per_unit() == 0 && self.check_level(size).is_ok();
        if !is_free {
            return Ok(None);
        }
        let Some(room) = self.hot.log.try_reserve(size.bytes) else {
            // Otherwise only a writer that waits would make room.
            self.hot.log.request_room(size.bytes);
            return Ok(None);
        };
        let held = self.hot.log.hold_reserved(room, || self.holds_room().then_some(()).ok_or(()));
        if held.is_err() {
            self.request_held_room(size.bytes);
        }
        Ok(held.ok())
    }

    /// Step 4. A long wait for the device counts.
    fn hold_room_as_writer(&self) -> Result<()> {
        if self.holds_room() {
            return Ok(());
        }
        self.admission.room.waits.time(&self.host.environment, || self.hold_room(0))
    }

    /// Step 3.
    fn reserve_in_log(&self, bytes: u64) -> Result<Reservation<'_>> {
        if let Some(room) = self.hot.log.try_reserve(bytes) {
            return Ok(room);
        }
        let (environment, errors) = (&self.host.environment, &self.background.errors);
        // Credit that other writers have returns without a flush.
        if !self.hot.log.has_credit_room()
            && let Some(cause) = errors.pausing(FLUSH, environment)
        {
            return Err(self.refusal_of_log(cause));
        }
        let reserved = self.admission.writers.time_room(|| self.hot.log.reserve(bytes));
        let flushed = reserved.as_ref().map(|_| ()).map_err(Error::clone);
        errors.note(FLUSH, &flushed, environment);
        reserved.map_err(|cause| match cause.is_retryable() {
            true => self.refusal_of_log(cause),
            false => cause,
        })
    }

    fn refusal_of_log(&self, cause: Error) -> Error {
        Error::SpaceUsedUp {
            what: "unflushed pages in memory",
            bytes: self.hot.log.tail().get().saturating_sub(self.hot.log.flushed().get()),
            limit: self.hot.log.frames() * self.hot.log.geometry.page_bytes(),
            cause: Arc::new(cause),
        }
    }

    /// Checks how far compaction is behind, unless a thread has since the log turned to the page at
    /// its tail.
    fn note_new_page(&self) {
        if self.admission.is_new_page(self.hot.log.geometry.page(self.hot.log.tail())) {
            self.update_level();
        }
    }

    /// Runs `append`. An append without a reservation may find the device full: it is repeated for
    /// a while, since its write may be in the journal.
    pub(crate) fn until_there_is_room<T>(
        &self,
        mut append: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let (environment, errors) = (&self.host.environment, &self.background.errors);
        let mut waited = Duration::ZERO;
        loop {
            let done = append();
            if waited >= WAIT_MAX || !done.as_ref().is_err_and(Error::is_retryable) {
                if waited > Duration::ZERO {
                    errors.note(FLUSH, &done, environment);
                }
                return done;
            }
            errors.note(FLUSH, &done, environment);
            self.admission.writers.pause(WAIT_STEP);
            waited += WAIT_STEP;
        }
    }
}
