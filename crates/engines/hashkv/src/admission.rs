//! Admission of writes: their space on the device, their memory in write buffers, and their room in
//! the index.
//!
//! 1. A write reserves the space of its records on the device (`space.rs`).
//! 2. Then it reserves the bytes of its records in write buffers. If buffers and reservations would
//!    be above their share then, it waits for a flush of the buffers. A write of any size is
//!    granted once no other write has a reservation and no buffer has a record.
//! 3. Then it reserves room in the index, with the longest handles in the place of values. The
//!    index may have it wait for flushes, which need no write buffer.
//! 4. If flushes fail for want of room on the device, a write that finds no memory is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use admission::{Admits, Attempts, DebtPolicy, Parts, WriteController};
use engine::{Demand, Error, Op, Reservation, Result, Room, Wait};
use environment::{Environment, WaitCounts};

use crate::index_value::HANDLE_BYTES_MAX;
use crate::options::Options;
use crate::segment::record::record_bytes;
use crate::store::Shared;
use crate::values::failures::FLUSH;
use crate::write::check_ranges;

/// The longest index value. A reservation needs only the number of its bytes.
static ZEROS: [u8; Options::SEPARATION_BYTES_MAX as usize + 1] =
    [0; Options::SEPARATION_BYTES_MAX as usize + 1];

/// The waits of writers, and the work that they wait for.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) writers: WriteController,
    pub(crate) flushes: Attempts,
    /// Whether a flush of write buffers is queued or running.
    pub(crate) is_flush_queued: AtomicBool,
    /// Whether a job is queued or running.
    pub(crate) is_collect_queued: AtomicBool,
    pub(crate) collections: Attempts,
    /// The writers that wait for space on the device.
    pub(crate) space_writers: WriteController,
    /// Whether the next job is to free space for them.
    pub(crate) is_space_wanted: AtomicBool,
    /// Whether the last such job freed nothing.
    pub(crate) is_futile: AtomicBool,
    /// A bound that follows the live bytes is not below this.
    pub(crate) limit_min: AtomicU64,
    /// The nanoseconds that a write owes for each KiB, since garbage is above its upper mark.
    pub(crate) delay: AtomicU64,
}

impl Admission {
    pub(crate) fn new(environment: &Environment) -> Self {
        let (writers, space_writers) = (
            WriteController::new(DebtPolicy::EACH_WRITER, environment),
            WriteController::new(DebtPolicy::EACH_WRITER, environment),
        );
        let (flushes, is_flush_queued, is_collect_queued, delay) = Default::default();
        let (collections, is_space_wanted, is_futile, limit_min) = Default::default();
        Self {
            writers,
            flushes,
            is_flush_queued,
            is_collect_queued,
            collections,
            space_writers,
            is_space_wanted,
            is_futile,
            limit_min,
            delay,
        }
    }
}

impl Admission {
    /// Returns the long waits of writers, by cause, without those in the index.
    pub(crate) fn long_waits(&self) -> impl Iterator<Item = (&'static str, WaitCounts)> {
        let buffers = self.writers.long_waits("room in write buffers", "garbage above its mark");
        let space = self.space_writers.long_waits("space for values", "space for values, slowed");
        buffers.into_iter().chain(space)
    }
}

/// Returns whether the value of a pair gets a record of its own.
pub(crate) fn has_value_of_its_own(key: &[u8], value: &[u8], separation_bytes: u32) -> bool {
    key.len() + value.len() >= separation_bytes as usize
}

impl Shared {
    /// Reserves room for a write in write buffers, and in the index.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        demand: &Demand<'_>,
        wait: Wait,
    ) -> Result<Option<Reservation<'_>>> {
        if let Demand::Ops(ops) = demand {
            check_ranges(ops)?;
        }
        let Some(space) = self.reserve_space(demand, wait)? else { return Ok(None) };
        let Some(buffers) = Admits::reserve(self, demand, wait)? else { return Ok(None) };
        let reserved = match demand {
            Demand::Ops(ops) => {
                let ops: Vec<_> = ops.iter().map(|op| self.index_op(op)).collect();
                self.index.reserve(&Demand::Ops(&ops), wait)
            }
            Demand::Update { key, bytes_max } => {
                let bytes_max = self.index_value_bytes(key.len(), *bytes_max);
                self.index.reserve(&Demand::Update { key, bytes_max }, wait)
            }
            Demand::Ingestion => self.index.reserve(demand, wait),
        };
        let placed = |error| self.values.failures.placed(in_units_of(demand, error));
        let index = reserved.map_err(placed)?;
        Ok(index.map(|index| buffers.with(index.with(space))))
    }

    /// Returns the longest step that the index may get for this one.
    fn index_op<'a>(&self, op: &Op<'a>) -> Op<'a> {
        match op {
            Op::Put { key, value } => {
                let bytes = self.index_value_bytes(key.len(), value.len() as u64);
                Op::Put { key, value: ZEROS.get(..bytes as usize).unwrap_or(&ZEROS) }
            }
            other => *other,
        }
    }

    /// Returns the bytes of the longest index value for a value of up to `bytes_max` bytes.
    fn index_value_bytes(&self, key_bytes: usize, bytes_max: u64) -> u64 {
        let inline_max = (self.options.separation_bytes as usize).saturating_sub(key_bytes) as u64;
        (bytes_max.min(inline_max) + 1).max(HANDLE_BYTES_MAX as u64)
    }

    /// Returns the bytes of the record of a step.
    fn record_bytes(&self, key: &[u8], value: Option<&[u8]>) -> u64 {
        let value = value.filter(|it| has_value_of_its_own(key, it, self.options.separation_bytes));
        record_bytes(key.len(), value.map_or(0, <[u8]>::len)) as u64
    }
}

/// Returns the refusal of a write that is too large for the index in bytes of the write itself.
fn in_units_of(demand: &Demand<'_>, error: Error) -> Error {
    let Error::WriteTooLarge { bytes, limit } = error else { return error };
    let whole = u128::from(demand.bytes());
    let limit = u128::from(limit) * whole / u128::from(bytes.max(1));
    Error::WriteTooLarge { bytes: demand.bytes(), limit: limit as u64 }
}

impl Admits for Shared {
    /// Bytes of its records.
    type Size = u64;
    /// The number of flushes.
    type Since = u64;
    const WAITS_FOR: &'static str = "unflushed data in memory";

    fn parts(&self) -> Parts<'_> {
        let Self { admission, group, health, values, host, .. } = self;
        let (writers, memory, limit) =
            (&admission.writers, &*values.accounts.buffers, host.memory.limit());
        Parts { writers, group, health, memory, limit }
    }

    fn size_of(self: &Arc<Self>, demand: &Demand<'_>, _wait: Wait) -> Result<u64> {
        Ok(match demand {
            Demand::Ops(ops) => ops.iter().map(|op| self.record_bytes(op.key(), op.value())).sum(),
            Demand::Update { key, bytes_max } => {
                record_bytes(key.len(), *bytes_max as usize) as u64
            }
            Demand::Ingestion => 0,
        })
    }

    fn memory_of(size: u64) -> u64 {
        size
    }

    fn memory_max(&self, _size: u64) -> u64 {
        self.memory_split().buffer_bytes
    }

    fn delay(&self) -> u64 {
        self.admission.delay.load(Relaxed)
    }

    /// Entries of footers have a limit as well: twice the mark above which segments are sealed.
    fn try_reserve(&self, size: u64) -> Option<Reservation<'_>> {
        if self.values.entry_bytes() > 2 * self.memory_split().entry_bytes {
            return None;
        }
        let room = self.try_reserve_memory(size)?;
        self.shrink_cache_for_writers();
        Some(room)
    }

    fn grant(self: &Arc<Self>, size: u64, _wait: Wait) -> Option<Reservation<'_>> {
        let room = self.try_reserve(size);
        if room.is_some() {
            return room;
        }
        let has_others = self.values.accounts.buffers.has_reservations();
        let is_idle = !has_others && self.values.buffered() == 0;
        let room = is_idle.then(|| self.reserve_anyway(size))?;
        self.shrink_cache_for_writers();
        Some(room)
    }

    fn make_room(self: &Arc<Self>, _size: u64) -> bool {
        let is_above = self.values.entry_bytes() > self.memory_split().entry_bytes;
        let has_work = self.values.buffered() > 0 || is_above;
        if has_work {
            self.schedule_flush();
        }
        has_work
    }

    fn begin_wait(&self, size: u64) -> Result<u64> {
        match self.values.failures.pausing(FLUSH) {
            Some(cause) => Err(self.refusal(size, cause)),
            None => Ok(self.admission.flushes.begun()),
        }
    }

    fn check_memory(&self, size: u64, begun: &u64) -> Result<()> {
        match self.admission.flushes.failure_after(*begun) {
            Some(cause) => Err(self.refusal(size, cause)),
            None => Ok(()),
        }
    }
}

impl Room for Shared {
    fn release(&self, bytes: u64, slot: u32) {
        match slot {
            0 => self.return_room(bytes),
            slot => self.return_space(bytes, slot),
        }
    }
}
