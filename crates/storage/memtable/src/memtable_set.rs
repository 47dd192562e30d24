//! The state that all memtables of a store share.

use std::sync::Arc;

use codec::SeqNo;
use memory_budget::MemoryBudget;
use sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::head::Head;
use crate::memory::MemtableMemory;

/// The ids of the memtables of a store, the newest write in them, and their memory.
#[derive(Debug)]
pub struct MemtableSet {
    memory: Arc<MemtableMemory>,
    /// The id of the next memtable.
    next: AtomicU64,
    applied: AtomicU64,
}

impl MemtableSet {
    /// Returns a memtable set without memtables, whose memory is in a budget.
    pub fn new(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        let memory = Arc::new(MemtableMemory::new(budget));
        Arc::new(Self { memory, next: AtomicU64::new(1), applied: AtomicU64::new(0) })
    }

    /// Returns the head of a new, empty memtable. (M1)
    pub fn new_head(self: &Arc<Self>, floor: SeqNo) -> Head {
        Head::new(self.next_id(), floor, self)
    }

    /// Returns the memory of the memtables.
    pub fn memory(&self) -> &Arc<MemtableMemory> {
        &self.memory
    }

    /// From now on gives out only ids larger than `last`, the last one used before the store was
    /// opened.
    pub fn number_behind(&self, last: u64) {
        self.next.fetch_max(last + 1, Relaxed);
    }

    /// Returns an id larger than those of all memtables that there are.
    pub fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Returns the newest write that was applied since the store was opened.
    pub fn applied(&self) -> SeqNo {
        SeqNo::new(self.applied.load(Relaxed))
    }

    /// Notes that all of this write is in memtables. (M3)
    pub fn note_applied(&self, seqno: SeqNo) {
        if self.applied.load(Relaxed) < seqno.get() {
            self.applied.fetch_max(seqno.get(), Relaxed);
        }
    }

    /// Returns whether a write comes a second time, where everything up to `persisted` is in the
    /// store's files, and everything up to `visible` is finished. A replay comes in order, and
    /// begins above `persisted`; so a write that is finished, and below one that was applied, was
    /// applied before.
    pub fn was_applied(&self, seqno: SeqNo, persisted: SeqNo, visible: SeqNo) -> bool {
        seqno <= persisted || seqno <= visible && seqno < self.applied()
    }
}
