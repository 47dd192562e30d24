//! The gate: many loops execute next to each other, or one command executes alone.
//!
//! Each loop has a slot of its own and locks it while it executes, which costs an uncontended lock
//! per turn. A command that must be alone (EXEC, a command over several keys, WATCH) has two ways:
//!
//! 1. A short one runs on its loop, which locks every slot meanwhile ([`Pass::alone`]).
//! 2. A long one runs on a thread of its own, which locks no slot while it works
//!    ([`Gate::reserve`]). First it changes the state to [`RESERVED`]: loops go on, and read keys,
//!    but leave writes for later. Before the thread writes, it changes the state to [`CLOSED`], and
//!    loops leave reads for later too. After each change it passes through all slots, so that every
//!    loop has seen the new state or is between two turns.
//!
//! In both ways the store removes no expired values meanwhile.
//!
//! # Invariants
//! - G1. While a command is alone, no other command writes. While it writes, no other command reads
//!   keys.
//! - G2. No loop waits for the thread: a loop waits for a slot at most for a turn of another loop.
//!
//! # Concurrency
//! Slots are taken in index order, and a loop that holds one gives it up before it takes others
//! ([`Pass::alone`]). The thread holds one slot at a time. So there is no cycle. Only one thread
//! may reserve.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex, MutexGuard};
use thermocline::{HeldRemoval, RemovalHold};

/// Every command may execute.
const OPEN: u8 = 0;
/// A thread runs a command alone that has not written yet: other commands may read.
const RESERVED: u8 = 1;
/// That command writes.
const CLOSED: u8 = 2;

/// The longest time for which the thread waits until loops have executed what they left for later.
const OTHERS_TURN: Duration = Duration::from_millis(100);

/// The gate.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Each says whether its loop has left a command for later since the gate was opened.
    slots: Vec<CachePadded<Mutex<bool>>>,
    state: CachePadded<AtomicU8>,
    /// Loops that left commands for later and have not executed them since.
    behind: Mutex<usize>,
    caught_up: Condvar,
    removal: RemovalHold,
}

impl Gate {
    /// Returns an open gate for `slot_count` loops.
    pub(crate) fn new(slot_count: usize, removal: RemovalHold) -> Self {
        Self {
            slots: (0..slot_count).map(|_| CachePadded::default()).collect(),
            state: CachePadded::new(AtomicU8::new(OPEN)),
            behind: Mutex::default(),
            caught_up: Condvar::new(),
            removal,
        }
    }

    /// Enters next to others. Waits while a command is alone on another loop.
    pub(crate) fn enter(&self, slot: usize) -> Pass<'_> {
        Pass { gate: self, slot, guard: Some(self.slots[slot].lock()) }
    }

    /// Whether every command may execute. Holds for a loop until it leaves its slot.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.state.load(SeqCst) == OPEN
    }

    /// Whether commands that change nothing may execute. Holds for a loop until it leaves its slot.
    pub(crate) fn lets_read(&self) -> bool {
        self.state.load(SeqCst) != CLOSED
    }

    /// Keeps all other commands from writing. Waits for the turns of all loops.
    pub(crate) fn reserve(&self) -> Reservation<'_> {
        // Otherwise commands that are alone could follow each other so closely that no other one
        // ever writes.
        let mut behind = self.behind.lock();
        if *behind > 0 {
            self.caught_up.wait_while_for(&mut behind, |behind| *behind > 0, OTHERS_TURN);
            *behind = 0;
        }
        drop(behind);
        self.change(RESERVED);
        Reservation { gate: self, _removal: self.removal.hold() }
    }

    /// Notes that a loop has executed the commands that it had left for later.
    pub(crate) fn note_caught_up(&self) {
        let mut behind = self.behind.lock();
        *behind = behind.saturating_sub(1);
        self.caught_up.notify_one();
    }

    fn change(&self, state: u8) {
        self.state.store(state, SeqCst);
        self.wait_for_turns();
    }

    /// Waits until each loop that is in its slot has left it: all commands have ended that were
    /// executing at the call. The caller is in no slot.
    pub(crate) fn wait_for_turns(&self) {
        self.slots.iter().for_each(|slot| drop(slot.lock()));
    }
}

/// The right of a thread to execute a command alone. Dropping it opens the gate.
pub(crate) struct Reservation<'a> {
    gate: &'a Gate,
    _removal: HeldRemoval<'a>,
}

impl Reservation<'_> {
    /// Keeps all other commands from reading, too.
    pub(crate) fn close(&self) {
        self.gate.change(CLOSED);
    }

    /// Opens the gate, and returns the slots of the loops that left commands for later. Each of
    /// them is to call [`Gate::note_caught_up`] after it has executed them.
    pub(crate) fn open(self) -> Vec<usize> {
        let gate = self.gate;
        drop(self);
        let left = |slot: &CachePadded<Mutex<bool>>| std::mem::take(&mut *slot.lock());
        let slots = gate.slots.iter().enumerate().filter(|(_, slot)| left(slot));
        let loops: Vec<usize> = slots.map(|(index, _)| index).collect();
        *gate.behind.lock() = loops.len();
        loops
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.gate.state.store(OPEN, SeqCst);
    }
}

/// The right of a loop to execute. Dropping it leaves the gate.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
    slot: usize,
    guard: Option<MutexGuard<'a, bool>>,
}

impl Pass<'_> {
    /// Runs `work` while no other command executes. It sees everything that others did before.
    /// Returns `None` without running it if a thread has reserved the gate.
    pub(crate) fn alone<T>(&mut self, work: impl FnOnce() -> T) -> Option<T> {
        if !self.gate.is_open() {
            return None;
        }
        self.leave();
        let guards: Vec<MutexGuard<'_, bool>> =
            self.gate.slots.iter().map(|slot| slot.lock()).collect();
        // The thread that reserves it later waits for these slots.
        let result = self.gate.is_open().then(|| {
            let _held = self.gate.removal.hold();
            work()
        });
        drop(guards);
        self.guard = Some(self.gate.slots[self.slot].lock());
        result
    }

    /// Leaves the slot. A thread that waits for it gets it, even if the loop enters again
    /// immediately.
    fn leave(&mut self) {
        if let Some(guard) = self.guard.take() {
            MutexGuard::unlock_fair(guard);
        }
    }

    /// Notes that the loop has left a command for later, since the gate is not open for it.
    pub(crate) fn note_left(&mut self) {
        if let Some(has_left) = &mut self.guard {
            **has_left = true;
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
