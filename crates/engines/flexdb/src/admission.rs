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

use admission::{Admits, Parts};
use arena::skip_list::SkipList;
use engine::{Demand, Op, Reservation, Result, Room, Wait};

use crate::store::Shared;
use crate::write::check_ranges;

/// The bytes that a write takes in memtables, and bytes that memtables may take for it above their
/// share.
type Size = (u64, u64);

impl Admits for Shared {
    type Size = Size;
    /// The number of commits.
    type Since = u64;
    const WAITS_FOR: &'static str = "uncommitted data in memory";

    fn parts(&self) -> Parts<'_> {
        Parts {
            writers: &self.writes.writers,
            group: &self.background.group,
            health: &self.health,
            memory: self.writes.memtables.memory(),
            limit: self.host.memory.limit(),
        }
    }

    fn size_of(self: &Arc<Self>, demand: &Demand<'_>, _wait: Wait) -> Result<Size> {
        let ops = match demand {
            Demand::Ops(ops) => check_ranges(ops).map(|()| *ops)?,
            Demand::Update { key, bytes_max } => {
                return Ok((SkipList::put_bytes(key.len(), *bytes_max as usize), 0));
            }
            Demand::Ingestion => return Ok((0, 0)),
        };
        let is_delete = ops.iter().all(|op| op.value().is_none());
        // If a commit was refused for lack of room, deletes may make some.
        let more = if is_delete { self.memory_split().memtable_bytes } else { 0 };
        Ok((ops.iter().map(bytes_of).sum(), more))
    }

    fn memory_of((memory, _): Size) -> u64 {
        memory
    }

    fn memory_max(&self, (_, more): Size) -> u64 {
        let share = self.memory_split().memtables_bytes;
        share.min(self.writes.steps.allowed()).saturating_add(more)
    }

    fn grant(self: &Arc<Self>, size: Size, _wait: Wait) -> Option<Reservation<'_>> {
        let room = self.try_reserve(size);
        if room.is_some() {
            return room;
        }
        // Before a memtable is sealed: what other writers insert meanwhile can be committed.
        let has_others = self.writes.memtables.memory().has_reservations();
        let state = self.state.load_full()?;
        let full = self.memory_split().memtable_bytes;
        if !state.active.is_empty() && state.active.bytes().saturating_add(size.0) > full {
            self.seal(&state.active);
            return None;
        }
        let is_idle = state.sealed.is_empty() && !has_others;
        is_idle.then(|| self.reserve_anyway(size))
    }

    fn make_room(self: &Arc<Self>, size: Size) -> bool {
        self.schedule_commit(self.memory_max(size).saturating_sub(size.0))
    }

    /// Returns the number of the last commit: the cause of an older failure may be gone.
    fn begin_wait(&self, _size: Size) -> Result<u64> {
        Ok(self.writes.commits.begun())
    }

    fn check_memory(&self, size: Size, begun: &u64) -> Result<()> {
        let Some(cause) = self.writes.commits.failure_after(*begun) else { return Ok(()) };
        self.health.check_writable()?;
        Err(self.refusal(size, cause))
    }
}

impl Room for Shared {
    fn release(&self, bytes: u64, _slot: u32) {
        self.return_room(bytes);
    }
}

/// Returns the bytes that a step takes in a memtable.
fn bytes_of(op: &Op<'_>) -> u64 {
    SkipList::put_bytes(op.key().len(), op.value().map_or(0, <[u8]>::len))
}
