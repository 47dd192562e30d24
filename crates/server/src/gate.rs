//! Who may execute now: many loops side by side, or one command alone.
//!
//! Each loop has a slot of its own and holds it while it executes, which costs an uncontended lock
//! per slice of commands. A command that must be alone (EXEC, a command over several keys, WATCH)
//! holds every slot, and keeps what has ended from being removed by the store meanwhile.
//!
//! # Concurrency
//! Slots are taken in index order, and nobody who holds one waits for another without giving the
//! first back (`Pass::alone`); hence no cycle.

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};
use thermocline::RemovalHold;

/// The slots.
#[derive(Debug)]
pub(crate) struct Gate {
    slots: Vec<CachePadded<Mutex<()>>>,
    removal: RemovalHold,
}

impl Gate {
    /// A gate for this many executors.
    pub(crate) fn new(slot_count: usize, removal: RemovalHold) -> Self {
        Self { slots: (0..slot_count).map(|_| CachePadded::default()).collect(), removal }
    }

    /// Enters beside others. Waits while somebody is alone inside.
    pub(crate) fn enter(&self, slot: usize) -> Pass<'_> {
        Pass { gate: self, slot, guard: Some(self.slots[slot].lock()) }
    }
}

/// The right to execute. Dropping it leaves the gate.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
    slot: usize,
    guard: Option<MutexGuard<'a, ()>>,
}

impl Pass<'_> {
    /// Runs `work` while nobody else executes. What the others did before is visible to it, and
    /// what it did to them afterwards.
    pub(crate) fn alone<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.guard = None;
        let guards: Vec<MutexGuard<'_, ()>> =
            self.gate.slots.iter().map(|slot| slot.lock()).collect();
        let held = self.gate.removal.hold();
        let result = work();
        drop((held, guards));
        self.guard = Some(self.gate.slots[self.slot].lock());
        result
    }
}
