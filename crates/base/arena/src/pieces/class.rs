//! A class of the pool: the slabs with slots of one length, and the state of each.

use std::sync::Arc;

use super::bits::Bits;
use super::marks::Marks;
use super::memory::Memory;
use super::slots::{Change, PAGE_BYTES, Slots};

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct Class {
    slabs: Vec<Option<Slab>>,
    /// Numbers without a slab; and of slabs with warm slots, with cold ones, with idle pages.
    gone: Bits,
    warm: Bits,
    cold: Bits,
    idle: Bits,
    /// Slabs of which no slot is taken.
    empty: usize,
}

#[derive(Debug)]
pub(super) struct Slab {
    memory: Arc<Memory>,
    slots: Slots,
}

/// A slot that the caller has now.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) memory: Arc<Memory>,
    pub(super) slab: usize,
    pub(super) slot: usize,
}

impl Class {
    /// Whether a free slot is warm.
    pub(super) fn has_warm(&self) -> bool {
        self.warm.first().is_some()
    }

    /// Takes a warm slot, of the lowest slab that has one: higher ones become empty.
    pub(super) fn take_warm(&mut self) -> Option<(Taken, Change)> {
        let slab = self.warm.first()?;
        self.take(slab, Slots::take_warm)
    }

    /// The same of a cold one.
    pub(super) fn take_cold(&mut self) -> Option<(Taken, Change)> {
        let slab = self.cold.first()?;
        self.take(slab, Slots::take_cold)
    }

    fn take(
        &mut self,
        number: usize,
        take: impl FnOnce(&mut Slots) -> Option<(usize, Change)>,
    ) -> Option<(Taken, Change)> {
        let slab = self.slabs.get_mut(number)?.as_mut()?;
        let was_empty = slab.slots.is_empty();
        let (slot, change) = take(&mut slab.slots)?;
        let taken = Taken { memory: Arc::clone(&slab.memory), slab: number, slot };
        self.empty -= usize::from(was_empty);
        self.look_again(number);
        Some((taken, change))
    }

    /// Adds a slab, all of it free.
    pub(super) fn add(&mut self, memory: Memory, slots: Slots) {
        let number = self.gone.first().unwrap_or(self.slabs.len());
        self.gone.remove(number);
        let slab = Some(Slab { memory: Arc::new(memory), slots });
        match self.slabs.get_mut(number) {
            Some(place) => *place = slab,
            None => self.slabs.push(slab),
        }
        self.empty += 1;
        self.look_again(number);
    }

    /// The highest slab with pieces that have marks, and the free slots that are warm in lower
    /// ones, if they are enough for these pieces.
    pub(super) fn sparse(&self) -> Option<(usize, &Marks)> {
        let mut slabs = self.slabs.iter().rev().flatten();
        let highest = slabs.find(|slab| slab.memory.marks.all().next().is_some())?;
        let free = slabs.map(|slab| slab.slots.warm_count()).sum();
        let marks = &highest.memory.marks;
        (free >= marks.all().count()).then_some((free, marks))
    }

    /// Frees a slot. If there are two empty slabs then, one stays; the other is returned to the
    /// caller, which drops it.
    pub(super) fn release(&mut self, number: usize, slot: usize) -> (Change, Option<Slab>) {
        let place = self.slabs.get_mut(number).and_then(Option::as_mut);
        let slab = place.expect("a slab stays as long as a slot of it is taken");
        let mut change = slab.slots.release(slot);
        let mut gone = None;
        if slab.slots.is_empty() {
            self.empty += 1;
            if self.empty > 1 {
                gone = self.remove(number, &mut change);
            }
        }
        self.look_again(number);
        (change, gone)
    }

    /// Releases `pages` idle pages, of the highest slabs first, or all there are. Slabs that are
    /// empty as a whole are handed to the caller.
    pub(super) fn release_pages(&mut self, pages: usize) -> (Change, Vec<Slab>) {
        let (mut change, mut gone) = (Change::default(), Vec::new());
        while let Some(number) = self.idle.last() {
            let left = pages.saturating_add_signed(change.pages);
            let Some(slab) = self.slabs.get_mut(number).and_then(Option::as_mut) else { break };
            if left == 0 {
                break;
            }
            if slab.slots.is_empty() {
                gone.extend(self.remove(number, &mut change));
            } else if let Some(idle) = slab.slots.idle_pages(left) {
                slab.memory.release(idle.clone());
                change += slab.slots.release_pages(idle);
            }
            self.look_again(number);
        }
        (change, gone)
    }

    /// Takes out a slab that is empty.
    fn remove(&mut self, number: usize, change: &mut Change) -> Option<Slab> {
        let slab = self.slabs.get_mut(number)?.take()?;
        *change += slab.slots.gone();
        self.empty -= 1;
        self.gone.insert(number);
        Some(slab)
    }

    /// Updates the sets after a change of a slab's slots or pages.
    fn look_again(&mut self, number: usize) {
        let slab = self.slabs.get(number).and_then(Option::as_ref);
        let of = |has: fn(&Slots) -> bool| slab.is_some_and(|slab| has(&slab.slots));
        let (warm, cold) = (of(Slots::has_warm), of(Slots::has_cold));
        let idle = of(|slots| slots.idle_count() > 0);
        self.warm.set(number, warm);
        self.cold.set(number, cold);
        self.idle.set(number, idle);
    }
}

/// Returns the pages that `bytes` bytes take.
pub(super) fn pages(bytes: u64) -> usize {
    bytes.div_ceil(PAGE_BYTES as u64) as usize
}
