//! The handle: its parts, and its state.

use std::sync::Arc;

use arc_swap::ArcSwap;
use engine::{Health, Host, Result};
use memtable::MemtableSet;

use crate::admission::Admission;
use crate::background::Background;
use crate::cache::Cache;
use crate::indexed_lookups::IndexedLookups;
use crate::memory_split::MemorySplit;
use crate::open_manifest::OpenManifest;
use crate::options::Options;
use crate::state::State;
use crate::state::present::PresentState;
use crate::table_files::TableFiles;

/// The part of a store that views, cursors and background work keep alive.
///
/// Lock order: `background.flusher`, then `manifest`, then `state.install`. Readers hold none of
/// them, and writers only `state.install`, when they seal a full memtable.
pub(crate) struct Shared {
    pub(crate) state: PresentState,
    /// The part that all memtables share.
    pub(crate) memtables: Arc<MemtableSet>,
    pub(crate) manifest: OpenManifest,
    pub(crate) tables: TableFiles,
    pub(crate) cache: Arc<Cache>,
    pub(crate) options: Options,
    /// A budget, and how it is shared out.
    pub(crate) split: ArcSwap<(u64, MemorySplit)>,
    pub(crate) health: Arc<Health>,
    pub(crate) lookups: IndexedLookups,
    pub(crate) admission: Admission,
    pub(crate) background: Background,
    pub(crate) host: Host,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state.load()).finish_non_exhaustive()
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
}
