//! Admission of writes whose room is the memory of memtables.

use std::sync::Arc;

use engine::{Demand, Error, Health, Reservation, Result, Room, Wait};
use memtable::MemtableMemory;
use workers::Group;

use crate::WriteController;
use crate::planted::Planted;

/// The parts of a store that its admission of writes uses.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// The waits of writers.
    pub writers: &'a WriteController,
    /// The group of its background work.
    pub group: &'a Group,
    /// Its health.
    pub health: &'a Health,
    /// The memory of its memtables.
    pub memory: &'a MemtableMemory,
    /// The bytes of its budget.
    pub limit: u64,
}

/// A store whose writes reserve memory of its memtables.
///
/// The store says how large a write is, what it owes, and whether there is room for it. The order
/// of these steps is the same for all stores, and is here: [`Admits::reserve`].
pub trait Admits: Room + Sized {
    /// The size of a write.
    type Size: Copy;
    /// The numbers of the last tries of background work before a writer has begun to wait.
    type Since;
    /// The memory that a refused write waited for, as its error names it.
    const WAITS_FOR: &'static str;

    /// Returns its parts.
    fn parts(&self) -> Parts<'_>;

    /// Returns the size of a write.
    ///
    /// # Errors
    /// The store never accepts it.
    fn size_of(self: &Arc<Self>, demand: &Demand<'_>, wait: Wait) -> Result<Self::Size>;

    /// Returns the bytes that a write takes in memtables.
    fn memory_of(size: Self::Size) -> u64;

    /// Returns the bytes that all memtables together may have once the write is in them.
    fn memory_max(&self, size: Self::Size) -> u64;

    /// Returns the nanoseconds that a write owes for each KiB; 0 if background work keeps up.
    fn delay(&self) -> u64 {
        0
    }

    /// Reserves room, if there is some.
    fn try_reserve(&self, size: Self::Size) -> Option<Reservation<'_>> {
        self.try_reserve_memory(size)
    }

    /// Reserves room for the first writer in the queue, above the share if no background work can
    /// make any. With [`Wait::Yes`] it may wait for the end of work that is under way, and with
    /// [`Wait::No`] for nothing.
    fn grant(self: &Arc<Self>, size: Self::Size, wait: Wait) -> Option<Reservation<'_>>;

    /// Has the background make room, without a wait. Returns whether it has any work to do for
    /// that.
    fn make_room(self: &Arc<Self>, size: Self::Size) -> bool;

    /// Begins the wait of a writer.
    ///
    /// # Errors
    /// Background work fails, and is not tried again before a pause is over.
    fn begin_wait(&self, size: Self::Size) -> Result<Self::Since>;

    /// Checks the background work that makes memory, before more of it is scheduled.
    ///
    /// # Errors
    /// It has failed since the writer began to wait, and no other work helps the writer.
    fn check_memory(&self, size: Self::Size, since: &Self::Since) -> Result<()>;

    /// Checks other background work that the writer waits for, once all of it is scheduled.
    ///
    /// # Errors
    /// The same.
    fn check_other_work(&self, _size: Self::Size, _since: &Self::Since) -> Result<()> {
        Ok(())
    }

    /// Reserves room for a write, as [`engine::Engine::reserve`] says.
    ///
    /// # Errors
    /// Those of [`engine::Engine::reserve`].
    fn reserve(
        self: &Arc<Self>,
        demand: &Demand<'_>,
        wait: Wait,
    ) -> Result<Option<Reservation<'_>>> {
        let Parts { health, writers, limit, .. } = self.parts();
        health.check_writable()?;
        let bytes = demand.bytes();
        let size = self.size_of(demand, wait)?;
        // A write in the journal may come from a time when the keyspace had more memory.
        if bytes > limit && wait != Wait::Replay {
            return Err(Error::WriteTooLarge { bytes, limit });
        }
        match sync::mutant!(Planted::WaitedAnyway, wait, Wait::Yes) {
            Wait::No if self.delay() > 0 => Ok(None),
            Wait::No => Ok(self.try_grant(size)),
            Wait::Yes => {
                writers.delay(bytes, || self.delay());
                self.wait_for_room(size, wait).map(Some)
            }
            Wait::Replay => {
                let room = self.wait_for_room(size, wait);
                health.check_writable()?;
                Ok(Some(room.unwrap_or_else(|_| self.reserve_anyway(size))))
            }
        }
    }

    /// Reserves memory, if memtables stay within [`Admits::memory_max`].
    fn try_reserve_memory(&self, size: Self::Size) -> Option<Reservation<'_>> {
        match Self::memory_of(size) {
            0 => Some(Reservation::uncounted()),
            bytes => self.parts().memory.try_reserve(bytes, self.memory_max(size), self),
        }
    }

    /// Reserves memory, also if that is above the share of the memtables.
    fn reserve_anyway(&self, size: Self::Size) -> Reservation<'_> {
        self.parts().memory.reserve_anyway(Self::memory_of(size), self)
    }

    /// Reserves what a writer in the queue would be granted now. If that is nothing, the background
    /// makes room.
    fn try_grant(self: &Arc<Self>, size: Self::Size) -> Option<Reservation<'_>> {
        let Parts { writers, group, .. } = self.parts();
        let granted = writers.try_beside_queue(group, || {
            self.try_reserve(size).or_else(|| writers.try_first(|| self.grant(size, Wait::No)))
        });
        if granted.is_none() {
            self.make_room(size);
        }
        granted
    }

    /// Waits until there is room. A long wait counts, unless it is of a replay.
    ///
    /// # Errors
    /// No work will make any: the failure of that work.
    fn wait_for_room(self: &Arc<Self>, size: Self::Size, wait: Wait) -> Result<Reservation<'_>> {
        let Parts { writers, group, health, .. } = self.parts();
        if let Some(room) = writers.try_beside_queue(group, || self.try_reserve(size)) {
            return Ok(room);
        }
        let since = self.begin_wait(size)?;
        let attempt = || {
            health.check_writable()?;
            if let Some(room) = self.grant(size, Wait::Yes) {
                return Ok(Some(room));
            }
            self.check_memory(size, &since)?;
            let has_work = self.make_room(size);
            self.check_other_work(size, &since)?;
            // The group notes the end of background work, and a reservation that returns. It does
            // not note that a reader drops a memtable: if there is no work, that may have made
            // room.
            Ok(if has_work { None } else { self.grant(size, Wait::Yes) })
        };
        let wait_in_queue = || writers.wait_for_room(group, attempt);
        if wait == Wait::Replay { wait_in_queue() } else { writers.time_room(wait_in_queue) }
    }

    /// Returns the error of a write that finds no memory because background work has failed with
    /// `cause`.
    fn refusal(&self, size: Self::Size, cause: Error) -> Error {
        if !cause.is_retryable() {
            return cause;
        }
        Error::SpaceUsedUp {
            what: Self::WAITS_FOR,
            bytes: self.parts().memory.bytes(),
            limit: self.memory_max(size).saturating_sub(Self::memory_of(size)),
            cause: Arc::new(cause),
        }
    }

    /// Returns the bytes of a reservation that were not spent. A writer in the queue may wait for
    /// them.
    fn return_room(&self, bytes: u64) {
        let Parts { writers, group, memory, .. } = self.parts();
        memory.end_reservation(bytes);
        sync::mutant!(Planted::ReturnedUnseen, writers.note_returned(group), ());
    }
}
