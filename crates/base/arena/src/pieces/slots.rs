//! The slots of a slab: which of them pieces have, and which pages of the system are in memory.
//!
//! A page counts as in memory from the first time that a slot on it is taken until the page is
//! released. It is *idle* if it is in memory and no slot on it is taken. A free slot is *warm* if
//! all its pages are in memory, else *cold*: taking it takes memory from the system.

use std::ops::{AddAssign, Range};

use super::bits::Bits;

/// Bytes of a page of the system, or a multiple: the least that is released. Models have few slots.
pub(super) const PAGE_BYTES: usize = if cfg!(any(loom, shuttle)) { 128 } else { 4096 };

/// See the file's head.
#[derive(Debug)]
pub(super) struct Slots {
    slot_bytes: usize,
    count: usize,
    taken: Bits,
    taken_count: usize,
    pages: Bits,
    page_count: usize,
    idle_count: usize,
    warm: Bits,
    cold: Bits,
}

/// How many pages more are in memory, and idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) pages: isize,
    pub(super) idle: isize,
}

impl AddAssign for Change {
    fn add_assign(&mut self, other: Self) {
        self.pages += other.pages;
        self.idle += other.idle;
    }
}

impl Slots {
    /// Makes `count` slots of this length, all of them free and cold.
    pub(super) fn new(slot_bytes: usize, count: usize) -> Self {
        let mut cold = Bits::default();
        (0..count).for_each(|slot| cold.set(slot, true));
        let [taken, pages, warm] = Default::default();
        Self {
            slot_bytes,
            count,
            taken,
            taken_count: 0,
            pages,
            page_count: 0,
            idle_count: 0,
            warm,
            cold,
        }
    }

    /// Whether no slot is taken.
    pub(super) fn is_empty(&self) -> bool {
        self.taken_count == 0
    }

    /// Free slots that are warm.
    pub(super) fn warm_count(&self) -> usize {
        self.warm.count()
    }

    /// Whether a free slot is warm, and whether one is cold.
    pub(super) fn has_warm(&self) -> bool {
        self.warm.first().is_some()
    }

    pub(super) fn has_cold(&self) -> bool {
        self.cold.first().is_some()
    }

    /// Pages that are idle.
    pub(super) fn idle_count(&self) -> usize {
        self.idle_count
    }

    /// Takes the first slot that is warm.
    pub(super) fn take_warm(&mut self) -> Option<(usize, Change)> {
        let slot = self.warm.first()?;
        Some((slot, self.take(slot)))
    }

    /// Takes the first slot that is cold.
    pub(super) fn take_cold(&mut self) -> Option<(usize, Change)> {
        let slot = self.cold.first()?;
        Some((slot, self.take(slot)))
    }

    fn take(&mut self, slot: usize) -> Change {
        let mut change = Change::default();
        for page in self.pages_of(slot) {
            if self.pages.insert(page) {
                change.pages += 1;
            } else if !self.taken.any_in(self.slots_on(page..page + 1)) {
                change.idle -= 1;
            }
        }
        self.taken.insert(slot);
        self.taken_count += 1;
        self.warm.remove(slot);
        self.cold.remove(slot);
        if change.pages > 0 {
            self.look_again(self.pages_of(slot));
        }
        self.note(change)
    }

    /// A slot that was taken is free.
    pub(super) fn release(&mut self, slot: usize) -> Change {
        debug_assert!(self.taken.has(slot), "only a taken slot is released");
        self.taken.remove(slot);
        self.taken_count -= 1;
        self.warm.insert(slot);
        let is_idle = |page: &usize| !self.taken.any_in(self.slots_on(*page..*page + 1));
        let idle = self.pages_of(slot).filter(is_idle).count() as isize;
        self.note(Change { pages: 0, idle })
    }

    /// Returns the first run of adjacent idle pages, but no more than `most`.
    pub(super) fn idle_pages(&self, most: usize) -> Option<Range<usize>> {
        let is_idle =
            |page: usize| self.pages.has(page) && !self.taken.any_in(self.slots_on(page..page + 1));
        let end = (self.count * self.slot_bytes).div_ceil(PAGE_BYTES);
        let first = (0..end).find(|page| is_idle(*page))?;
        let more = (first + 1..end).take(most.saturating_sub(1));
        Some(first..first + 1 + more.take_while(|page| is_idle(*page)).count())
    }

    /// These pages, which are idle, are not in memory any more.
    pub(super) fn release_pages(&mut self, pages: Range<usize>) -> Change {
        pages.clone().for_each(|page| self.pages.remove(page));
        let count = -(pages.len() as isize);
        self.look_again(pages);
        self.note(Change { pages: count, idle: count })
    }

    /// Returns the change when the slab is unmapped: none of its pages is in memory any more. No
    /// slot is taken.
    pub(super) fn gone(&self) -> Change {
        debug_assert!(self.is_empty() && self.idle_count == self.page_count, "no slot is taken");
        Change { pages: -(self.page_count as isize), idle: -(self.idle_count as isize) }
    }

    fn note(&mut self, change: Change) -> Change {
        self.page_count = self.page_count.wrapping_add_signed(change.pages);
        self.idle_count = self.idle_count.wrapping_add_signed(change.idle);
        change
    }

    /// Sorts free slots on these pages again, as they may have become warm or cold.
    fn look_again(&mut self, pages: Range<usize>) {
        for slot in self.slots_on(pages) {
            if !self.taken.has(slot) {
                let is_warm = self.pages_of(slot).all(|page| self.pages.has(page));
                self.warm.set(slot, is_warm);
                self.cold.set(slot, !is_warm);
            }
        }
    }

    /// Returns the pages that hold a slot.
    fn pages_of(&self, slot: usize) -> Range<usize> {
        let begin = slot * self.slot_bytes;
        begin / PAGE_BYTES..(begin + self.slot_bytes).div_ceil(PAGE_BYTES)
    }

    /// Returns the slots that have a part on any of these pages.
    fn slots_on(&self, pages: Range<usize>) -> Range<usize> {
        let end = (pages.end * PAGE_BYTES).div_ceil(self.slot_bytes);
        pages.start * PAGE_BYTES / self.slot_bytes..end.min(self.count)
    }
}
