//! Epochs: when is it safe to take away what other threads may still be looking at?
//!
//! A thread is *protected* while it may hold on to something shared: an address, a page, a node. To
//! take such a thing away, a thread first makes it unreachable, then *bumps* the global epoch with
//! an action that does the taking away. The action runs once every thread that was protected in an
//! older epoch has left it. Nothing on the protected path waits for anything.
//!
//! ```text
//!            unlink page 3    bump_with(free page 3)
//! thread B ------x-----------------x---------------------------------------------->
//!                                  |                     action runs here, on A
//! global   ........... epoch 6 ....|.... epoch 7 ........|.........................
//!                                  |                     v
//! thread A -- protect [6] --- reads page 3 --------- refresh [7] -- cannot find 3 -->
//! thread C ------------------------------- protect [7] - cannot find 3 ------------>
//! ```
//!
//! The framework is FASTER's (section 2.3 of its paper), with the same verbs.
//!
//! ```
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::sync::Arc;
//! use thermocline_sync::epoch::Epochs;
//!
//! let epochs = Epochs::new();
//! let reader = epochs.join();
//! let freed = Arc::new(AtomicBool::new(false));
//!
//! let mut guard = reader.protect();
//! let frees = freed.clone();
//! epochs.bump_with(move || frees.store(true, Ordering::Relaxed));
//! assert!(!freed.load(Ordering::Relaxed), "the reader may still look");
//! guard.refresh();
//! assert!(freed.load(Ordering::Relaxed), "the reader has moved on");
//! ```
//!
//! A reference found under a guard cannot outlive a refresh, because a refresh borrows the guard
//! mutably:
//!
//! ```compile_fail,E0502
//! # use thermocline_sync::epoch::{Epochs, Guard};
//! /// Looks something up and lends it for as long as the guard holds still.
//! fn find<'g>(guard: &'g Guard<'_>) -> &'g u64 { # let _ = guard; &7 }
//! let epochs = Epochs::new();
//! let mut guard = epochs.protect();
//! let found = find(&guard);
//! guard.refresh();
//! println!("{found}"); // `found` may have been taken away
//! ```
//!
//! # The protocol
//! The global epoch only grows. A slot holds [`slots::FREE`], [`slots::IDLE`] or the epoch in which
//! its owner is protected, and one bit, *awaited*.
//!
//! 1. *Protect*: read the global epoch, store it in the slot, fence (F1).
//! 2. *Refresh*: read the global epoch; if it differs from the slot's, swap it in. *Release*: swap
//!    in idle or free. A thread that swaps out an awaited bit drains.
//! 3. *Bump*: add one to the global epoch; put (the epoch before, action) into the drain list;
//!    drain.
//! 4. *Drain*: read the global epoch, fence (F2), read all slots. The *horizon* is the smallest
//!    epoch among them and the global one. Take out and run every action below the horizon. If
//!    actions are left and a slot is at the horizon, that slot's owner blocks them: set its awaited
//!    bit, or start again if it has moved meanwhile.
//!
//! # Invariants
//! - E1. An action runs exactly once: it is taken out of the list by one compare-and-swap.
//! - E2. An action of epoch `e` runs only when no thread is protected in `e` or before, and
//!   everything that those threads did while they were happens before it.
//! - E3. No action is forgotten: from the end of the bump that brought it until it runs, a thread
//!   is draining or a slot that blocks it is awaited. The last thread to leave runs the remaining
//!   actions, and no later visit is needed.
//! - E4. A thread never waits for another one here, except for the mutex of the overflow list,
//!   under which nothing of the caller's runs.
//!
//! # Memory order, pair by pair
//! - F1 with F2, sequentially consistent fences: the protector stores its slot, fences, and reads
//!   shared memory; the drainer has unlinked (or knows by acquire of an unlink), fences, and reads
//!   the slots. One of the fences is first. If F1 is, the drainer sees the slot and waits; if F2
//!   is, the protector sees that the thing is unlinked. Acquire and release alone would allow both
//!   to miss each other. The protector may have read an old epoch; that only makes it block more.
//! - P1, release store of the slot on protect with the acquire read of slots in a drain. A drainer
//!   may read the new epoch instead of the release that came before it, and must know of that
//!   release too.
//! - P2, release swap on refresh and release with the same read: the thread's work under the older
//!   epoch happens before the action (E2).
//! - P3, release half of adding to the global epoch with the acquire read of it on protect and
//!   refresh. A thread in the new epoch does not block the action, so it must see the earlier
//!   unlinking. With the acquire read in a drain: the horizon is never above the epochs that the
//!   drainer knows.
//! - P4, acquire claim of a free slot with the release swap that freed it: the new owner's store
//!   (P1) also covers the old owner's work.
//! - P5, release compare-and-swap of the awaited bit with the acquire half of the swap that takes
//!   it out. The blocker that now drains knows of the epoch that the action waits for, and of the
//!   action. Otherwise it might read an old global epoch, find nothing below it and no blocker, and
//!   go. The compare-and-swap is done also if the bit is set already, because the bit speaks only
//!   for the thread that set it.
//! - The drain list's own pairs are in `drain_list`.
//!
//! Each of these has a model that fails when it is weakened; see `tests/models`.

mod drain_list;
mod guard;
mod slots;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::atomic::{AtomicU64, Ordering, fence};
use crate::mutant;
use crate::planted::{Planted, relaxed_if};
use drain_list::DrainList;
use slots::{Block, Slot};

pub use guard::{Guard, Participant};

/// A set of threads that protect shared memory. Cheap to clone; clones are the same set.
///
/// One engine has one. Two that wait for each other's threads should share it.
#[derive(Clone)]
pub struct Epochs(Arc<Shared>);

struct Shared {
    /// The newest epoch. It shares its cache line with nothing: every protect and refresh reads it.
    global: CachePadded<AtomicU64>,
    slots: Arc<Block>,
    actions: DrainList,
}

/// The result of a drainer's scan of the slots.
struct Horizon<'a> {
    /// Every action of a smaller epoch may run.
    epoch: u64,
    /// A slot at that epoch, and its state at the scan; none if no thread is protected in an epoch
    /// before the global one.
    blocker: Option<(&'a Slot, u64)>,
}

impl Epochs {
    /// A set without threads.
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            global: CachePadded::new(AtomicU64::new(slots::FIRST_EPOCH)),
            slots: Arc::new(Block::new()),
            actions: DrainList::new(),
        }))
    }

    /// Returns a participant for a thread that will be protected repeatedly; dropping it frees
    /// it. Any number of threads may join at any time.
    pub fn join(&self) -> Participant {
        let (block, index) = Block::claim(&self.0.slots, slots::IDLE);
        Participant::new(self.clone(), block.clone(), index)
    }

    /// Protects the calling thread once, without a participant: one more compare-and-swap than
    /// [`Participant::protect`].
    pub fn protect(&self) -> Guard<'_> {
        let (block, index) = Block::claim(&self.0.slots, slots::protected(self.newest()));
        self.fence_after_entering();
        Guard::without_participant(self, block.slot(index))
    }

    /// Begins a new epoch, and runs `action` once every thread that is protected in an older one
    /// has refreshed or released. That may be now, in this call, or later, on whichever thread is
    /// the last; a protected caller's own turn comes when it refreshes or releases.
    ///
    /// The caller must unlink the thing to be taken away before this call. Actions run in no
    /// particular order, also concurrently on several threads. An action should be short, as it
    /// runs on a user's thread; it may call anything here, but not wait for other threads to leave.
    /// If it panics, the others still run, and the panic continues in the thread that ran it
    /// (unless that thread is panicking already).
    pub fn bump_with(&self, action: impl FnOnce() + Send + 'static) {
        // [P3]
        let order = relaxed_if(Planted::RelaxedEpoch, Ordering::AcqRel);
        let before = self.0.global.fetch_add(1, order);
        self.0.actions.push(before, Box::new(action));
        self.drain();
    }

    fn newest(&self) -> u64 {
        // [P3]
        self.0.global.load(relaxed_if(Planted::RelaxedEpoch, Ordering::Acquire))
    }

    /// [F1]: between the store of the slot and every read of the caller under protection.
    fn fence_after_entering(&self) {
        mutant!(Planted::NoFenceInProtect, fence(Ordering::SeqCst), ());
    }

    /// Runs every action that may run, and ensures that some thread will run the rest (E3).
    ///
    /// If the scan shows no blocker, an action that is still listed was pushed after the scan read
    /// the global epoch, and its own bump drains after it pushed.
    fn drain(&self) {
        let mut panic = None;
        loop {
            let horizon = self.scan();
            self.0.actions.take_below(horizon.epoch, |action| {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(action)) {
                    panic.get_or_insert(payload);
                }
            });
            let Some((slot, seen)) = horizon.blocker else { break };
            if self.0.actions.is_empty() || slot.await_change(seen) {
                break;
            }
        }
        propagate(panic);
    }

    fn scan(&self) -> Horizon<'_> {
        let newest = self.newest();
        // [F2]
        mutant!(Planted::NoFenceInScan, fence(Ordering::SeqCst), ());
        let newest = mutant!(Planted::UnboundedHorizon, newest, u64::MAX);
        let mut horizon = Horizon { epoch: newest, blocker: None };
        for slot in Block::all(&self.0.slots) {
            let seen = slot.state();
            if let Some(epoch) = slots::epoch_of(seen)
                && epoch < horizon.epoch
            {
                horizon = Horizon { epoch, blocker: Some((slot, seen)) };
            }
        }
        horizon
    }
}

fn propagate(panic: Option<Box<dyn Any + Send>>) {
    if let Some(payload) = panic
        && !std::thread::panicking()
    {
        resume_unwind(payload);
    }
}

impl Default for Epochs {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Epochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epochs").field("newest", &self.newest()).finish_non_exhaustive()
    }
}
