//! Returns freed memory to the system.
//!
//! Values of many lengths are written and freed. Free pieces that the allocator keeps are resident,
//! and no budget counts them. There are most of them after a restart: the threads that load a
//! snapshot and the threads that write have different heaps. So values that are overwritten leave
//! their heap full of free pieces, while the new ones make another heap grow.
//!
//! 1. A writer counts the bytes by which it changes the map, in its thread's count. When a count
//!    has reached its part, a task looks.
//! 2. The task compares the resident memory of the process with the counted one. If the first has
//!    grown by a part of the budget more than the second, the allocator returns all whole pages
//!    that are free.
//! 3. While half of the budget is free nothing is done: then there is room for free pieces too.
//!
//! # Concurrency
//! One task returns pages at a time. Threads that allocate wait while the allocator looks for free
//! pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use memory_budget::MemoryBudget;
use sync::locks::Mutex;
use telemetry::Shards;
use workers::Class;

use crate::store::Shared;

/// Part of the budget that may be resident and not counted before free pages are returned.
const UNCOUNTED_PARTS: u64 = 32;
/// Part of the budget by which writers change the map between two looks.
const LOOK_PARTS: u64 = 256;

/// The state of the comparison.
#[derive(Debug)]
pub(crate) struct Trim {
    /// Bytes by which writers have changed the map since the last look.
    changed: Shards<AtomicU64>,
    is_asked: AtomicBool,
    last: Mutex<Level>,
}

/// Resident and counted memory, after free pages were returned.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    resident: u64,
    counted: u64,
}

impl Level {
    fn now(budget: &MemoryBudget) -> Option<Self> {
        Some(Self { resident: arena::resident_bytes()?, counted: budget.used() })
    }

    /// Returns how much more of the resident memory is not counted than was at `before`.
    fn uncounted_since(self, before: Self) -> u64 {
        let counted = self.counted.saturating_add(before.resident);
        self.resident.saturating_add(before.counted).saturating_sub(counted)
    }
}

impl Default for Trim {
    fn default() -> Self {
        let (is_asked, last) = Default::default();
        Self { changed: Shards::new(AtomicU64::default), is_asked, last }
    }
}

impl Trim {
    /// Counts `bytes` that a writer has changed.
    #[inline]
    pub(crate) fn note(&self, bytes: usize) {
        self.changed.mine().fetch_add(bytes as u64, Relaxed);
    }

    #[inline]
    fn is_due(&self, budget: &MemoryBudget) -> bool {
        let counts = self.changed.iter().len() as u64;
        self.changed.mine().load(Relaxed) * counts > budget.limit() / LOOK_PARTS
    }

    /// Gives free memory back, whatever there is of it.
    pub(crate) fn release(&self, budget: &MemoryBudget) {
        let mut last = self.last.lock();
        arena::trim_heaps();
        *last = Level::now(budget).unwrap_or_default();
    }

    /// Step 2.
    fn look(&self, budget: &MemoryBudget) {
        let before = *self.last.lock();
        let is_much = Level::now(budget)
            .is_some_and(|level| level.uncounted_since(before) > budget.limit() / UNCOUNTED_PARTS);
        if is_much {
            self.release(budget);
        }
    }
}

impl Shared {
    /// Has a task look for free memory, if it is time.
    #[inline]
    pub(crate) fn trim_if_due(self: &Arc<Self>, group: &workers::Group) {
        if self.map.trim.is_due(&self.host.memory) {
            self.trim_soon(group);
        }
    }

    #[cold]
    fn trim_soon(self: &Arc<Self>, group: &workers::Group) {
        let (trim, budget) = (&self.map.trim, &self.host.memory);
        if budget.used() < budget.limit() / 2 {
            // The thread's count begins again, so that not every write comes here.
            trim.changed.mine().store(0, Relaxed);
            return;
        }
        if trim.is_asked.swap(true, Relaxed) {
            return;
        }
        trim.changed.iter().for_each(|changed| changed.store(0, Relaxed));
        let shared = Arc::downgrade(self);
        let task = move |_: &workers::StopToken| {
            if let Some(shared) = shared.upgrade() {
                shared.map.trim.is_asked.store(false, Relaxed);
                shared.map.trim.look(&shared.host.memory);
            }
        };
        // A pool that is stopping runs nothing more.
        let _ = group.submit(Class::Collect, "memory trim", task);
    }
}

#[cfg(test)]
mod tests;
