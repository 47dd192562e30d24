//! A thread's participant, and the guard that says it is protected.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use super::Epochs;
use super::slots::{self, Block, Slot};

/// A thread's place in a set of [`Epochs`], freed on drop. It may move to another thread while no
/// guard of it lives.
pub struct Participant {
    epochs: Epochs,
    block: Arc<Block>,
    index: usize,
    /// How many guards of this participant live.
    depth: Cell<u32>,
}

/// While it lives, nothing is taken away that could be reached when it was made or last refreshed.
///
/// References found under it should borrow it; then they cannot outlive a refresh or the guard.
#[must_use = "protection ends when the guard is dropped"]
pub struct Guard<'a> {
    epochs: &'a Epochs,
    slot: &'a Slot,
    /// The depth of the participant that it belongs to; none if it has a slot to itself.
    depth: Option<&'a Cell<u32>>,
}

impl Participant {
    pub(super) fn new(epochs: Epochs, block: Arc<Block>, index: usize) -> Self {
        Self { epochs, block, index, depth: Cell::new(0) }
    }

    /// Protects the thread that holds this participant: a store and a fence. Inside another guard
    /// of the same participant it costs a count: the outer guard's protection holds for both.
    pub fn protect(&self) -> Guard<'_> {
        let slot = self.block.slot(self.index);
        let depth = self.depth.get();
        if depth == 0 {
            slot.enter(self.epochs.newest());
            self.epochs.fence_after_entering();
        }
        self.depth.set(depth + 1);
        Guard { epochs: &self.epochs, slot, depth: Some(&self.depth) }
    }

    /// The set of threads it belongs to.
    pub fn epochs(&self) -> &Epochs {
        &self.epochs
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        // Awaited only if a guard was leaked; nothing borrows it any more.
        if self.block.slot(self.index).change(slots::FREE) {
            self.epochs.drain();
        }
    }
}

impl<'a> Guard<'a> {
    pub(super) fn without_participant(epochs: &'a Epochs, slot: &'a Slot) -> Self {
        Self { epochs, slot, depth: None }
    }

    /// Moves on to the newest epoch, as if the guard were dropped and made again, and runs the
    /// actions that waited for no other thread. Two loads if there is no newer epoch.
    ///
    /// A thread that stays protected calls this often: no thread can take away a thing that it
    /// still protects. Inside another guard of the same participant it does nothing, because memory
    /// that the other one protects is still in use.
    pub fn refresh(&mut self) {
        if self.depth.is_some_and(|depth| depth.get() > 1) {
            return;
        }
        let newest = self.epochs.newest();
        if self.slot.own_epoch() != newest && self.slot.change(slots::protected(newest)) {
            self.epochs.drain();
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let left = match self.depth {
            None => slots::FREE,
            Some(depth) => {
                depth.set(depth.get() - 1);
                if depth.get() > 0 {
                    return;
                }
                slots::IDLE
            }
        };
        if self.slot.change(left) {
            self.epochs.drain();
        }
    }
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant").field("depth", &self.depth.get()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("epoch", &self.slot.own_epoch()).finish_non_exhaustive()
    }
}
