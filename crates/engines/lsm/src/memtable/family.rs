//! The common parts of the memtables of a store: their memory account, their ids, and the newest
//! write.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use codec::SeqNo;
use memory_budget::MemoryBudget;

use super::spare::Spare;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Family {
    budget: Arc<MemoryBudget>,
    bytes: AtomicU64,
    /// The id of the next memtable.
    next: AtomicU64,
    applied: AtomicU64,
    /// Writes that have memory set aside.
    aside: AtomicU64,
    pub(super) spare: Spare,
}

/// Memory that is reserved for the entries that a write is about to insert, and counts as the
/// memtables'. The unused rest is returned when this is dropped.
#[derive(Debug)]
pub(crate) struct SetAside<'a> {
    family: &'a Family,
    bytes: u64,
}

impl Family {
    /// A family without memtables.
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            bytes: AtomicU64::new(0),
            next: AtomicU64::new(1),
            applied: AtomicU64::new(0),
            aside: AtomicU64::new(0),
            spare: Spare::default(),
        })
    }

    /// From now on gives out only ids larger than `last`, the last one used before the store was
    /// opened.
    pub(crate) fn number_behind(&self, last: u64) {
        self.next.fetch_max(last + 1, Relaxed);
    }

    /// Returns the bytes of all memtables that are referenced, and of reservations, as the budget
    /// counts them, and of memory that others have left (`spare`) and that is not filled yet.
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

    /// Reserves `bytes`, if the sum of all is then not above `max`.
    pub(crate) fn try_set_aside(&self, bytes: u64, max: u64) -> Option<SetAside<'_>> {
        // Before it counts: a thread that finds no reservation finds all writes in memtables.
        self.aside.fetch_add(1, SeqCst);
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= max);
        let Ok(used) = self.bytes.fetch_update(SeqCst, SeqCst, fits) else {
            self.aside.fetch_sub(1, SeqCst);
            return None;
        };
        if used + bytes + self.spare_bytes() > max {
            self.shrink_spare(max - used - bytes);
        }
        self.budget.charge_anyway(bytes);
        Some(SetAside { family: self, bytes })
    }

    /// The same, however much that makes.
    pub(crate) fn set_aside_anyway(&self, bytes: u64) -> SetAside<'_> {
        self.aside.fetch_add(1, SeqCst);
        self.charge(bytes);
        SetAside { family: self, bytes }
    }

    /// Whether some write has memory set aside that it has not filled yet.
    pub(crate) fn has_set_aside(&self) -> bool {
        self.aside.load(SeqCst) > 0
    }

    pub(super) fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// Counts bytes that the budget has counted already.
    pub(super) fn take_over(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
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

impl SetAside<'_> {
    /// From now on counts `bytes` of the reservation as a memtable's. If it has too few, the rest
    /// is charged.
    pub(super) fn spend(&mut self, bytes: u64) {
        let had = self.bytes.min(bytes);
        self.bytes -= had;
        if bytes > had {
            self.family.charge(bytes - had);
        }
    }
}

impl Drop for SetAside<'_> {
    fn drop(&mut self) {
        self.family.release(self.bytes);
        self.family.aside.fetch_sub(1, SeqCst);
    }
}
