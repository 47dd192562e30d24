//! The handle: its parts, its state, and the engine contract, each call handed to its file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use arc_swap::ArcSwap;
use codec::SeqNo;
use device::Device;
use engine::{
    At, BackgroundError, Capabilities, Cursor, Demand, Direction, Engine, Error, FoundState, GoOn,
    Health, Host, Ingestion, KeyRange, Lookup, Op, Pin, Ranges, ReadSource, Reservation,
    ResizableMemory, Result, Stats, Visit, Wait, walk_in_order,
};
use memtable::Family;
use rand::Rng;
use reads::ReadPool;
use sync::Mutex;
use workers::Group;

use crate::admission::Admission;
use crate::background::Background;
use crate::background::remove::Removals;
use crate::background::reorganise::Reorganiser;
use crate::cache::Cache;
use crate::driver::DRIVER;
use crate::ingest::SortedTables;
use crate::lookup_index::LookupIndex;
use crate::memory_split::MemorySplit;
use crate::options::Options;
use crate::scan::Stands;
use crate::state::State;
use edits::Chain;
use lsm_tree::cache::PieceCache;
use lsm_tree::edit::Edit;
use lsm_tree::table::{Lookups, TableId, TableStore};

/// The chain of edits of a store's tables.
pub(crate) type Manifest = Chain<Edit>;

/// A log-structured merge-tree. Open it with [`Store::open`], use it through [`Engine`].
#[derive(Debug)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

/// The part of a store that views, cursors and background work keep alive.
///
/// Lock order: `flusher`, then `manifest`, then `install`. Readers hold none of them, and writers
/// only `install`, when they seal a full memtable.
pub(crate) struct Shared {
    pub(crate) state: ArcSwap<State>,
    /// The part that all memtables share.
    pub(crate) family: Arc<Family>,
    /// Held by a thread that replaces the state. It is held briefly: nothing is read or written
    /// under it.
    pub(crate) install: Mutex<()>,
    /// One flush at a time, so that memtables reach Level 0 in their order.
    pub(crate) flusher: Mutex<()>,
    /// Held by a thread that changes the version. `None` once the store is closed.
    pub(crate) manifest: Mutex<Option<Manifest>>,
    pub(crate) tables: Arc<dyn TableStore>,
    pub(crate) removals: Arc<Removals>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) options: Options,
    /// A budget, and how it is shared out.
    pub(crate) split: ArcSwap<(u64, MemorySplit)>,
    pub(crate) health: Arc<Health>,
    /// Everything up to this is in tables, durably.
    pub(crate) persisted: AtomicU64,
    /// The number of the next table.
    pub(crate) next_table: AtomicU64,
    pub(crate) lookups: Lookups,
    /// The device, which the reads of pending lookups are done by.
    pub(crate) source: Arc<dyn ReadSource>,
    /// The drivers of read-ahead.
    pub(crate) reads: ReadPool,
    pub(crate) admission: Admission,
    pub(crate) background: Background,
    pub(crate) reorganiser: Reorganiser,
    pub(crate) lookup_index: ArcSwap<LookupIndex>,
    /// The states and partitions that cursors walk over.
    pub(crate) stands: Stands,
    pub(crate) group: Group,
    pub(crate) host: Host,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns the present state of an open store. The thread that closes the store marks it as
    /// closed before it takes the state away.
    pub(crate) fn open_state(&self) -> Result<arc_swap::Guard<Arc<State>>> {
        let state = self.state.load();
        self.health.check_open()?;
        Ok(state)
    }

    /// Returns the cache as tables see it.
    pub(crate) fn piece_cache(&self) -> Arc<dyn PieceCache> {
        Arc::clone(&self.cache) as Arc<dyn PieceCache>
    }

    /// Everything up to this is in tables, durably.
    pub(crate) fn persisted(&self) -> SeqNo {
        SeqNo::new(self.persisted.load(Acquire))
    }

    /// How the present budget is shared out.
    pub(crate) fn memory_split(&self) -> MemorySplit {
        let limit = self.host.memory.limit();
        let (known, split) = **self.split.load();
        if known == limit {
            return split;
        }
        let split = MemorySplit::of(limit, &self.options);
        self.split.store(Arc::new((limit, split)));
        split
    }

    /// Replaces the lookup index by an empty one, if it is above its share of the memory or below a
    /// quarter of it.
    pub(crate) fn fit_lookup_index(&self) {
        let wanted = self.memory_split().lookup_index_bytes;
        let bytes = self.lookup_index.load().bytes();
        if bytes > wanted || bytes < wanted / 4 {
            // The old one first: there is no room for both.
            self.lookup_index.store(Arc::new(LookupIndex::none(&self.host.memory)));
            let index = LookupIndex::of_bytes(wanted, &self.host.memory);
            self.lookup_index.store(Arc::new(index));
        }
    }

    /// A table's identity: its number may have been used before a crash, its nonce not.
    pub(crate) fn new_table(&self) -> TableId {
        let number = self.next_table.fetch_add(1, Relaxed);
        self.identity(number)
    }

    /// The identity of a table of this number.
    pub(crate) fn identity(&self, number: u64) -> TableId {
        let environment = &self.host.environment;
        let mut nonce = environment.random("lsm table").next_u64();
        let last = self.host.sequence.last().get();
        for part in [number, last, environment.wall().as_nanos() as u64] {
            nonce = codec::hash64(nonce, &part.to_le_bytes());
        }
        TableId { number, nonce }
    }
}

impl FoundState for Store {
    fn make_durable(&self) -> Result<bool> {
        self.shared.settle().map(|()| true)
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
        self.shared.persisted()
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
        let panics = shared.group.stop();
        // A flush on a caller's thread stops soon. Until then it may make and remove files, which
        // it must not do while another opening has them.
        let _flusher = shared.flusher.lock();
        *shared.manifest.lock() = None;
        let _install = shared.install.lock();
        shared.family.memory().keep_spare(0, 0);
        let closed = shared.state.load().closed();
        shared.state.store(Arc::new(closed));
        shared.removals.run();
        // Nor may cursors that are still there.
        shared.tables.close();
        shared.reads.close();
        shared.lookup_index.store(Arc::new(LookupIndex::none(&shared.host.memory)));
        shared.stands.leave_all_but(shared.state.load().generation);
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

/// Returns whether an error of a background task stops writes. A failure of the journal and a close
/// say nothing about these files. A lack of space or too many open files may end later.
pub(crate) fn stops_writes(error: &Error) -> bool {
    !matches!(error, Error::Journal { .. } | Error::Closed) && !error.is_retryable()
}
