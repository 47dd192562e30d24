//! The handle: its parts, its state, and the engine contract, each call handed to its file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};

use device::Device;
use engine::{
    At, BackgroundError, BackgroundErrors, Capabilities, Cursor, Demand, Direction, Engine,
    FoundState, GoOn, Health, Host, IdleLooks, KeyRange, Lookup, Op, Pin, Ranges, Reservation,
    Result, Rounds, SeqNo, Stats, Visit, Wait, walk_in_order,
};
use sync::locks::Mutex;
use workers::Group;

use crate::driver::DRIVER;
use crate::flush::{Flusher, LastSnapshot};
use crate::map::Map;
use crate::options::Options;

/// An ordered map in memory, with snapshots of it on the device. Open it with [`Store::open`], use
/// it through [`Engine`].
#[derive(Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    /// Background pruning.
    pub(crate) group: Group,
}

/// The state that views, cursors and background work share.
pub(crate) struct Shared {
    pub(crate) map: Map,
    pub(crate) host: Host,
    pub(crate) options: Options,
    pub(crate) health: Arc<Health>,
    /// Everything up to this is in the snapshot that the superblock names.
    pub(crate) persisted: AtomicU64,
    /// One flush at a time; what it needs from the last one.
    pub(crate) flusher: Mutex<Flusher>,
    pub(crate) last_snapshot: LastSnapshot,
    /// Flushes that fail for a reason that may pass.
    pub(crate) errors: BackgroundErrors,
    pub(crate) looks: IdleLooks,
    /// The rounds of background pruning.
    pub(crate) rounds: Rounds,
    /// Keys without a value that scans have stepped over, and leaves without pairs.
    pub(crate) scanned_dead: AtomicU64,
    /// Bytes of reservations that are charged to the budget.
    pub(crate) reserved: AtomicU64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("map", &self.map).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn persisted(&self) -> SeqNo {
        SeqNo::new(self.persisted.load(Acquire))
    }
}

impl FoundState for Store {
    fn make_durable(&self) -> Result<bool> {
        self.shared.make_durable()
    }
}

impl Engine for Store {
    fn capabilities(&self) -> Capabilities {
        DRIVER.capabilities
    }

    fn lookup(&self, key: &[u8], at: At<'_>, into: &mut Vec<u8>) -> Result<Lookup> {
        let is_found = match at {
            At::Newest | At::ForUpdate => self.shared.get(key, into)?,
            At::Pin(pin) => self.shared.get_at(key, pin.seqno().get(), into)?,
        };
        Ok(Lookup::ended(is_found))
    }

    fn reserve(&self, demand: &Demand<'_>, wait: Wait) -> Result<Option<Reservation<'_>>> {
        self.shared.reserve(demand, wait).map(Some)
    }

    fn apply(&self, ops: &[Op<'_>], seqno: SeqNo, _: &mut Reservation<'_>) -> Result<()> {
        let applied = self.shared.apply(ops, seqno);
        self.wake_pruning();
        self.shared.trim_if_due(&self.group);
        applied
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

    fn ranges(&self) -> Option<&dyn Ranges> {
        Some(self)
    }

    fn flush(&self) -> Result<()> {
        self.shared.flush()
    }

    fn checkpoint(&self, into: Arc<dyn Device>, go_on: &GoOn<'_>) -> Result<()> {
        self.shared.checkpoint(&*into, go_on)
    }

    fn persisted(&self) -> SeqNo {
        self.shared.persisted()
    }

    fn stats(&self) -> Stats {
        self.shared.stats()
    }

    fn background_errors(&self) -> Vec<BackgroundError> {
        self.shared.errors.report(|_, _| false)
    }

    fn close(&self) -> Result<()> {
        self.shared.health.close();
        let panics = self.group.stop();
        // A flush that runs sees the state between two blocks and stops; then the files are closed.
        self.shared.flusher.lock().close();
        engine::stopped(panics)
    }
}

impl Ranges for Store {
    /// Writes a snapshot of all keys, unless the last one holds the present: it has nothing that is
    /// deleted.
    fn compact(&self, _range: &KeyRange) -> Result<()> {
        self.shared.flush()
    }

    /// The keys and values that a snapshot has of the range. Visits each key.
    fn approximate_bytes(&self, range: &KeyRange) -> Result<u64> {
        self.shared.health.check_open()?;
        Ok(self.shared.map.pair_bytes(range))
    }
}
