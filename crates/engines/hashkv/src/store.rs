//! The handle: its parts.

use std::sync::Arc;

use engine::{Health, Host, ReadSource};
use reads::ReadPool;
use workers::Group;

use crate::admission::Admission;
use crate::idle::Idle;
use crate::key_index::KeyIndex;
use crate::memory_split::MemorySplit;
use crate::options::Options;
use crate::value_cache::ValueCache;
use crate::values::Values;

/// The part of a store that lookups, cursors and background work keep alive.
pub(crate) struct Shared {
    pub(crate) index: Arc<dyn KeyIndex>,
    pub(crate) values: Arc<Values>,
    pub(crate) cached: ValueCache,
    pub(crate) options: Options,
    pub(crate) admission: Admission,
    pub(crate) health: Arc<Health>,
    /// The device, which the reads of pending lookups are done by.
    pub(crate) source: Arc<dyn ReadSource>,
    /// The drivers of the lookups of an opening, and of scans.
    pub(crate) reads: ReadPool,
    pub(crate) memory: crate::memory_parts::Shares,
    pub(crate) idle: Idle,
    pub(crate) group: Group,
    pub(crate) host: Host,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("values", &self.values).finish_non_exhaustive()
    }
}

impl Shared {
    /// How the present budget is shared out.
    pub(crate) fn memory_split(&self) -> MemorySplit {
        MemorySplit::of(self.host.memory.limit(), &self.options)
    }
}
