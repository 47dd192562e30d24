//! The actions that wait for their epoch: a fixed number without a lock, the rest in a locked list.
//!
//! # Concurrency
//! An entry's `state` is [`EMPTY`], [`BUSY`] or the epoch of the action in it. The thread that
//! changes it to `BUSY` owns the cell until it stores something else:
//! - D1. Filling stores the epoch with release; taking out acquires it, and so sees the action.
//! - D2. Emptying stores `EMPTY` with release; filling acquires it, so the cell is not written
//!   while it is still being read.
//!
//! A bump has an epoch of its own, so an entry that was emptied and filled again in between never
//! holds the epoch that a slow taker expects.
//!
//! A drainer that does not see an entry yet has not been asked to: pushing is followed by a drain
//! of the pusher's own.
#![expect(unsafe_code, reason = "an action is written and taken under its entry's state")]

use std::fmt;

use crate::Mutex;
use crate::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::cell::UnsafeCell;

/// The work that runs when an epoch is over.
pub(super) type Action = Box<dyn FnOnce() + Send>;

const EMPTY: u64 = 0;
const BUSY: u64 = 1;

/// More than bumps outpace their epochs by in ordinary work; more wait in the locked list. Models
/// have one, so that the second action already overflows.
const ENTRIES: usize = if cfg!(any(loom, shuttle)) { 1 } else { 64 };

pub(super) struct DrainList {
    entries: [Entry; ENTRIES],
    overflow: Mutex<Vec<(u64, Action)>>,
    /// The length of `overflow`, changed under its lock, read without.
    overflow_len: AtomicUsize,
}

struct Entry {
    state: AtomicU64,
    action: UnsafeCell<Option<Action>>,
}

// SAFETY: `action` is touched only by the one thread that changed `state` to `BUSY`, and the
// orders D1 and D2 make its accesses happen after those of the owner before. Actions are `Send`.
unsafe impl Sync for Entry {}

impl Entry {
    const fn is_epoch(state: u64) -> bool {
        state > BUSY
    }

    fn try_fill(&self, epoch: u64, action: Action) -> Result<(), Action> {
        let free = self.state.load(Ordering::Relaxed) == EMPTY
            // [D2]
            && self
                .state
                .compare_exchange(EMPTY, BUSY, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !free {
            return Err(action);
        }
        self.action.with_mut(|cell| {
            // SAFETY: the entry is `BUSY` by this thread's doing.
            let cell = unsafe { &mut *cell };
            *cell = Some(action);
        });
        // [D1]
        self.state.store(epoch, Ordering::Release);
        Ok(())
    }

    fn take_below(&self, horizon: u64) -> Option<Action> {
        let epoch = self.state.load(Ordering::Relaxed);
        if !Self::is_epoch(epoch) || epoch >= horizon {
            return None;
        }
        // [D1]; the failure is another drainer's success.
        self.state.compare_exchange(epoch, BUSY, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let action = self.action.with_mut(|cell| {
            // SAFETY: the entry is `BUSY` by this thread's doing.
            let cell = unsafe { &mut *cell };
            cell.take()
        });
        // [D2]
        self.state.store(EMPTY, Ordering::Release);
        action
    }
}

impl DrainList {
    pub(super) fn new() -> Self {
        let entry = |_| Entry { state: AtomicU64::new(EMPTY), action: UnsafeCell::new(None) };
        Self {
            entries: std::array::from_fn(entry),
            overflow: Mutex::new(Vec::new()),
            overflow_len: AtomicUsize::new(0),
        }
    }

    /// Adds an action of `epoch`. The caller drains afterwards.
    pub(super) fn push(&self, epoch: u64, mut action: Action) {
        for entry in &self.entries {
            match entry.try_fill(epoch, action) {
                Ok(()) => return,
                Err(back) => action = back,
            }
        }
        let mut overflow = self.overflow.lock();
        overflow.push((epoch, action));
        self.overflow_len.store(overflow.len(), Ordering::Relaxed);
    }

    /// Takes out every action of an epoch below `horizon` and hands it to `run`, with no lock held.
    pub(super) fn take_below(&self, horizon: u64, mut run: impl FnMut(Action)) {
        self.entries.iter().filter_map(|entry| entry.take_below(horizon)).for_each(&mut run);
        // Relaxed: a thread that must run an action of this list pushed it, or got the awaited bit
        // after the push [P5], and so reads a length that counts it; the lock orders the rest.
        if self.overflow_len.load(Ordering::Relaxed) == 0 {
            return;
        }
        let due: Vec<_> = {
            let mut overflow = self.overflow.lock();
            let due = overflow.extract_if(.., |(epoch, _)| *epoch < horizon).collect();
            self.overflow_len.store(overflow.len(), Ordering::Relaxed);
            due
        };
        due.into_iter().for_each(|(_, action)| run(action));
    }

    /// Whether no action waits, as far as the caller must know.
    pub(super) fn is_empty(&self) -> bool {
        self.overflow_len.load(Ordering::Relaxed) == 0
            && !self
                .entries
                .iter()
                .any(|entry| Entry::is_epoch(entry.state.load(Ordering::Relaxed)))
    }
}

impl fmt::Debug for DrainList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrainList").finish_non_exhaustive()
    }
}
