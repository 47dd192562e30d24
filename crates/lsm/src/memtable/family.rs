//! What the memtables of a store have in common: what they are counted in, their ids, and the
//! newest write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use codec::SeqNo;
use engine::MemoryBudget;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Family {
    budget: Arc<MemoryBudget>,
    bytes: AtomicU64,
    /// The id of the next memtable.
    next: AtomicU64,
    applied: AtomicU64,
}

impl Family {
    /// The family whose first memtable has this id.
    pub(crate) fn new(first: u64, budget: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            bytes: AtomicU64::new(0),
            next: AtomicU64::new(first),
            applied: AtomicU64::new(0),
        })
    }

    /// Bytes of all memtables that anybody holds, as the budget counts them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The newest write that was applied since the store was opened.
    pub(crate) fn applied(&self) -> SeqNo {
        SeqNo::new(self.applied.load(Relaxed))
    }

    /// All of this write is in memtables.
    pub(crate) fn note_applied(&self, seqno: SeqNo) {
        if self.applied.load(Relaxed) < seqno.get() {
            self.applied.fetch_max(seqno.get(), Relaxed);
        }
    }

    /// An id larger than those of all memtables that there are.
    pub(crate) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    pub(super) fn charge(&self, bytes: u64) {
        self.budget.charge_anyway(bytes);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn release(&self, bytes: u64) {
        self.budget.release(bytes);
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}
