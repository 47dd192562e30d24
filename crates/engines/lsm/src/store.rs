//! The handle: its parts, and its state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};

use arc_swap::ArcSwap;
use codec::SeqNo;
use engine::{Health, Host, ReadSource, Result};
use memtable::MemtableSet;
use reads::ReadPool;
use sync::Mutex;
use workers::Group;

use crate::admission::Admission;
use crate::background::Background;
use crate::background::remove::ObsoleteTables;
use crate::background::reorganise::Reorganiser;
use crate::cache::Cache;
use crate::lookup_index::LookupIndex;
use crate::memory_split::MemorySplit;
use crate::options::Options;
use crate::scan::OpenCursors;
use crate::state::State;
use edits::Chain;
use lsm_tree::cache::PieceCache;
use lsm_tree::edit::Edit;
use lsm_tree::table::{Lookups, TableStore};

/// The chain of edits of a store's tables.
pub(crate) type Manifest = Chain<Edit>;

/// The part of a store that views, cursors and background work keep alive.
///
/// Lock order: `flusher`, then `manifest`, then `install`. Readers hold none of them, and writers
/// only `install`, when they seal a full memtable.
pub(crate) struct Shared {
    pub(crate) state: ArcSwap<State>,
    /// The part that all memtables share.
    pub(crate) memtables: Arc<MemtableSet>,
    /// Held by a thread that replaces the state. It is held briefly: nothing is read or written
    /// under it.
    pub(crate) install: Mutex<()>,
    /// One flush at a time, so that memtables reach Level 0 in their order.
    pub(crate) flusher: Mutex<()>,
    /// Held by a thread that changes the version. `None` once the store is closed.
    pub(crate) manifest: Mutex<Option<Manifest>>,
    pub(crate) tables: Arc<dyn TableStore>,
    pub(crate) obsolete_tables: Arc<ObsoleteTables>,
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
    pub(crate) open_cursors: OpenCursors,
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
}
