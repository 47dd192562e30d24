//! Admission of writes: their room in memtables.
//!
//! 1. A write reserves memory of the memtables. If that would bring them above their share, the
//!    write waits for a commit of the memtables that wait for one. While a commit is under way, it
//!    waits for a step of it if it would fill the rest of the share too soon (`commit_steps.rs`).
//! 2. A write of any size is granted once no memtable waits for a commit and no other write has a
//!    reservation: then nothing else can be done for it.
//! 3. If a commit is refused for lack of room on the device, the writes that wait for it are
//!    refused. Deletes may take the memory of one more memtable, since they may make room. A write
//!    that is replayed is always granted.

use std::sync::Arc;
use std::time::Duration;

use admission::{Attempts, Pace, WriteController};
use arena::skip_list::SkipList;
use engine::{Demand, Error, Op, Reservation, Result, Room, Wait};

use crate::planted::{Planted, is_planted};
use crate::store::Shared;

/// Nothing slows writers down but the steps of commits.
const PACE: Pace = Pace { debt_min: Duration::MAX, payment_max: Duration::ZERO, turn_max: None };

/// The waits of writers, and the commits that they wait for.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) writers: WriteController,
    /// Commits in the background.
    pub(crate) commits: Attempts,
}

/// The size of a write.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Bytes that it takes in memtables.
    memory: u64,
    /// Bytes that memtables may take for it above their share.
    more: u64,
}

impl Default for Admission {
    fn default() -> Self {
        Self { writers: WriteController::new(PACE), commits: Attempts::default() }
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
            Wait::No => Ok(self.try_grant(size)),
            Wait::Yes => self.wait_for_room(size).map(Some),
            Wait::Replay => {
                let room = self.wait_for_room(size);
                self.health.check_writable()?;
                Ok(Some(room.unwrap_or_else(|_| self.reserve_anyway(size))))
            }
        }
    }

    /// Refuses a write that is never accepted, however much room there is.
    fn check_admission(&self, demand: &Demand<'_>, wait: Wait) -> Result<Size> {
        self.health.check_writable()?;
        let (bytes, memory, is_delete) = match demand {
            Demand::Ops(ops) => {
                check_ranges(ops)?;
                let is_delete = ops.iter().all(|op| op.value().is_none());
                let bytes = ops.iter().map(|op| op.bytes() as u64).sum();
                (bytes, ops.iter().map(bytes_of).sum(), is_delete)
            }
            Demand::Update { key, bytes_max } => {
                let bytes = key.len() as u64 + bytes_max;
                (bytes, SkipList::put_bytes(key.len(), *bytes_max as usize), false)
            }
            Demand::Ingestion => (0, 0, false),
        };
        let limit = self.host.memory.limit();
        // A write in the journal may come from a time when the keyspace had more memory.
        if bytes > limit && wait != Wait::Replay {
            return Err(Error::WriteTooLarge { bytes, limit });
        }
        // If a commit was refused for lack of room, deletes may make some.
        let more = if is_delete { self.memory_split().memtable_bytes } else { 0 };
        Ok(Size { memory, more })
    }

    /// Returns the bytes that memtables may take with a write.
    fn memory_max(&self, size: Size) -> u64 {
        let share = self.memory_split().memtables_bytes;
        share.min(self.steps.allowed()).saturating_add(size.more)
    }

    fn try_reserve(&self, size: Size) -> Option<Reservation<'_>> {
        match size.memory {
            0 => Some(Reservation::uncounted()),
            memory => self.family.memory().try_reserve(memory, self.memory_max(size), self),
        }
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
            self.try_reserve(size).or_else(|| writers.try_first(|| self.grant(size)))
        });
        if granted.is_none() {
            self.schedule_commit(self.memory_max(size).saturating_sub(size.memory));
        }
        granted
    }

    fn reserve_anyway(&self, size: Size) -> Reservation<'_> {
        self.family.memory().reserve_anyway(size.memory, self)
    }

    /// Waits until there is room. If a commit fails that has begun meanwhile, its failure is the
    /// error: the cause of an older failure may be gone.
    fn wait_for_room(self: &Arc<Self>, size: Size) -> Result<Reservation<'_>> {
        let Admission { writers, commits } = &self.admission;
        if let Some(room) = self.try_reserve_beside_queue(size) {
            return Ok(room);
        }
        let begun = if is_planted(Planted::OldFailureTold) { 0 } else { commits.begun() };
        writers.wait_for_room(&self.group, || {
            self.health.check_writable()?;
            if let Some(room) = self.grant(size) {
                return Ok(Some(room));
            }
            if let Some(cause) = commits.failure_after(begun) {
                self.health.check_writable()?;
                return Err(self.refusal(size, cause));
            }
            // The group notes the end of a commit, and a reservation that returns. It does not note
            // that a reader drops a memtable: without a due commit, that may have made room.
            if !self.schedule_commit(self.memory_max(size).saturating_sub(size.memory)) {
                return Ok(self.grant(size));
            }
            Ok(None)
        })
    }

    /// Reserves memory for a write, above the share if nothing can be committed for it.
    fn grant(self: &Arc<Self>, size: Size) -> Option<Reservation<'_>> {
        if let Some(room) = self.try_reserve(size) {
            return Some(room);
        }
        // Before a memtable is sealed: what other writers insert meanwhile can be committed.
        let has_others = self.family.memory().has_reservations();
        let state = self.state.load_full()?;
        let full = self.memory_split().memtable_bytes;
        if state.active.len() > 0 && state.active.bytes().saturating_add(size.memory) > full {
            self.seal(&state.active);
            return None;
        }
        let is_idle = state.sealed.is_empty() && !has_others;
        is_idle.then(|| self.reserve_anyway(size))
    }

    /// Returns whether memtables are within their share, or none of them waits for a commit.
    pub(crate) fn has_memory(&self) -> bool {
        let is_idle = || self.state.load().as_ref().is_none_or(|state| state.sealed.is_empty());
        self.family.memory().bytes() <= self.memory_split().memtables_bytes || is_idle()
    }

    /// The error of a write that finds no room because a commit has failed.
    fn refusal(&self, size: Size, cause: Error) -> Error {
        Error::SpaceUsedUp {
            what: "what waits in memory for a commit",
            bytes: self.family.memory().bytes(),
            limit: self.memory_max(size).saturating_sub(size.memory),
            cause: Arc::new(cause),
        }
    }
}

impl Room for Shared {
    fn give_back(&self, bytes: u64, _slot: u32) {
        self.family.memory().give_back(bytes);
        // A writer in the queue may wait for this reservation.
        self.admission.writers.note_returned(&self.group);
    }
}

/// Refuses to delete ranges.
pub(crate) fn check_ranges(ops: &[Op<'_>]) -> Result<()> {
    match ops.iter().any(Op::is_range) {
        true => Err(Error::NoRangeDeletes { engine: "flexdb" }),
        false => Ok(()),
    }
}

/// Returns the bytes that a step takes in a memtable.
fn bytes_of(op: &Op<'_>) -> u64 {
    SkipList::put_bytes(op.key().len(), op.value().map_or(0, <[u8]>::len))
}
