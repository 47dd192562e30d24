//! Has the allocator return memory to the system that the cache has freed.
//!
//! This is memory of the cache's records about its pieces. Pieces and memtables have memory of
//! their own.
//!
//! The records are freed in another order than they were allocated. So free memory is between
//! records that stay, and it remains resident without being counted. Flushes and compactions return
//! it when they are done; a task does so if there are only reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use memory_budget::MemoryBudget;

use super::on_demand::OnDemandTask;
use crate::store::Shared;

/// Parts of the budget of which one must be freed before memory is returned: up to this part may be
/// resident without being counted.
const PARTS: u64 = 16;

/// Bytes freed since memory was last returned to the system.
#[derive(Debug)]
pub(crate) struct Freed {
    bytes: AtomicU64,
    task: Arc<OnDemandTask>,
    budget: Arc<MemoryBudget>,
}

impl Freed {
    /// Makes a count of zero bytes.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        let task = OnDemandTask::new("lsm release cache memory", |store: &Shared| {
            store.cache.freed().release()
        });
        Arc::new(Self {
            bytes: AtomicU64::new(0),
            task: Arc::new(task),
            budget: Arc::clone(budget),
        })
    }

    /// Has tasks of this store return the memory from now on.
    pub(crate) fn begin(&self, store: &Arc<Shared>) {
        self.task.begin(store);
    }

    /// Counts `bytes` bytes that were freed in small pieces.
    pub(crate) fn note(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Has a task return the memory if it is much, for threads that must not do it themselves.
    pub(crate) fn release_soon(&self) {
        if self.is_much() {
            self.task.ask();
        }
    }

    fn is_much(&self) -> bool {
        self.bytes.load(Relaxed) > self.budget.limit() / PARTS
    }

    /// Returns the memory to the system if it is much.
    pub(crate) fn release(&self) {
        if self.is_much() {
            self.bytes.store(0, Relaxed);
            arena::trim_heaps();
        }
    }
}
