//! The handle: its parts, and the engine contract, each call handed to its file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};
use std::time::Duration;

use device::Device;
use engine::{
    At, BackgroundError, BackgroundErrors, Capabilities, Demand, EachLookup, Engine, FoundState,
    GoOn, Health, Host, Lookup, Op, Operator, Ranges, ReadSource, Reservation, ResizableMemory,
    Result, SeqNo, Stats, Updated, Updates, Visit, Wait,
};
use memory_budget::Account;
use reads::ReadPool;
use sync::Mutex;
use sync::epoch::Epochs;
use sync::locks::RwLock;
use workers::{Group, StopToken};

use crate::admission::Admission;
use crate::checkpoint::{Checkpoint, CheckpointGate, Checkpointer, Marks, OwedRelease};
use crate::cold::Cold;
use crate::cold_index::DigestFigures;
use crate::compaction::{CompactionFigures, DeadBytes, Work};
use crate::driver::DRIVER;
use crate::hash_index::HashIndex;
use crate::held_room::HeldRoom;
use crate::hybrid_log::HybridLog;
use crate::key_hash::KeyHash;
use crate::memory_split::MemorySplit;
use crate::memory_use::UserAccount;
use crate::ops::disk_lookup::reads::LookupReads;
use crate::planted::{Planted, is_planted};
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
    /// The hot index and the hot log; in a store of one log, the only ones.
    pub(crate) index: HashIndex,
    pub(crate) log: Arc<HybridLog>,
    pub(crate) cold: Option<Cold>,
    pub(crate) cache: ReadCache,
    pub(crate) split: MemorySplit,
    /// Bytes charged for parts that take memory of their own.
    pub(crate) own_memory: Account,
    pub(crate) hash_seed: u64,
    pub(crate) admission: Admission,
    /// Bytes that deletes have made dead.
    pub(crate) dead: DeadBytes,
    /// How often the log's beginning has moved; counted before it moves.
    pub(crate) truncations: sync::atomic::AtomicU64,
    /// Everything up to this is in the checkpoint that the superblock names.
    pub(crate) persisted: AtomicU64,
    /// The device, which the reads of pending lookups are done by.
    pub(crate) source: Arc<dyn ReadSource>,
    /// The drivers of lookups of a typed store, and of walks.
    pub(crate) reads: ReadPool,
    /// One compaction of each log at a time.
    pub(crate) compacting: Mutex<()>,
    pub(crate) compacting_cold: Mutex<()>,
    pub(crate) compacting_chunks: Mutex<()>,
    pub(crate) hot_figures: CompactionFigures,
    pub(crate) cold_figures: CompactionFigures,
    pub(crate) chunk_figures: CompactionFigures,
    /// Reads of the device that lookups have made.
    pub(crate) lookup_reads: LookupReads,
    /// Scrubs of the hot index that have not ended.
    pub(crate) scrubs: AtomicU64,
    /// Bytes that the hot and the cold log may take on disk, if there is a limit.
    pub(crate) disk_bytes_max: Option<u64>,
    pub(crate) cold_disk_bytes_max: Option<u64>,
    /// Bytes reserved for buffers and for compactions.
    pub(crate) reserved_bytes: u64,
    /// Bytes that lookups in flight and others have in buffers.
    pub(crate) user_bytes: UserAccount,
    /// Memory that compactions may have.
    pub(crate) work: Work,
    /// Whether a single log is compacted by scans.
    pub(crate) scan_compaction: bool,
    /// Threads that a compaction uses at most, the one that begins it included.
    pub(crate) compaction_threads: usize,
    pub(crate) workers: Arc<Group>,
    pub(crate) upkeep: Upkeep,
    /// One checkpoint at a time.
    pub(crate) checkpointer: Mutex<Checkpointer>,
    pub(crate) checkpoint_gate: CheckpointGate,
    pub(crate) marks: Marks,
    /// Room on the device for the pages that memory has to write.
    pub(crate) room: HeldRoom,
    /// Background work that fails.
    pub(crate) errors: BackgroundErrors,
    pub(crate) owed_release: OwedRelease,
    /// The checkpoint from which it was opened; `newest_checkpoint` is the one that was committed
    /// last.
    pub(crate) recovered: Checkpoint,
    pub(crate) recovery: Recovery,
    pub(crate) newest_checkpoint: RwLock<Checkpoint>,
}

/// The times that opening a store took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    pub(crate) time: Duration,
    /// Of that, to read the hot log and make the hot index.
    pub(crate) hot_log_time: Duration,
    /// And the chunk log, and the directory of the cold index.
    pub(crate) chunk_log_time: Duration,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("tail", &self.log.tail()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash::of(key, self.hash_seed)
    }

    pub(crate) fn persisted(&self) -> SeqNo {
        SeqNo::new(self.persisted.load(Acquire))
    }

    /// The figures of digests; nothing with a single log.
    pub(crate) fn digest_figures(&self) -> DigestFigures {
        self.cold.as_ref().map(|cold| cold.index.digests.figures()).unwrap_or_default()
    }

    /// The hot, the cold and the chunk log.
    pub(crate) fn logs(&self) -> [Option<&Arc<HybridLog>>; 3] {
        let cold = self.cold.as_ref();
        [Some(&self.log), cold.map(|cold| &cold.log), cold.map(|cold| &cold.chunk_log)]
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
        if is_planted(Planted::CompactedByWriter) {
            self.shared.compact_if_due(&StopToken::default())?;
        }
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
        self.shared.persisted()
    }

    fn stats(&self) -> Stats {
        self.shared.stats()
    }

    fn background_errors(&self) -> Vec<BackgroundError> {
        self.shared.background_errors()
    }

    fn memory(&self) -> Option<&dyn ResizableMemory> {
        self.shared.split.plan().limit_max().map(|_| self as &dyn ResizableMemory)
    }

    fn close(&self) -> Result<()> {
        if !is_planted(Planted::ClosedUnsaid) {
            self.shared.health.close();
        }
        let panics = self.shared.workers.stop();
        // The next opening removes files that stay.
        let _left: Result<()> = self.shared.leave_room();
        self.shared.checkpointer.lock().close();
        self.shared.reads.close();
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
