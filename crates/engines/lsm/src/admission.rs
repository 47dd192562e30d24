//! Admission of writes: their room in memtables, and their debt to compactions that are behind.
//!
//! 1. *Debt.* A write owes time in proportion to its bytes and to the height of Level 0 above its
//!    mark. So writers come down to the pace of the compactions. At twice the mark they wait for a
//!    compaction. The height is measured in thirds of the memtables' share, or in the tables that
//!    one key lies in, where these are more ([`Version::level0_weight`]).
//! 2. *Room.* A write reserves memory of the memtables. If that would bring them above their share,
//!    the write waits for flushes of all memtables that wait for one. Then memtables that are
//!    written to are flushed as well. A write of any size is granted once no other write has a
//!    reservation and nothing else can be flushed for it.
//! 3. *Refusal.* If flushes fail for want of room on the device, a write that finds no memory is
//!    refused. Flushes are tried again after pauses that grow, by the next writers. A write that is
//!    replayed is granted in any case.
//!
//! [`Version::level0_weight`]: lsm_tree::version::Version::level0_weight

use std::sync::Arc;
use std::time::Duration;

use admission::{Attempts, Pace, WriteController};
use engine::{BackgroundErrors, Demand, Error, Op, Reservation, Result, Room, Wait};

use crate::memtable::{bytes_of_entry, entry_bytes};
use crate::store::Shared;

/// The work of flushes, as background errors name it.
pub(crate) const FLUSH: &str = "the flush of memtables";
/// Nanoseconds that a table's worth above the mark adds to the time of a KiB: at one table 50 MB/s,
/// at ten 5 MB/s.
const NANOS_PER_KIB: u64 = 20 * 1024;
const PACE: Pace = Pace {
    debt_min: Duration::from_millis(1),
    payment_max: Duration::from_secs(1),
    turn_max: None,
};

/// The waits of writers, and the work that they wait for.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) writers: WriteController,
    /// The kinds of work that fail for a reason that may pass.
    pub(crate) errors: BackgroundErrors,
    pub(crate) flushes: Attempts,
    /// Their failures are reported to writers that only compactions can help.
    pub(crate) compactions: Attempts,
}

/// The size of a write.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Bytes of its keys and values.
    bytes: u64,
    /// Bytes that it takes in memtables.
    memory: u64,
    /// Whether it needs room in Level 0. A replayed write does not wait for that.
    needs_level0: bool,
}

impl Default for Admission {
    fn default() -> Self {
        let (errors, flushes, compactions) = Default::default();
        Self { writers: WriteController::new(PACE), errors, flushes, compactions }
    }
}

impl Shared {
    /// Reserves room for a write, as [`engine::Engine::reserve`] says.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        demand: &Demand<'_>,
        wait: Wait,
    ) -> Result<Option<Reservation<'_>>> {
        let size = self.check_admission(demand, wait)?;
        match wait {
            Wait::No if self.delay() > 0 => Ok(None),
            Wait::No => Ok(self.try_grant(size)),
            Wait::Yes => {
                self.admission.writers.slow_down(size.bytes, || self.delay());
                self.wait_for_room(size).map(Some)
            }
            Wait::Replay => {
                let size = Size { needs_level0: false, ..size };
                let room = self.wait_for_room(size);
                self.health.check_writable()?;
                Ok(Some(room.unwrap_or_else(|_| self.reserve_anyway(size))))
            }
        }
    }

    /// Refuses a write that is never accepted, however much room there is.
    fn check_admission(self: &Arc<Self>, demand: &Demand<'_>, wait: Wait) -> Result<Size> {
        // A write in the journal may come from a time when the keyspace had more memory.
        let may_refuse = wait != Wait::Replay;
        self.health.check_writable()?;
        let limit = self.host.memory.limit();
        let (bytes, memory) = match demand {
            Demand::Ops(ops) => {
                if may_refuse && self.state.load().deletes.are_too_many_with(ops, limit) {
                    self.end_range_deletes();
                    return Err(Error::OutOfMemory { limit });
                }
                (ops.iter().map(|op| op.bytes() as u64).sum(), memory_bytes(ops))
            }
            Demand::Update { key, bytes_max } => {
                let bytes = key.len() as u64 + bytes_max;
                (bytes, bytes_of_entry(key.len(), *bytes_max as usize))
            }
            Demand::Ingestion => (0, 0),
        };
        if bytes > limit && may_refuse {
            return Err(Error::WriteTooLarge { bytes, limit });
        }
        Ok(Size { bytes, memory, needs_level0: true })
    }

    /// Returns the nanoseconds that a write owes for each KiB; 0 if compactions keep up.
    fn delay(&self) -> u64 {
        let above = self.level0_weight().saturating_sub(self.options.level0_tables_slow) as u64;
        if above > 0 && self.health.check_writable().is_ok() { NANOS_PER_KIB * above } else { 0 }
    }

    fn level0_weight(&self) -> usize {
        self.state.load().version.level0_weight(self.memory_split().level0_unit())
    }

    fn has_level0_room(&self, size: Size) -> bool {
        !size.needs_level0 || self.level0_weight() <= 2 * self.options.level0_tables_slow.max(1)
    }

    /// Reserves memory if there is some, and room in Level 0.
    fn try_reserve(&self, size: Size) -> Option<Reservation<'_>> {
        if !self.has_level0_room(size) {
            return None;
        }
        if size.memory == 0 {
            return Some(Reservation::uncounted());
        }
        let split = self.memory_split();
        let memory = self.family.memory();
        let room = memory.try_reserve(size.memory, split.memtables_bytes, self)?;
        self.cache.shrink_for_writers(&split);
        Some(room)
    }

    /// The same for a writer outside the queue.
    fn try_reserve_beside_queue(&self, size: Size) -> Option<Reservation<'_>> {
        self.admission.writers.try_beside_queue(&self.group, || self.try_reserve(size))
    }

    /// Reserves what a writer in the queue would be granted now. If that is nothing, the background
    /// makes room.
    fn try_grant(self: &Arc<Self>, size: Size) -> Option<Reservation<'_>> {
        let writers = &self.admission.writers;
        let granted = writers.try_beside_queue(&self.group, || {
            self.try_reserve(size).or_else(|| writers.try_first(|| self.grant(size, Wait::No)))
        });
        if granted.is_none() {
            self.schedule_flush();
            self.schedule_compactions();
        }
        granted
    }

    fn reserve_anyway(&self, size: Size) -> Reservation<'_> {
        self.family.memory().reserve_anyway(size.memory, self)
    }

    /// Waits until there is room. If no work will make any, its failure is the error.
    fn wait_for_room(self: &Arc<Self>, size: Size) -> Result<Reservation<'_>> {
        let Admission { writers, errors, flushes, compactions } = &self.admission;
        if let Some(room) = self.try_reserve_beside_queue(size) {
            return Ok(room);
        }
        if !self.has_memory(size)
            && let Some(cause) = errors.pausing(FLUSH, &self.host.environment)
        {
            return Err(self.refusal(size, cause));
        }
        // A failure from before this write may have passed.
        let (flush, compaction) = (flushes.begun(), compactions.begun());
        writers.wait_for_room(&self.group, || {
            self.health.check_writable()?;
            if let Some(room) = self.grant(size, Wait::Yes) {
                return Ok(Some(room));
            }
            if !self.has_memory(size)
                && let Some(cause) = flushes.failure_after(flush)
            {
                return Err(self.refusal(size, cause));
            }
            self.schedule_flush();
            self.schedule_compactions();
            if self.has_memory(size) && !self.has_level0_room(size) {
                // Only compactions can help.
                let failure = compactions.failure_after(compaction);
                if let Some(failure) = failure.or_else(|| self.compactions_halted()) {
                    return Err(failure);
                }
            }
            Ok(None)
        })
    }

    /// Returns whether the memtables have memory for a write, or none of them waits for a flush.
    fn has_memory(&self, size: Size) -> bool {
        let most = self.memory_split().memtables_bytes.saturating_sub(size.memory);
        self.family.memory().bytes() <= most || self.state.load().due() == 0
    }

    /// Reserves memory for a write, above the share if nothing can be flushed for it. `wait` says
    /// whether the call may wait for the end of a flush.
    fn grant(self: &Arc<Self>, size: Size, wait: Wait) -> Option<Reservation<'_>> {
        if !self.has_level0_room(size) {
            return None;
        }
        if let Some(room) = self.try_reserve(size) {
            return Some(room);
        }
        let memory = self.family.memory();
        // The write alone is above the share. A memtable that waits for its flush may be empty: a
        // flush of it returns no memory.
        if memory.bytes() == 0 {
            return Some(self.reserve_anyway(size));
        }
        // Before the memtables are sealed: what other writers insert meanwhile can be flushed.
        let has_others = memory.has_reservations();
        self.seal_for(size.memory);
        if self.state.load().due() > 0 || has_others {
            return None;
        }
        // A flush that has just come to its end may still hold the memtables that it has flushed.
        let flusher = match wait {
            Wait::No => self.flusher.try_lock()?,
            Wait::Yes | Wait::Replay => self.flusher.lock(),
        };
        drop(flusher);
        Some(self.try_reserve(size).unwrap_or_else(|| self.reserve_anyway(size)))
    }

    /// Seals the memtables that are written to and full with `bytes` more.
    fn seal_for(self: &Arc<Self>, bytes: u64) {
        let full = self.memory_split().memtable_bytes;
        self.seal_where(&|active| {
            !active.is_empty() && active.bytes().saturating_add(bytes) > full
        });
    }

    /// The error of a write that finds no memory because flushes fail.
    fn refusal(&self, size: Size, cause: Error) -> Error {
        if !cause.is_retryable() {
            return cause;
        }
        Error::SpaceUsedUp {
            what: "what waits in memory for a flush",
            bytes: self.family.memory().bytes(),
            limit: self.memory_split().memtables_bytes.saturating_sub(size.memory),
            cause: Arc::new(cause),
        }
    }

    /// Notes how a flush has ended: writers learn of a failure, and others wait before they try
    /// again.
    pub(crate) fn note_flush(&self, number: u64, flushed: &Result<()>) {
        self.admission.errors.note(FLUSH, flushed, &self.host.environment);
        self.admission.flushes.end(number, flushed);
    }
}

impl Room for Shared {
    fn give_back(&self, bytes: u64, _slot: u32) {
        self.family.memory().give_back(bytes);
        // A writer in the queue may wait for this reservation.
        self.admission.writers.note_returned(&self.group);
    }
}

/// Returns the bytes that memtables take for the steps of a write. Ranges are not in memtables, but
/// they are counted: no more of them are under way than there is room for.
fn memory_bytes(ops: &[Op<'_>]) -> u64 {
    let bytes_of = |op: &Op<'_>| match op.is_range() {
        true => op.bytes() as u64,
        false => entry_bytes(op.key(), op.value()),
    };
    ops.iter().map(bytes_of).sum()
}
