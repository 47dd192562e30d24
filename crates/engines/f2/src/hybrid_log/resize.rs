//! How many pages are in memory, which may change at any time.
//!
//! More pages take effect immediately: the next ones find room. With fewer, the oldest pages become
//! read-only, are flushed and are removed in the background. The log is *within its limit* once
//! they are removed, and a thread that waits for their memory waits for that. [H9]

use std::sync::Arc;

use sync::atomic::Ordering;

use super::{Geometry, HybridLog};
use crate::address::LogAddress;

impl HybridLog {
    /// Pages that may be in memory.
    pub(crate) fn frames(&self) -> u64 {
        self.frames.allowed()
    }

    /// The most pages that there can ever be in memory.
    pub(crate) fn frames_max(&self) -> u64 {
        self.geometry.frames_max as u64
    }

    /// Sets the number of pages that may be in memory, within the number that the log was made for.
    /// One thread at a time calls it.
    pub(crate) fn resize(self: &Arc<Self>, frames: u64) {
        let frames = frames.clamp(Geometry::FRAMES_MIN as u64, self.frames_max());
        let before = self.frames.allow(frames);
        if frames == before {
            return;
        }
        let resize = self.frames.count_resize();
        let log = Arc::clone(self);
        // A thread that turns a page just now may have read the old number.
        self.epochs.bump_with(move || log.frames.note_known(resize));
        if frames < before {
            self.after_turn(self.geometry.page(self.tail()));
        }
    }

    /// Returns whether there are no more pages in memory than there may be, and will not be;
    /// otherwise does something about it.
    pub(crate) fn is_within_limit(self: &Arc<Self>) -> bool {
        let frames = self.frames();
        if !self.frames.are_resizes_known() {
            return false;
        }
        if self.frames.ring.held() > frames {
            self.after_turn(self.geometry.page(self.tail()));
            // A flush that failed for lack of room is tried again by the next writer, or else here.
            self.flush_again();
        }
        if frames < self.frames.ring.slots() {
            // Pages that no thread reads any more, but that were left for the next pages, would not
            // be replaced by these: the next pages would be additional ones.
            self.frames.ring.release_below(self.geometry.page(self.safe_head()));
        }
        self.frames.ring.held() <= frames
    }

    /// Pages that have memory.
    #[cfg(test)]
    pub(crate) fn pages_held(&self) -> u64 {
        self.frames.ring.held()
    }

    /// Releases the memory of the pages below `to`, which no thread reads there any more, unless
    /// the next pages take it over. [H3, H9]
    pub(super) fn give_up_below(&self, to: u64) {
        if self.frames() < self.frames.ring.slots() {
            let last = self.geometry.page(LogAddress::new(to));
            for page in self.geometry.page(self.safe_head())..last {
                self.frames.ring.release(page);
            }
        }
        self.regions.safe_head.fetch_max(to, Ordering::AcqRel);
    }
}
