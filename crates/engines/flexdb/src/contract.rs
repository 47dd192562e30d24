//! The store and the engine contract. Each call but the close is handed to the file that does it.

use std::sync::Arc;

use admission::Admits;
use codec::SeqNo;
use device::Device;
use engine::{
    At, BackgroundError, Capabilities, Cursor, Demand, Direction, Engine, Error, FoundState, GoOn,
    KeyRange, Lookup, Op, Pin, Ranges, Reservation, ResizableMemory, Result, Stats, Visit, Wait,
    walk_in_order,
};
use sync::mutant;

use crate::driver::DRIVER;
use crate::error::from_space;
use crate::planted::Planted;
use crate::store::Shared;

/// All pairs sorted in a space, in place. Open it with [`Store::open`], use it through [`Engine`].
#[derive(Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

impl FoundState for Store {
    fn make_durable(&self) -> Result<bool> {
        self.shared.space.try_begin().map_err(from_space)
    }
}

impl Engine for Store {
    fn capabilities(&self) -> Capabilities {
        DRIVER.capabilities
    }

    fn lookup(&self, key: &[u8], at: At<'_>, into: &mut Vec<u8>) -> Result<Lookup> {
        self.shared.lookup(key, at, into)
    }

    fn reserve(&self, demand: &Demand<'_>, wait: Wait) -> Result<Option<Reservation<'_>>> {
        Admits::reserve(&self.shared, demand, wait)
    }

    fn apply(&self, ops: &[Op<'_>], seqno: SeqNo, room: &mut Reservation<'_>) -> Result<()> {
        self.shared.apply(ops, seqno, room)
    }

    fn scan(
        &self,
        range: KeyRange,
        direction: Direction,
        pin: Arc<Pin>,
    ) -> Result<Box<dyn Cursor>> {
        self.shared.health.check_open()?;
        Ok(Box::new(self.shared.scan(range, direction, pin)))
    }

    fn walk(&self, from: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        walk_in_order(self, self.shared.host.sequence.pin(), from, visit)
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        Some(self)
    }

    fn flush(&self) -> Result<()> {
        let flushed = self.shared.flush();
        self.shared.wake_looks_unnumbered();
        flushed
    }

    fn checkpoint(&self, into: Arc<dyn Device>, go_on: &GoOn<'_>) -> Result<()> {
        self.shared.checkpoint(into, go_on)
    }

    fn persisted(&self) -> SeqNo {
        self.shared.writes.persisted()
    }

    fn stats(&self) -> Stats {
        self.shared.stats()
    }

    fn background_errors(&self) -> Vec<BackgroundError> {
        self.shared.background_errors()
    }

    fn memory(&self) -> Option<&dyn ResizableMemory> {
        Some(self)
    }

    fn close(&self) -> Result<()> {
        let shared = &self.shared;
        if shared.health.check_open().is_err() {
            return Ok(());
        }
        let is_writable = shared.health.check_writable().is_ok();
        shared.health.close();
        let panics = shared.background.group.stop();
        // Waits for the end of a commit on a caller's thread: otherwise a part of it would be made
        // durable below.
        let mut committer = shared.committer.lock();
        let install = mutant!(Planted::ClosedUninstalled, Some(shared.state.lock()), None);
        shared.state.clear();
        drop(install);
        // Not one that a commit may have left in the middle, nor of a store that has failed.
        let is_sound = is_writable && !committer.is_amid();
        let stored = engine::stopped(panics).and_then(|()| match is_sound {
            true => shared.store_index(committer.index().now()),
            false => Ok(()),
        });
        // Pairs that are found from here on are not kept.
        shared.cache.pairs.change().forget_all();
        committer.clear();
        shared.background.fragmented_queue.clear();
        shared.index_memory.clear_nodes();
        shared.reads.close();
        match shared.space.close().map_err(from_space) {
            // The failed call has returned that error.
            Err(Error::ReadOnly { .. } | Error::Closed) => stored,
            closed => closed.and(stored),
        }
    }
}

impl Ranges for Store {
    fn compact(&self, range: &KeyRange) -> Result<()> {
        let compacted = self.shared.compact_range(range);
        self.shared.wake_looks_unnumbered();
        compacted
    }

    fn approximate_bytes(&self, range: &KeyRange) -> Result<u64> {
        self.shared.approximate_bytes(range)
    }
}
