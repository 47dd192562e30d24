//! Has the allocator give back to the system what the cache has freed of it: what it knows of a piece. (Pieces, and
//! memtables, have memory of their own.)
//!
//! That goes in another order than it came. So what is free lies between what stays, and is resident all the same,
//! uncounted. Whoever flushes or compacts gives it back when done; a task does where only reads come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use engine::MemoryBudget;

use super::soon::Soon;
use crate::store::Shared;

/// It is done once so much of the budget was freed: as much may be resident that is not counted.
const PARTS: u64 = 16;

/// What was freed since it was given back.
#[derive(Debug)]
pub(crate) struct Freed {
    bytes: AtomicU64,
    soon: Arc<Soon>,
    budget: Arc<MemoryBudget>,
}

impl Freed {
    /// Nothing was freed.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        let soon = Soon::new("lsm give back", |store: &Shared| store.cache.freed().give_back());
        Arc::new(Self {
            bytes: AtomicU64::new(0),
            soon: Arc::new(soon),
            budget: Arc::clone(budget),
        })
    }

    /// Tasks of this store do it from now on.
    pub(crate) fn begin(&self, store: &Arc<Shared>) {
        self.soon.begin(store);
    }

    /// So many bytes were freed, in small pieces.
    pub(crate) fn note(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Has it given back, soon, if it is much: for whoever has others wait.
    pub(crate) fn give_back_soon(&self) {
        if self.is_much() {
            self.soon.ask();
        }
    }

    fn is_much(&self) -> bool {
        self.bytes.load(Relaxed) > self.budget.limit() / PARTS
    }

    /// Gives it back if it is much.
    pub(crate) fn give_back(&self) {
        if self.is_much() {
            self.bytes.store(0, Relaxed);
            sync::give_back_heaps();
        }
    }
}
