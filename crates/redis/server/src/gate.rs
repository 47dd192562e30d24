//! The gate: many loops execute next to each other, or one command executes alone.
//!
//! Each loop has a slot of its own and locks it while it executes, which costs an uncontended lock
//! per turn. A command that must be alone (EXEC, a command over several keys, WATCH) has two ways:
//!
//! 1. A short one runs on its loop, which locks every slot meanwhile ([`Pass::alone`]).
//! 2. A long one runs on a thread of its own, which locks no slot while it works
//!    ([`Gate::reserve`]). First it changes the state to [`RESERVED`]: loops continue, and read
//!    keys, but leave writes for later. Before the thread writes, it changes the state to
//!    [`CLOSED`], and loops leave reads for later too. After each change it passes through all
//!    slots, so that every loop has seen the new state or is between two turns.
//!
//! In both ways the store removes no expired values meanwhile.
//!
//! A thread runs writes of one key that have to wait ([`Gate::enter_on_thread`]). It has a slot of
//! its own, which no loop waits for: while the thread has it, a short command that must be alone
//! goes the second way. The gate is reserved between two of these writes, so that the loops' writes
//! do not wait for one.
//!
//! # Invariants
//! - G1. While a command is alone, no other command writes. While it writes, no other command reads
//!   keys.
//! - G2. No loop waits for a thread: a loop waits for a slot at most for a turn of another loop.
//!
//! # Concurrency
//! Slots are taken in index order, and a loop that holds one releases it before it takes others
//! ([`Pass::alone`]). A thread holds one slot at a time. So there is no cycle. Only one thread may
//! reserve, and only one may have the slot of writes that wait.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use thermocline::sync::locks::{Condvar, Mutex, MutexGuard};
use thermocline::{ExpiryPause, PauseExpiry};

/// Every command may execute.
const OPEN: u8 = 0;
/// A thread runs a command alone that has not written yet: other commands may read.
const RESERVED: u8 = 1;
/// That command writes.
const CLOSED: u8 = 2;

/// The longest time, in milliseconds, for which the thread waits until loops have executed the
/// commands that they left for later.
const OTHERS_TURN_MS: u64 = 100;

/// The gate.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Each says whether its loop has left a command for later since the gate was opened.
    slots: Vec<CachePadded<Mutex<bool>>>,
    /// The same of the thread that runs writes which wait.
    writer: CachePadded<Mutex<bool>>,
    state: CachePadded<AtomicU8>,
    /// Loops and threads that left commands for later and have not executed them since.
    behind: Mutex<usize>,
    caught_up: Condvar,
    /// The gate was opened; with the lock of `behind`.
    opened: Condvar,
    /// [`OTHERS_TURN_MS`], or more in a test that must not depend on time.
    others_turn_ms: AtomicU64,
    /// Calls of [`Gate::wait_for_turns`] that have begun.
    #[cfg(test)]
    turn_waits: AtomicU64,
    pause_expiry: PauseExpiry,
}

impl Gate {
    /// Returns an open gate for `slot_count` loops.
    pub(crate) fn new(slot_count: usize, pause_expiry: PauseExpiry) -> Self {
        Self {
            slots: (0..slot_count).map(|_| CachePadded::default()).collect(),
            writer: CachePadded::default(),
            state: CachePadded::new(AtomicU8::new(OPEN)),
            behind: Mutex::default(),
            caught_up: Condvar::new(),
            opened: Condvar::new(),
            others_turn_ms: AtomicU64::new(OTHERS_TURN_MS),
            #[cfg(test)]
            turn_waits: AtomicU64::default(),
            pause_expiry,
        }
    }

    /// Enters next to others. Waits while a command is alone on another loop.
    pub(crate) fn enter(&self, slot: usize) -> Pass<'_> {
        Pass { gate: self, slot, guard: Some(self.slots[slot].lock()) }
    }

    /// Enters for the thread that runs writes which wait. Waits until the gate is open. Returns
    /// `None` if it is not open after `wait`.
    pub(crate) fn enter_on_thread(&self, wait: Duration) -> Option<MutexGuard<'_, bool>> {
        for is_last in [false, true] {
            let mut has_left = self.writer.lock();
            if self.is_open() {
                if std::mem::take(&mut *has_left) {
                    self.note_caught_up();
                }
                return Some(has_left);
            }
            *has_left = true;
            drop(has_left);
            let mut behind = self.behind.lock();
            if !is_last && !self.is_open() {
                self.opened.wait_for(&mut behind, wait);
            }
        }
        None
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
            let most = Duration::from_millis(self.others_turn_ms.load(Relaxed));
            self.caught_up.wait_while_for(&mut behind, |behind| *behind > 0, most);
            *behind = 0;
        }
        drop(behind);
        // Both may wait for room, and meanwhile other commands write.
        let pause = self.pause_expiry.hold();
        let writer = self.writer.lock();
        self.state.store(RESERVED, SeqCst);
        drop(writer);
        self.wait_for_turns();
        Reservation { gate: self, _pause: pause }
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

    /// Waits until each loop, and the thread of writes, that is in its slot has left it: all
    /// commands have ended that were executing at the call. The caller is in no slot.
    pub(crate) fn wait_for_turns(&self) {
        #[cfg(test)]
        self.turn_waits.fetch_add(1, SeqCst);
        self.slots.iter().chain([&self.writer]).for_each(|slot| drop(slot.lock()));
    }
}

/// The right of a thread to execute a command alone. Dropping it opens the gate.
pub(crate) struct Reservation<'a> {
    gate: &'a Gate,
    _pause: ExpiryPause<'a>,
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
        // If the thread of writes has its slot it has entered, and is not behind.
        let is_writer_behind = gate.writer.try_lock().is_some_and(|has_left| *has_left);
        *gate.behind.lock() = loops.len() + usize::from(is_writer_behind);
        loops
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.gate.state.store(OPEN, SeqCst);
        let _behind = self.gate.behind.lock();
        self.gate.opened.notify_all();
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
    /// Returns `None` without running it if a thread has reserved the gate, or runs a write, or if
    /// the store is removing an expired value.
    pub(crate) fn alone<T>(&mut self, work: impl FnOnce() -> T) -> Option<T> {
        if !self.gate.is_open() {
            return None;
        }
        self.leave();
        let guards: Vec<MutexGuard<'_, bool>> =
            self.gate.slots.iter().map(|slot| slot.lock()).collect();
        // The thread that reserves it later waits for these slots. [G2]
        let writer = self.gate.writer.try_lock().filter(|_| self.gate.is_open());
        let result = writer.and_then(|_writer| {
            let _held = self.gate.pause_expiry.try_hold()?;
            Some(work())
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
