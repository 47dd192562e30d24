//! Admission of writes: their room in memtables, and their debt to compactions that are behind.
//!
//! 1. *Debt.* A write owes time in proportion to its bytes and to the height of Level 0 above its
//!    mark. So writers come down to the pace of the compactions. At twice the mark they wait for a
//!    compaction. The height is measured in thirds of the memtables' share, or in the tables that
//!    overlap at one key, if these are more ([`Version::level0_weight`]).
//! 2. *Room.* A write reserves memory of the memtables. If that would bring them above their share,
//!    the write waits for flushes of all memtables that wait for one. Then memtables that are
//!    written to are flushed as well. A write of any size is granted once no other write has a
//!    reservation and nothing else can be flushed for it.
//! 3. *Refusal.* Flushes may fail for lack of room on the device. A write that then finds no memory
//!    is refused. The next writers try the flushes again, after pauses that grow. A replayed write
//!    is granted even then.
//!
//! [`Version::level0_weight`]: lsm_tree::version::Version::level0_weight

use std::sync::Arc;

use admission::{Admits, Attempts, DebtPolicy, Parts, WriteController};
use engine::{BackgroundErrors, Demand, Error, Op, Reservation, Result, Room, Wait};
use environment::Environment;

use crate::memtable::{bytes_of_entry, entry_bytes};
use crate::store::Shared;

/// The work of flushes, as background errors name it.
pub(crate) const FLUSH: &str = "the flush of memtables";
/// Nanoseconds that a table's worth above the mark adds to the time of a KiB: at one table 50 MB/s,
/// at ten 5 MB/s.
const NANOS_PER_KIB: u64 = 20 * 1024;

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
pub(crate) struct Size {
    /// Bytes that it takes in memtables.
    memory: u64,
    /// Whether it needs room in Level 0. A replayed write does not wait for that.
    needs_level0: bool,
}

impl Admission {
    pub(crate) fn new(environment: &Environment) -> Self {
        let (errors, flushes, compactions) = Default::default();
        Self {
            writers: WriteController::new(DebtPolicy::EACH_WRITER, environment),
            errors,
            flushes,
            compactions,
        }
    }
}

impl Admits for Shared {
    type Size = Size;
    /// The numbers of flushes and of compactions.
    type Since = (u64, u64);
    const WAITS_FOR: &'static str = "unflushed data in memory";

    fn parts(&self) -> Parts<'_> {
        let Self { admission, background, health, memtables, host, .. } = self;
        let (writers, group) = (&admission.writers, &background.group);
        let (memory, limit) = (&**memtables.memory(), host.memory.limit());
        Parts { writers, group, health, memory, limit }
    }

    fn size_of(self: &Arc<Self>, demand: &Demand<'_>, wait: Wait) -> Result<Size> {
        let needs_level0 = wait != Wait::Replay;
        let memory = match demand {
            Demand::Ops(ops) => {
                let limit = self.host.memory.limit();
                if needs_level0 && self.state.load().deletes.are_too_many_with(ops, limit) {
                    self.end_range_deletes();
                    return Err(Error::OutOfMemory { limit });
                }
                memory_bytes(ops)
            }
            Demand::Update { key, bytes_max } => bytes_of_entry(key.len(), *bytes_max as usize),
            Demand::Ingestion => 0,
        };
        Ok(Size { memory, needs_level0 })
    }

    fn memory_of(size: Size) -> u64 {
        size.memory
    }

    fn memory_max(&self, _size: Size) -> u64 {
        self.memory_split().memtables_bytes
    }

    fn delay(&self) -> u64 {
        let above = self.level0_weight().saturating_sub(self.options.level0_tables_slow) as u64;
        if above > 0 && self.health.check_writable().is_ok() { NANOS_PER_KIB * above } else { 0 }
    }

    /// Reserves memory if there is some, and room in Level 0.
    fn try_reserve(&self, size: Size) -> Option<Reservation<'_>> {
        if !self.has_level0_room(size) {
            return None;
        }
        let room = self.try_reserve_memory(size)?;
        if size.memory > 0 {
            self.cache.shrink_for_writers(&self.memory_split());
        }
        Some(room)
    }

    fn grant(self: &Arc<Self>, size: Size, wait: Wait) -> Option<Reservation<'_>> {
        if !self.has_level0_room(size) {
            return None;
        }
        if let room @ Some(_) = self.try_reserve(size) {
            return room;
        }
        let memory = self.memtables.memory();
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
        // A flush that has just ended may still hold the memtables that it has flushed.
        let flusher = match wait {
            Wait::No => self.background.flusher.try_lock()?,
            Wait::Yes | Wait::Replay => self.background.flusher.lock(),
        };
        drop(flusher);
        Some(self.try_reserve(size).unwrap_or_else(|| self.reserve_anyway(size)))
    }

    fn make_room(self: &Arc<Self>, _size: Size) -> bool {
        self.schedule_flush();
        self.schedule_compactions();
        // A grant waits for the flusher, so no memory returns without a task.
        true
    }

    fn begin_wait(&self, size: Size) -> Result<(u64, u64)> {
        let Admission { errors, flushes, compactions, .. } = &self.admission;
        match errors.pausing(FLUSH, &self.host.environment) {
            Some(cause) if !self.has_memory(size) => Err(self.refusal(size, cause)),
            // A failure from before this write may have passed.
            _ => Ok((flushes.begun(), compactions.begun())),
        }
    }

    fn check_memory(&self, size: Size, (flush, _): &(u64, u64)) -> Result<()> {
        match self.admission.flushes.failure_after(*flush) {
            Some(cause) if !self.has_memory(size) => Err(self.refusal(size, cause)),
            _ => Ok(()),
        }
    }

    fn check_other_work(&self, size: Size, (_, compaction): &(u64, u64)) -> Result<()> {
        if !self.has_memory(size) || self.has_level0_room(size) {
            return Ok(());
        }
        // Only compactions can help.
        let failure = self.admission.compactions.failure_after(*compaction);
        failure.or_else(|| self.compactions_halted()).map_or(Ok(()), Err)
    }
}

impl Shared {
    fn level0_weight(&self) -> usize {
        self.state.load().version.level0_weight(self.memory_split().level0_unit())
    }

    fn has_level0_room(&self, size: Size) -> bool {
        !size.needs_level0 || self.level0_weight() <= 2 * self.options.level0_tables_slow.max(1)
    }

    /// Returns whether the memtables have memory for a write, or none of them waits for a flush.
    fn has_memory(&self, size: Size) -> bool {
        let most = self.memory_split().memtables_bytes.saturating_sub(size.memory);
        self.memtables.memory().bytes() <= most || self.state.load().due() == 0
    }

    /// Seals the memtables that are written to and full with `bytes` more.
    fn seal_for(self: &Arc<Self>, bytes: u64) {
        let full = self.memory_split().memtable_bytes;
        self.seal_where(&|active| {
            !active.is_empty() && active.bytes().saturating_add(bytes) > full
        });
    }

    /// Notes how a flush has ended: writers learn of a failure, and others wait before they try
    /// again.
    pub(crate) fn note_flush(&self, number: u64, flushed: &Result<()>) {
        self.admission.errors.note(FLUSH, flushed, &self.host.environment);
        self.admission.flushes.end(number, flushed);
    }
}

impl Room for Shared {
    fn release(&self, bytes: u64, _slot: u32) {
        self.return_room(bytes);
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
