//! The parts of a store that take memory, in a budget that may change while the store is open.
//!
//! The index has a budget of its own, which is counted whole in the store's.

use std::sync::Arc;

use codec::SeqNo;
use engine::{MemoryParts, Result};
use memory_budget::{Account, MemoryBudget, MemoryGain};
use sync::Mutex;

use crate::contract::Store;
use crate::memory_split::{MemorySplit, filter_bytes};
use crate::options::Options;
use crate::store::Shared;

/// Cached values are evicted for writers in steps of this part of the memory ...
const STEP_PARTS: u64 = 256;
/// ... and may take memory that writers no longer need after each reading of this part of it.
const TURN_PARTS: u64 = 2;

/// The budget of the index, and its part of the store's budget.
#[derive(Debug)]
pub(crate) struct Shares {
    pub(crate) index: Arc<MemoryBudget>,
    counted: Account,
    /// Held by the thread that resizes the index, and by the one that resizes the cache of values.
    fitting: Mutex<()>,
    fitting_cache: Mutex<()>,
}

impl Shares {
    /// Returns the shares of a budget in a store with this number of segments.
    pub(crate) fn of(budget: &Arc<MemoryBudget>, options: &Options, segments: u64) -> Self {
        let limit = budget.limit();
        let bytes = MemorySplit::of(limit, options).index_bytes(limit, segments);
        let counted = Account::new(budget);
        counted.set(bytes);
        let (fitting, fitting_cache) = Default::default();
        Self { index: Arc::new(MemoryBudget::new(bytes)), counted, fitting, fitting_cache }
    }

    /// Counts the present budget of the index.
    pub(crate) fn count(&self) {
        self.counted.set(self.index.limit());
    }
}

impl MemoryParts for Store {
    fn budget(&self) -> &MemoryBudget {
        &self.shared.host.memory
    }

    fn bytes_min(&self) -> u64 {
        let index = self.shared.index.memory().map_or(0, |index| index.needs().least_bytes);
        MemorySplit::least_of(index, self.shared.values.segment_count())
    }

    fn are_within_shares(&self) -> bool {
        let shared = &self.shared;
        let index = shared.index.memory().is_none_or(|index| index.needs().is_within_limit);
        let split = shared.memory_split();
        // A flush that failed is tried again.
        shared.flush_if_due();
        // A snapshot may have ended.
        shared.collect_if_due();
        index
            && shared.values.accounts.buffers.bytes() <= split.buffer_bytes
            && shared.values.entry_bytes() <= split.entry_bytes
            && shared.values.directory_bytes() <= split.directory_bytes
            && shared.values.filter_bytes() <= filter_bytes(shared.host.memory.limit())
    }

    /// The gain of the index, and of cached values.
    fn gain(&self) -> MemoryGain {
        let shared = &self.shared;
        let limit = shared.host.memory.limit();
        let of = |limit| shared.value_bytes_of(limit);
        let larger = of(limit.saturating_add(MemoryGain::reach(limit)));
        shared.cached.set_ghost_reach(larger.saturating_sub(of(limit)));
        let values = MemoryGain::of_reads(shared.cached.ghost_hits(), limit);
        let index = shared.index.memory().map(|index| index.needs().gain).unwrap_or_default();
        let saved_bytes = values.saved_bytes.saturating_add(index.saved_bytes);
        MemoryGain { saved_bytes, ..values }
    }

    fn check_open(&self) -> Result<()> {
        self.shared.health.check_open()
    }

    fn fit(&self) {
        let shared = &self.shared;
        shared.fit_index(0);
        shared.values.drop_directories(shared.memory_split().directory_bytes);
        shared.values.fit_filters(filter_bytes(shared.host.memory.limit()));
        shared.fit_cache();
        shared.flush_if_due();
    }
}

impl Shared {
    /// Returns the bytes of directories, filters and cached values together, of a budget.
    fn value_bytes_of(&self, limit: u64) -> u64 {
        let split = MemorySplit::of(limit, &self.options);
        split.value_bytes(limit, self.values.segment_count())
    }

    /// Lets cached values take the bytes that directories and filters leave, and the share of write
    /// buffers above their high-water mark. They never take more than all other parts leave.
    pub(crate) fn fit_cache(&self) {
        // Otherwise a thread could set a capacity that it computed before writers took the memory.
        let _fitting = self.memory.fitting_cache.lock();
        let (limit, used) = (self.host.memory.limit(), self.host.memory.used());
        let others = used.saturating_sub(self.cached.bytes());
        let claimed = self.cached.claimed(self.values.accounts.buffers.bytes());
        let lent = self.memory_split().buffer_bytes.saturating_sub(claimed);
        let others_of_share = self.values.directory_bytes() + self.values.filter_bytes();
        let share = self.value_bytes_of(limit).saturating_sub(others_of_share);
        self.cached.fit((share + lent).min(limit.saturating_sub(others)));
    }

    /// Takes memory back from cached values that write buffers had left and need now.
    pub(crate) fn shrink_cache_for_writers(&self) {
        let step = self.host.memory.limit() / STEP_PARTS;
        if self.cached.note_taken(self.values.accounts.buffers.bytes(), step) {
            self.fit_cache();
        }
    }

    /// Caches the value of a write that a get has read.
    pub(crate) fn cache_value(&self, key: &[u8], number: SeqNo, value: &[u8]) {
        self.cached.add(key, number, value);
        let taken = self.values.accounts.buffers.bytes();
        let turn = self.host.memory.limit() / TURN_PARTS;
        let bytes = (key.len() + value.len()) as u64;
        let before = self.cached.claimed(taken);
        self.cached.note_read(bytes, taken, turn);
        if self.cached.claimed(taken) < before {
            self.fit_cache();
        }
    }

    /// Gives the index its part of the memory, if its budget is more than `tolerance` bytes off.
    pub(crate) fn fit_index(&self, tolerance: u64) {
        let _fitting = self.memory.fitting.lock();
        let limit = self.host.memory.limit();
        let wanted = self.memory_split().index_bytes(limit, self.values.segment_count());
        let Some(index) = self.index.memory() else { return };
        if wanted.abs_diff(self.memory.index.limit()) > tolerance {
            // A store that is closed has no memory to share.
            let _ = index.resize(wanted);
            self.memory.count();
        }
    }
}
