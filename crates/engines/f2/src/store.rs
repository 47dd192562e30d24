//! The handle: its parts, and the engine contract, each call handed to its file.

use std::sync::Arc;
use std::time::Duration;

use device::Device;
use engine::{
    At, BackgroundError, BackgroundErrors, Capabilities, Demand, EachLookup, Engine, FoundState,
    GoOn, Health, Host, Lookup, Op, Operator, Ranges, Reservation, ResizableMemory, Result, SeqNo,
    Stats, Updated, Updates, Visit, Wait,
};
use sync::epoch::Epochs;
use workers::Group;

use crate::admission::Admission;
use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::cold::Cold;
use crate::cold_index::DigestFigures;
use crate::compaction::Compactions;
use crate::driver::DRIVER;
use crate::hot::Hot;
use crate::hybrid_log::HybridLog;
use crate::key_hash::KeyHash;
use crate::memory_use::StoreMemory;
use crate::ops::disk_lookup::reads::LookupReads;
use crate::planted::{Planted, mutant};
use crate::read_cache::ReadCache;
use crate::upkeep::Upkeep;

/// A hash store over a hybrid log. Open it with [`Store::open`], use it through [`Engine`].
#[derive(Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

/// The state that operations and background work share.
pub(crate) struct Shared {
    pub(crate) host: Host,
    pub(crate) health: Arc<Health>,
    pub(crate) epochs: Epochs,
    pub(crate) hot: Hot,
    pub(crate) cold: Option<Cold>,
    pub(crate) cache: ReadCache,
    pub(crate) memory: StoreMemory,
    pub(crate) admission: Admission,
    pub(crate) compactions: Compactions,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) lookups: LookupReads,
    pub(crate) background: Background,
}

/// The background work of a store: the group that runs it, and whether any of it sleeps or fails.
pub(crate) struct Background {
    pub(crate) workers: Arc<Group>,
    pub(crate) upkeep: Upkeep,
    pub(crate) errors: BackgroundErrors,
}

/// The checkpoint from which a store was opened, and the times that opening it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) time: Duration,
    /// Of that, to read the hot log and make the hot index.
    pub(crate) hot_log_time: Duration,
    /// And the chunk log, and the directory of the cold index.
    pub(crate) chunk_log_time: Duration,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("tail", &self.hot.log.tail()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::of(key, self.hot.hash_seed)
    }

    /// The figures of digests; nothing with a single log.
    pub(crate) fn digest_figures(&self) -> DigestFigures {
        self.cold.as_ref().map(|cold| cold.index.digests.figures()).unwrap_or_default()
    }

    /// The hot, the cold and the chunk log.
    pub(crate) fn logs(&self) -> [Option<&Arc<HybridLog>>; 3] {
        let cold = self.cold.as_ref();
        [Some(&self.hot.log), cold.map(|cold| &cold.log), cold.map(|cold| &cold.chunk_log)]
    }
}

impl FoundState for Store {
    fn make_durable(&self) -> Result<bool> {
        self.shared.make_opening_durable()
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

    fn updates(&self) -> Option<&dyn Updates> {
        Some(self)
    }

    fn walk(&self, from: Option<&[u8]>, visit: &mut Visit<'_>) -> Result<()> {
        self.shared.walk_pairs(from, visit)
    }

    fn position(&self, key: &[u8]) -> u64 {
        self.shared.position(key)
    }

    fn ranges(&self) -> Option<&dyn Ranges> {
        Some(self)
    }

    fn flush(&self) -> Result<()> {
        let flushed = self.shared.flush();
        // Data on the device may be compacted.
        self.shared.wake_upkeep();
        flushed
    }

    fn checkpoint(&self, into: Arc<dyn Device>, go_on: &GoOn<'_>) -> Result<()> {
        self.shared.checkpoint(&*into, go_on)
    }

    fn persisted(&self) -> SeqNo {
        self.shared.checkpoints.persisted()
    }

    fn stats(&self) -> Stats {
        self.shared.stats()
    }

    fn background_errors(&self) -> Vec<BackgroundError> {
        self.shared.background_errors()
    }

    fn memory(&self) -> Option<&dyn ResizableMemory> {
        self.shared.memory.split.plan().limit_max().map(|_| self as &dyn ResizableMemory)
    }

    fn close(&self) -> Result<()> {
        mutant!(Planted::ClosedUnsaid, self.shared.health.close(), ());
        let panics = self.shared.background.workers.stop();
        // The next opening removes files that stay.
        let _left: Result<()> = self.shared.leave_room();
        self.shared.checkpoints.checkpointer.lock().close();
        self.shared.lookups.pool.close();
        self.shared.logs().into_iter().flatten().for_each(|log| log.close());
        engine::stopped(panics)
    }
}

impl Updates for Store {
    fn try_update(
        &self,
        key: &[u8],
        operator: &mut dyn Operator,
        seqno: SeqNo,
        room: &mut Reservation<'_>,
    ) -> Result<Updated> {
        self.shared.try_update(key, operator, seqno, room)
    }
}
