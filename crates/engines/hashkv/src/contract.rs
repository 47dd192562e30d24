//! The store and the engine contract. Each call but the close is handed to the file that does it.

use std::sync::Arc;

use codec::SeqNo;
use device::Device;
use engine::{
    At, BackgroundError, Capabilities, Cursor, Demand, Direction, EachLookup, Engine, FoundState,
    GoOn, KeyRange, Lookup, Op, Pin, Ranges, Reservation, ResizableMemory, Result, Stats, Visit,
    Wait, walk_in_order,
};

use crate::driver::DRIVER;
use crate::examine::tolerated;
use crate::store::Shared;
use crate::values::failures::FLUSH;

/// Values in segments that are grouped by the hashes of their keys, and an ordered index of the
/// keys. Open it with [`Store::open`], use it through [`Engine`].
#[derive(Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

impl FoundState for Store {
    fn make_durable(&self) -> Result<bool> {
        self.shared.values.make_durable()?;
        self.shared.index.make_durable()
    }
}

impl Engine for Store {
    fn capabilities(&self) -> Capabilities {
        DRIVER.capabilities
    }

    fn lookup(&self, key: &[u8], at: At<'_>, into: &mut Vec<u8>) -> Result<Lookup> {
        self.shared.lookup(key, at, into)
    }

    fn lookup_many(&self, keys: &[&[u8]], at: At<'_>, each: &mut EachLookup<'_>) -> Result<()> {
        self.shared.lookup_many(keys, at, each)
    }

    fn reserve(&self, demand: &Demand<'_>, wait: Wait) -> Result<Option<Reservation<'_>>> {
        self.shared.reserve(demand, wait)
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
        self.shared.scan(range, direction, pin)
    }

    fn walk(&self, from: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        walk_in_order(self, self.shared.host.sequence.pin(), from, visit)
    }

    fn flush(&self) -> Result<()> {
        self.shared.health.check_writable()?;
        let flushed = self.shared.index.flush();
        flushed.map_err(|error| self.shared.values.failures.placed(error))?;
        self.shared.collect_if_due();
        Ok(())
    }

    fn checkpoint(&self, into: Arc<dyn Device>, go_on: &GoOn<'_>) -> Result<()> {
        self.shared.checkpoint(&into, go_on)
    }

    fn persisted(&self) -> SeqNo {
        self.shared.index.persisted()
    }

    fn stats(&self) -> Stats {
        self.figures()
    }

    fn background_errors(&self) -> Vec<BackgroundError> {
        let failures = &self.shared.values.failures;
        let mut errors = self.shared.index.background_errors();
        for error in &mut errors {
            error.cause = failures.placed(error.cause.clone());
        }
        errors.extend(failures.errors.report(|work, _| work == FLUSH));
        errors
    }

    fn memory(&self) -> Option<&dyn ResizableMemory> {
        Some(self)
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        Some(self)
    }

    fn close(&self) -> Result<()> {
        self.shared.close()
    }
}

impl Shared {
    /// Seals the segments that accept records, stops the background work, and releases the files.
    pub(crate) fn close(&self) -> Result<()> {
        let is_open = self.health.check_open().is_ok();
        let stopped = self.stop();
        // A compaction or a checkpoint of another thread ends soon, since the store is closed.
        let _exchanges = self.values.gates.exchanges.lock();
        let sealed = if is_open { tolerated(self.values.seal_all()) } else { Ok(()) };
        self.values.close();
        stopped.and(sealed)
    }

    /// Releases the files of a store that has not opened. Changes none of them.
    pub(crate) fn abandon(&self) {
        // The opening returns its own error.
        let _ = self.stop();
        self.values.close();
    }

    fn stop(&self) -> Result<()> {
        self.health.close();
        let panics = self.group.stop();
        let closed = self.index.close();
        self.reads.close();
        engine::stopped(panics).and(closed)
    }
}
