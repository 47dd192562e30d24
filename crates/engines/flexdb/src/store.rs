//! The handle: its parts, and its state.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::{Error, Health, Host, Result};
use flexspace::space::FlexSpace;
use sync::Mutex;

use crate::background::Background;
use crate::cache::Cache;
use crate::commit::Committer;
use crate::figures::Figures;
use crate::index::IndexSnapshot;
use crate::index_memory::IndexMemory;
use crate::memory_split::{IntervalLimits, MemorySplit};
use crate::options::Options;
use crate::pair::StoreHeader;
use crate::space_reads::SpaceReads;
use crate::state::State;
use crate::state_cell::StateCell;
use crate::stored_index::{self, Wanted};
use crate::writes::Writes;

/// The state that views, cursors and background work share.
///
/// Lock order: `committer`, then the lock of `state`. The lock of `figures` is held with no other.
/// Readers hold neither, and writers only that of `state`, when they seal a full memtable.
pub(crate) struct Shared {
    pub(crate) state: StateCell,
    /// Held to change the space and the index.
    pub(crate) committer: Mutex<Committer>,
    pub(crate) space: FlexSpace,
    pub(crate) index_memory: IndexMemory,
    pub(crate) cache: Cache,
    pub(crate) reads: SpaceReads,
    pub(crate) writes: Writes,
    pub(crate) background: Background,
    pub(crate) figures: Figures,
    pub(crate) options: Options,
    pub(crate) health: Arc<Health>,
    pub(crate) host: Host,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("space", &self.space).finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns the present state of an open store. A thread that closes the store marks it as
    /// closed before it takes the state away.
    pub(crate) fn open_state(&self) -> Result<Arc<State>> {
        let state = self.state.load_full();
        self.health.check_open()?;
        state.ok_or(Error::Closed)
    }

    /// How the present budget is shared out.
    pub(crate) fn memory_split(&self) -> MemorySplit {
        MemorySplit::of(self.host.memory.limit(), &self.options)
    }

    /// Bytes that the cache may hold now.
    pub(crate) fn cache_share(&self) -> u64 {
        self.memory_split().cache_bytes(self.index_memory.bytes(), self.memtables_used())
    }

    /// Bytes that memtables take, and took until they were committed, since the store was opened.
    pub(crate) fn memtables_used(&self) -> u64 {
        let bytes = self.writes.memory_bytes();
        bytes.saturating_add(self.figures.counts.committed_bytes.load(Relaxed))
    }

    /// When intervals are split.
    pub(crate) fn interval_limits(&self) -> IntervalLimits {
        let doublings = self.index_memory.doublings();
        self.memory_split().interval_limits(self.index_memory.bytes(), doublings, &self.options)
    }

    /// Stores the index of a space that is not changed any more (N1), in the place of the one
    /// before. If there is no room for it, no index is stored.
    pub(crate) fn store_index(&self, index: &IndexSnapshot) -> Result<()> {
        if !self.space.has_begun() {
            // The space is as the opening has found it, and so is the index, if there is one.
            return Ok(());
        }
        let device = &*self.host.device;
        // The index of an earlier life is of no use, does no harm if it stays, and its removal
        // frees room.
        let _ = stored_index::remove(device);
        let is_small = stored_index::is_small(index, &self.options);
        // A space that could not be made durable has no stored index; the failed call has returned
        // the error.
        if is_small || self.space.sync().is_err() {
            return Ok(());
        }
        let Ok(space) = self.space.snapshot() else { return Ok(()) };
        let extents = space.extents(StoreHeader::BYTES as u64..space.len());
        if !stored_index::is_tagged(index, extents) {
            return Ok(());
        }
        let of = Wanted { life: self.space.life(), space_bytes: self.space.len() };
        let stored = stored_index::store(device, index, of);
        if stored.is_err() {
            let _ = stored_index::remove(device);
        }
        match stored {
            Err(Error::Device(device::Error::NoSpace { .. })) => Ok(()),
            stored => stored,
        }
    }
}
