//! The pages of a log in memory: their memory, and how many there may be.

use std::sync::Arc;

use memory_budget::MemoryBudget;
use sync::atomic::{AtomicU64, Ordering};

use super::Geometry;
use crate::page_ring::PageRing;

/// The pages in memory.
pub(super) struct Frames {
    pub(super) ring: PageRing,
    /// Pages that may be in memory.
    allowed: AtomicU64,
    /// Changes of that number, and the changes that all threads that turn pages know of.
    resizes: AtomicU64,
    known_resizes: AtomicU64,
}

impl Frames {
    /// Returns the frames of a log, none of which has memory.
    pub(super) fn new(geometry: &Geometry, memory: Arc<MemoryBudget>) -> Self {
        Self {
            ring: PageRing::new(geometry.page_bytes(), geometry.frames_max as u64, memory),
            allowed: AtomicU64::new(geometry.frames as u64),
            resizes: AtomicU64::new(0),
            known_resizes: AtomicU64::new(0),
        }
    }

    /// Returns the number of pages that may be in memory.
    #[inline]
    pub(super) fn allowed(&self) -> u64 {
        self.allowed.load(Ordering::Acquire)
    }

    /// Sets that number and returns the one before.
    pub(super) fn allow(&self, frames: u64) -> u64 {
        self.allowed.swap(frames, Ordering::AcqRel)
    }

    /// Counts a change of that number, and returns its number for [`Frames::note_known`].
    pub(super) fn count_resize(&self) -> u64 {
        self.resizes.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Notes that all threads that turn pages know of the change with this number.
    pub(super) fn note_known(&self, resize: u64) {
        self.known_resizes.fetch_max(resize, Ordering::AcqRel);
    }

    /// Returns whether all threads that turn pages know of every change.
    pub(super) fn are_resizes_known(&self) -> bool {
        let resizes = self.resizes.load(Ordering::Acquire);
        self.known_resizes.load(Ordering::Acquire) >= resizes
    }
}
