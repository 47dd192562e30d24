//! The rounds of a periodic task that sleeps while its store is idle.
//! A process may have hundreds of idle stores, and none of them needs a timer.
//!
//! 1. Each round reports whether it has found something to do. After one that has found nothing the
//!    task dozes: from then on a write wakes it.
//! 2. The task ends after another round that has found nothing, if that began when all writes were
//!    over that had taken their numbers before the task dozed.
//! 3. A write, or another call that gives the task work, wakes it. If it has ended, it begins
//!    again.
//!
//! # Invariants
//! - S1. No wake-up is lost. A write takes its number before it looks whether the task dozes, and
//!   the task says that it dozes before it reads the last number; all four steps are sequentially
//!   consistent. So either the write sees that the task dozes, or the task waits for the write. A
//!   round after that finds the work that the write has left.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst, fence};

use sync::Mutex;
use workers::Next;

use codec::SeqNo;

use sequence::Sequence;

/// Whether a task is awake, dozes or has ended. See the file's head.
#[derive(Debug, Default)]
pub struct Rounds {
    is_dozing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The write that was numbered last when the task began to doze.
    newest: Option<SeqNo>,
    has_ended: bool,
}

impl Rounds {
    /// Does a round, which returns whether it has found nothing to do, and returns the time of the
    /// next one.
    pub fn run(&self, sequence: &Sequence, round: impl FnOnce() -> bool) -> Next {
        let newest = self.state.lock().newest;
        let are_over = newest.is_some_and(|newest| newest <= sequence.visible());
        let is_idle = round();
        let mut state = self.state.lock();
        if !is_idle {
            self.is_dozing.store(false, SeqCst);
            state.newest = None;
        } else if state.newest.is_none() {
            // [S1]
            self.is_dozing.store(true, SeqCst);
            fence(SeqCst);
            state.newest = Some(sequence.last());
        } else if are_over && state.newest == newest {
            state.has_ended = true;
            return Next::Never;
        }
        Next::AsBefore
    }

    /// Wakes the task after a write, whose number is not over yet. If the task has ended, `begin`
    /// has to begin it again. Costs a load if the task is awake.
    #[inline]
    pub fn wake(&self, begin: impl FnOnce()) {
        if self.is_dozing.load(SeqCst) && self.end_sleep() {
            begin();
        }
    }

    /// Does the same after a change that has no number. A round after this call sees the change.
    pub fn wake_unnumbered(&self, begin: impl FnOnce()) {
        fence(SeqCst);
        self.wake(begin);
    }

    /// Returns whether the task has ended.
    #[cold]
    fn end_sleep(&self) -> bool {
        let mut state = self.state.lock();
        self.is_dozing.store(false, SeqCst);
        state.newest = None;
        std::mem::take(&mut state.has_ended)
    }
}

#[cfg(test)]
mod tests;
