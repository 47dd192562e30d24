//! The slots in which threads say that they are protected, in blocks that are never taken away.
//!
//! # Invariants
//! - A state is an epoch (or [`FREE`], or [`IDLE`]) and the awaited bit; the bit is set only on an
//!   epoch, by [`Slot::await_change`], and only its owner takes an epoch away.
//! - Only a slot's owner changes it, except for claiming a free one and for the awaited bit. So
//!   [`Slot::enter`] may overwrite `IDLE` without looking.
//! - A block, once linked, stays as long as the set: a scan needs no protection of its own.

use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::SetOnce;
use crate::atomic::{AtomicU64, Ordering};
use crate::mutant;
use crate::planted::{Planted, relaxed_if};

/// Nobody's slot.
pub(super) const FREE: u64 = 0;
/// A slot whose owner is not protected.
pub(super) const IDLE: u64 = 1 << 1;
/// The epoch in which everything begins.
pub(super) const FIRST_EPOCH: u64 = 2;
/// Another thread waits for this slot's owner to leave its epoch.
const AWAITED: u64 = 1;

/// Threads that are protected at the same time seldom outnumber this; another block is one
/// allocation. Models have one slot a block, so that the second thread already grows the list.
const SLOTS_PER_BLOCK: usize = if cfg!(any(loom, shuttle)) { 1 } else { 32 };

/// The state of a slot whose owner is protected in `epoch`.
pub(super) const fn protected(epoch: u64) -> u64 {
    epoch << 1
}

/// The epoch that a state says, if its owner is protected.
pub(super) const fn epoch_of(state: u64) -> Option<u64> {
    let epoch = state >> 1;
    if epoch >= FIRST_EPOCH { Some(epoch) } else { None }
}

/// The word in which one thread says that it is protected.
#[derive(Debug)]
pub(super) struct Slot(AtomicU64);

impl Slot {
    /// Returns the slot's state, for a drainer [P1, P2].
    pub(super) fn state(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Returns the slot's epoch, for its owner, the thread that wrote it.
    pub(super) fn own_epoch(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> 1
    }

    fn claim(&self, state: u64) -> bool {
        // [P4]
        let order = relaxed_if(Planted::RelaxedClaim, Ordering::Acquire);
        self.0.load(Ordering::Relaxed) == FREE
            && self.0.compare_exchange(FREE, state, order, Ordering::Relaxed).is_ok()
    }

    /// Says that the owner, which was idle, is protected in `epoch`. A fence must follow [F1].
    pub(super) fn enter(&self, epoch: u64) {
        // [P1]
        self.0.store(protected(epoch), relaxed_if(Planted::RelaxedEnter, Ordering::Release));
    }

    /// Replaces the owner's state. Returns true if another thread waited for that: the owner must
    /// drain.
    #[must_use]
    pub(super) fn change(&self, state: u64) -> bool {
        // [P2], [P5]
        let order = mutant!(Planted::RelaxedLeave, Ordering::AcqRel, Ordering::Acquire);
        let order = mutant!(Planted::RelaxedBaton, order, Ordering::Release);
        self.0.swap(state, order) & AWAITED != 0
    }

    /// Asks the owner to drain when it changes the slot's state. Returns false if the state is no
    /// longer `seen`.
    pub(super) fn await_change(&self, seen: u64) -> bool {
        // [P5]
        let order = relaxed_if(Planted::RelaxedBaton, Ordering::Release);
        let new = seen | AWAITED;
        let is_set = || self.0.compare_exchange(seen, new, order, Ordering::Relaxed).is_ok();
        let is_set = || mutant!(Planted::SharedBaton, is_set(), seen == new || is_set());
        mutant!(Planted::NoBaton, is_set(), true)
    }
}

/// Slots side by side, and more of them.
#[derive(Debug)]
pub(super) struct Block {
    /// Each on lines of its own, because its owner writes it on every protect and release.
    slots: [CachePadded<Slot>; SLOTS_PER_BLOCK],
    next: SetOnce<Arc<Block>>,
}

impl Block {
    pub(super) fn new() -> Self {
        let slots = std::array::from_fn(|_| CachePadded::new(Slot(AtomicU64::new(FREE))));
        Self { slots, next: SetOnce::new() }
    }

    pub(super) fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    /// Takes a free slot, from `first` on, and has it say `state`. Adds a block if none is free.
    pub(super) fn claim(first: &Arc<Self>, state: u64) -> (&Arc<Self>, usize) {
        let start = preferred_slot();
        let mut block = first;
        loop {
            for index in (start..SLOTS_PER_BLOCK).chain(0..start) {
                if block.slots[index].claim(state) {
                    return (block, index);
                }
            }
            // If another thread is faster, its block serves as well and this one goes.
            let next = block.next.get();
            block = next.unwrap_or_else(|| block.next.get_or_set(Arc::new(Self::new())));
        }
    }

    /// Every slot from `first` on.
    pub(super) fn all(first: &Arc<Self>) -> impl Iterator<Item = &Slot> {
        std::iter::successors(Some(first), |block| block.next.get())
            .flat_map(|block| block.slots.iter().map(|slot| &**slot))
    }
}

/// Returns the slot at which the calling thread begins to look for a free one: threads begin apart,
/// so that each finds the one it used last in its first step.
#[cfg(not(any(loom, shuttle)))]
fn preferred_slot() -> usize {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static PREFERRED: usize = NEXT.fetch_add(1, Ordering::Relaxed) as usize % SLOTS_PER_BLOCK;
    }
    PREFERRED.with(|preferred| *preferred)
}

#[cfg(any(loom, shuttle))]
fn preferred_slot() -> usize {
    0
}
