//! The marks by which owners name the pieces of a slab.

// Not the atomics of the checkers: the owner of the slot sets a mark and takes it back, and another
// thread that reads it may get an old one.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The mark of a slot that has none.
pub(super) const NONE: u64 = u64::MAX;

/// A mark for each slot.
#[derive(Debug)]
pub(super) struct Marks(Box<[AtomicU64]>);

impl Marks {
    pub(super) fn new(slots: usize) -> Self {
        Self((0..slots).map(|_| AtomicU64::new(NONE)).collect())
    }

    pub(super) fn set(&self, slot: usize, mark: u64) {
        self.0[slot].store(mark, Relaxed);
    }

    /// Returns all marks that are set.
    pub(super) fn all(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|mark| mark.load(Relaxed)).filter(|mark| *mark != NONE)
    }
}
