//! The handle: its parts, and its state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use codec::SeqNo;
use engine::{BackgroundErrors, Error, Health, Host, ReadSource, Result, Rounds};
use flexspace::space::{self, FlexSpace};
use memory_budget::Account;
use memtable::MemtableSet;
use reads::ReadPool;
use sync::Mutex;
use workers::Group;

use crate::admission::Admission;
use crate::cache::Cache;
use crate::commit::{CoarsenIndex, Committer};
use crate::commit_steps::CommitSteps;
use crate::defragment_idle::IdleDefragmentation;
use crate::fragmented_queue::FragmentedQueue;
use crate::index::{Index, IndexSnapshot};
use crate::memory_split::{IntervalLimits, MemorySplit};
use crate::options::Options;
use crate::pair::StoreHeader;
use crate::reclaim::Reclaim;
use crate::scan_ratio::ScanRatio;
use crate::state::State;
use crate::stored_index::{self, Wanted};

/// The state that views, cursors and background work share.
///
/// Lock order: `committer`, `install`; `space_stats` is held with no other. Readers hold neither,
/// and writers only `install`, when they seal a full memtable.
pub(crate) struct Shared {
    /// None once the store is closed.
    pub(crate) state: ArcSwapOption<State>,
    pub(crate) memtables: Arc<MemtableSet>,
    /// Held to replace the state. Short: nothing is read or written under it.
    pub(crate) install: Mutex<()>,
    /// Held to change the space and the index.
    pub(crate) committer: Mutex<Committer>,
    pub(crate) space: FlexSpace,
    /// The last known figures.
    pub(crate) space_stats: Mutex<space::Stats>,
    /// Bytes of the intervals' heads.
    pub(crate) heads: Arc<Account>,
    /// Bytes of the nodes of the index and of the space's tree, including those of old bases, at
    /// the last check.
    pub(crate) nodes: Arc<Account>,
    pub(crate) cache: Cache,
    /// Intervals that scans have found in pieces.
    pub(crate) fragmented_queue: FragmentedQueue,
    /// Whether the data that are written are scanned.
    pub(crate) scan_ratio: ScanRatio,
    /// The progress of writing intervals in pieces as one.
    pub(crate) defragment_idle: IdleDefragmentation,
    /// The rounds of the collector and of all other periodic work.
    pub(crate) rounds: Rounds,
    /// Commits for the sake of deletes.
    pub(crate) reclaim: Reclaim,
    /// The device, which the reads of pending lookups are done by.
    pub(crate) source: Arc<dyn ReadSource>,
    /// The drivers of the reads of scans and commits.
    pub(crate) reads: ReadPool,
    /// Bytes of blocks that were cached since the allocator was last asked to return freed memory.
    pub(crate) cached_bytes: AtomicU64,
    pub(crate) options: Options,
    pub(crate) health: Arc<Health>,
    /// Everything up to this is in the space, durably.
    pub(crate) persisted: sync::atomic::AtomicU64,
    pub(crate) admission: Admission,
    pub(crate) steps: CommitSteps,
    pub(crate) coarsen_index: CoarsenIndex,
    pub(crate) errors: BackgroundErrors,
    pub(crate) counts: Counts,
    pub(crate) group: Group,
    pub(crate) host: Host,
}

/// Counts of the work done since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) commits: AtomicU64,
    /// Memtables that they have put.
    pub(crate) committed_memtables: AtomicU64,
    pub(crate) committed_pairs: AtomicU64,
    /// Bytes that the committed memtables took.
    pub(crate) committed_bytes: AtomicU64,
    /// Versions that no commit wrote, as younger memtables had newer ones.
    pub(crate) replaced: AtomicU64,
    /// Intervals that were appended to without being read.
    pub(crate) blind: AtomicU64,
    /// Bytes that were appended to intervals, and bytes with which intervals were rewritten.
    pub(crate) appended_bytes: AtomicU64,
    pub(crate) rewritten_bytes: AtomicU64,
    /// Intervals of which single pairs were replaced.
    pub(crate) in_place: AtomicU64,
    /// Intervals that were rewritten.
    pub(crate) rewritten: AtomicU64,
    /// Those of them that scans had found in pieces, and their bytes.
    pub(crate) rewritten_for_scans: AtomicU64,
    pub(crate) written_for_scans: AtomicU64,
    /// Intervals that were rewritten while the store was idle, and their bytes.
    pub(crate) defragmented: AtomicU64,
    pub(crate) defragmented_bytes: AtomicU64,
    /// Intervals that became one with the one before them.
    pub(crate) joined: AtomicU64,
    /// Intervals that became one with the one before them, as the index took too much.
    pub(crate) coarsened: AtomicU64,
    /// Updates of intervals that are damaged, as often as one was planned.
    pub(crate) damaged: AtomicU64,
    pub(crate) collected_segments: AtomicU64,
    /// Bytes that the collector has moved for it.
    pub(crate) collected_bytes: AtomicU64,
    /// Changes of an interval that found no room in their middle.
    pub(crate) broken_off: AtomicU64,
    /// How often a commit had the collector run.
    pub(crate) room_made: AtomicU64,
    /// Deleted pairs that were taken out before a commit that had no room.
    pub(crate) relieved_pairs: AtomicU64,
    /// Keys that were read for the index when the store was opened.
    pub(crate) opening_keys: u64,
    pub(crate) is_commit_queued: sync::atomic::AtomicBool,
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

    /// Everything up to this is in the space, durably.
    pub(crate) fn persisted(&self) -> SeqNo {
        SeqNo::new(self.persisted.load(Acquire))
    }

    /// How the present budget is shared out.
    pub(crate) fn memory_split(&self) -> MemorySplit {
        MemorySplit::of(self.host.memory.limit(), &self.options)
    }

    /// Bytes that the cache may hold now.
    pub(crate) fn cache_share(&self) -> u64 {
        self.memory_split().cache_bytes(self.index_bytes(), self.memtables_used())
    }

    /// Bytes that memtables take, and took until they were committed, since the store was opened.
    pub(crate) fn memtables_used(&self) -> u64 {
        self.memtables.memory().bytes().saturating_add(self.counts.committed_bytes.load(Relaxed))
    }

    /// When intervals are split.
    pub(crate) fn interval_limits(&self) -> IntervalLimits {
        let doublings = self.coarsen_index.doublings.load(Relaxed);
        self.memory_split().interval_limits(self.index_bytes(), doublings, &self.options)
    }

    /// Bytes of the index, and of the space's tree.
    pub(crate) fn index_bytes(&self) -> u64 {
        self.heads.bytes() + self.nodes.bytes()
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

    /// Looks at how many nodes there are.
    pub(crate) fn count_nodes(&self, index: &Index) {
        self.nodes.set(index.node_bytes() + self.space.node_bytes());
    }
}
