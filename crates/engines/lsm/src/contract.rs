//! The store and the engine contract. Each call but the close is handed to the file that does it.

use std::sync::Arc;

use admission::Admits;
use codec::SeqNo;
use device::Device;
use engine::{
    At, BackgroundError, Capabilities, Cursor, Demand, Direction, Engine, FoundState, GoOn,
    Ingestion, KeyRange, Lookup, Op, Pin, Ranges, Reservation, ResizableMemory, Result, Stats,
    Visit, Wait, walk_in_order,
};

use crate::driver::DRIVER;
use crate::ingest::SortedTables;
use crate::store::Shared;

/// A log-structured merge-tree. Open it with [`Store::open`], use it through [`Engine`].
#[derive(Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

impl FoundState for Store {
    fn make_durable(&self) -> Result<bool> {
        self.shared.make_durable().map(|()| true)
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
        self.shared.scan(range, direction, pin)
    }

    fn walk(&self, from: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        walk_in_order(self, self.shared.host.sequence.pin(), from, visit)
    }

    fn ingestion(&self) -> Result<Box<dyn Ingestion>> {
        Ok(Box::new(SortedTables::begin(&self.shared)?))
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
        self.shared.checkpoint(&into, go_on)
    }

    fn persisted(&self) -> SeqNo {
        self.shared.manifest.persisted()
    }

    fn stats(&self) -> Stats {
        self.shared.stats()
    }

    fn background_errors(&self) -> Vec<BackgroundError> {
        self.shared.admission.errors.report(|_, _| true)
    }

    fn memory(&self) -> Option<&dyn ResizableMemory> {
        Some(self)
    }

    fn close(&self) -> Result<()> {
        let shared = &self.shared;
        shared.health.close();
        let panics = shared.background.group.stop();
        // A flush on a caller's thread stops soon. Until then it may make and remove files, which
        // it must not do while another opening has them.
        let _flusher = shared.background.flusher.lock();
        shared.manifest.close();
        let install = shared.state.install.lock();
        shared.memtables.memory().keep_spare(0, 0);
        let closed = shared.state.load().closed();
        shared.state.store(Arc::new(closed));
        // A write that seals a memtable waits for this lock, and never for the device (L8).
        drop(install);
        shared.tables.obsolete.run();
        // Nor may cursors that are still there.
        shared.tables.close();
        shared.lookups.drop_index(&shared.host.memory);
        shared.state.open_cursors.leave_all_but(shared.state.load().generation);
        engine::stopped(panics)
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
