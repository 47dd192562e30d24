//! The order of writes: numbers, how far they are all applied, and the horizon of snapshots.
//!
//! 1. A writer takes a [`Ticket`], applies its write under the ticket's number, and drops it.
//! 2. `visible` is the largest number such that it and all below are finished. It moves when the
//!    oldest unfinished ticket is dropped.
//! 3. At most [`OPEN_TICKETS_MAX`] numbers above `visible` are in use: a writer that takes another
//!    one in [`Sequence::begin`] waits with it, and [`Sequence::try_begin`] takes none.
//! 4. A [`Pin`] waits for the tickets begun before it, and then is at `visible`.
//! 5. An engine may drop a version of a key once a newer one is at or below [`Sequence::horizon`],
//!    or as soon as no snapshot [sees](Sequence::is_seen) the older one.
//!
//! A database that replays a journal opens its engines first. An engine without a journal may have
//! larger numbers in its files than the record that is replayed. They must not be visible before
//! the replay has ended: an engine that makes a checkpoint during the replay claims that it has all
//! writes up to `visible`. So in a sequence that is [in recovery](Sequence::in_recovery), such
//! numbers wait for [`Sequence::end_recovery`].
//!
//! # Invariants
//! - I1. A pin's number is at least that of every write acknowledged before the pin was taken.
//! - I2. No write at or below a pin's number finishes after the pin was taken.
//! - I3. `horizon()` never exceeds the number of a pin that is held, nor that of a later one.
//!
//! # Concurrency
//! A write with an open ticket waits for no device and no background work (law L8 of `engine`); it
//! takes locks of its engine. So a thread that waits here, in `begin`, in
//! [`Sequence::wait_for_room`] or for a pin, must hold no such lock. Under the journal's lock
//! numbers are taken by `try_begin`, which never waits: if it takes none, the caller unlocks and
//! waits for room. Then no thread that waits for the oldest open ticket keeps it from its end, and
//! so all of them end.
//!
//! A thread that waits for long is parked. Finishing a number, moving `visible` and reading
//! `waiting` happen in that order; a waiting thread counts itself in `waiting` and then reads
//! `visible`. All of it is in one total order, so one of the two sees the other.

#[cfg(all(test, shuttle))]
mod models;

use std::collections::BTreeMap;
use std::sync::Arc;

use codec::SeqNo;
use sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use sync::thread::{spin_loop, yield_now};
use sync::{Condvar, Mutex};

/// Tickets that may be open before another has to wait; a power of two.
const OPEN_TICKETS_MAX: usize = if cfg!(any(loom, shuttle)) { 4 } else { 4096 };

/// Looks at a number before the thread yields the processor.
const SPINS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 64 };
/// Yields of the processor before the thread is parked: writes are short, except writes that wait
/// for a device.
const YIELDS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 64 };

/// Numbers the writes of a database.
#[derive(Debug)]
pub struct Sequence {
    next: AtomicU64,
    visible: AtomicU64,
    /// Whether a journal is replayed, or is about to be.
    is_recovering: AtomicBool,
    /// The largest number that [`Sequence::found`] was called with during the recovery.
    found: AtomicU64,
    /// Slot `n % OPEN_TICKETS_MAX` holds `n` once write `n` is finished.
    finished: Box<[AtomicU64]>,
    /// Pins that are held or about to be; see [`Sequence::horizon`] for why it is apart.
    pin_count: AtomicUsize,
    /// Pins that are about to be: counted, but not in `pins` yet.
    pinning: AtomicUsize,
    /// The largest number that was ever pinned.
    newest_pin: AtomicU64,
    pins: Mutex<BTreeMap<u64, usize>>,
    /// Threads that are parked until `visible` has moved, or are about to be.
    waiting: AtomicUsize,
    parking: Mutex<()>,
    moved: Condvar,
}

impl Default for Sequence {
    fn default() -> Self {
        Self::new()
    }
}

impl Sequence {
    /// Returns a sequence that has numbered nothing yet.
    pub fn new() -> Self {
        let finished = (0..OPEN_TICKETS_MAX).map(|_| AtomicU64::new(0)).collect();
        Self {
            next: AtomicU64::new(1),
            visible: AtomicU64::new(0),
            is_recovering: AtomicBool::new(false),
            found: AtomicU64::new(0),
            finished,
            pin_count: AtomicUsize::new(0),
            pinning: AtomicUsize::new(0),
            newest_pin: AtomicU64::new(0),
            pins: Mutex::default(),
            waiting: AtomicUsize::new(0),
            parking: Mutex::new(()),
            moved: Condvar::new(),
        }
    }

    /// Returns a sequence at the beginning of a recovery, before the first engine is opened.
    pub fn in_recovery() -> Self {
        Self { is_recovering: AtomicBool::new(true), ..Self::new() }
    }

    /// Recovery only, while no ticket is open: everything up to `last` was written and is applied.
    /// Never moves back.
    pub fn recover_to(&self, last: SeqNo) {
        self.next.fetch_max(last.get() + 1, SeqCst);
        self.visible.fetch_max(last.get(), SeqCst);
    }

    /// An engine without a journal has `last` in its files. The sequence moves up to it, at the end
    /// of the recovery if there is one.
    pub fn found(&self, last: SeqNo) {
        self.found.fetch_max(last.get(), SeqCst);
        if !self.is_recovering.load(SeqCst) {
            self.recover_to(last);
        }
    }

    /// Ends a recovery, after which everything up to `last` and up to all that was found is
    /// applied.
    pub fn end_recovery(&self, last: SeqNo) {
        self.is_recovering.store(false, SeqCst);
        self.recover_to(last.max(SeqNo::new(self.found.load(SeqCst))));
    }

    /// Takes the next number. Waits while [`OPEN_TICKETS_MAX`] numbers are in use, so it is not for
    /// a caller with a resource that another write may need for its end: see the head of this file.
    pub fn begin(&self) -> Ticket<'_> {
        let number = self.next.fetch_add(1, SeqCst);
        self.wait_until_visible(number.saturating_sub(OPEN_TICKETS_MAX as u64));
        Ticket { sequence: self, number }
    }

    /// Takes the next number; none if [`Sequence::begin`] would wait. It never waits itself.
    pub fn try_begin(&self) -> Option<Ticket<'_>> {
        let mut number = self.next.load(SeqCst);
        loop {
            // `visible` only grows, so a number that has room now will have it.
            if number > self.visible.load(SeqCst) + OPEN_TICKETS_MAX as u64 {
                return None;
            }
            // A thread that loses this exchange was overtaken by others, which have numbers now.
            match self.next.compare_exchange_weak(number, number + 1, SeqCst, SeqCst) {
                Ok(_) => return Some(Ticket { sequence: self, number }),
                Err(next) => number = next,
            }
        }
    }

    /// Waits until [`Sequence::try_begin`] would have taken the number that is the next one now.
    /// Others may have taken it meanwhile, and more: a caller that needs a number tries again.
    pub fn wait_for_room(&self) {
        let number = self.next.load(SeqCst);
        self.wait_until_visible(number.saturating_sub(OPEN_TICKETS_MAX as u64));
    }

    /// Returns the number that was taken last.
    pub fn last(&self) -> SeqNo {
        SeqNo::new(self.next.load(SeqCst) - 1)
    }

    /// Returns the number up to which every write is finished.
    pub fn visible(&self) -> SeqNo {
        SeqNo::new(self.visible.load(SeqCst))
    }

    /// Pins the present moment. Waits for the writes that have begun: they are short, except writes
    /// that wait for memory, so the caller must hold nothing that flushes need.
    pub fn pin(self: &Arc<Self>) -> Arc<Pin> {
        self.begin_pin();
        self.wait_until_visible(self.last().get());
        self.end_pin()
    }

    /// Does the same for a caller that must not wait: returns none unless the writes that have
    /// begun end within some microseconds.
    pub fn try_pin(self: &Arc<Self>) -> Option<Arc<Pin>> {
        self.begin_pin();
        if self.is_soon_visible(self.last().get()) {
            return Some(self.end_pin());
        }
        self.pinning.fetch_sub(1, SeqCst);
        self.pin_count.fetch_sub(1, SeqCst);
        None
    }

    fn begin_pin(&self) {
        self.pin_count.fetch_add(1, SeqCst);
        self.pinning.fetch_add(1, SeqCst);
    }

    /// All that had begun after [`Sequence::begin_pin`] has ended.
    fn end_pin(self: &Arc<Self>) -> Arc<Pin> {
        let mut pins = self.pins.lock();
        let number = self.visible.load(SeqCst);
        *pins.entry(number).or_default() += 1;
        self.newest_pin.fetch_max(number, SeqCst);
        drop(pins);
        self.pinning.fetch_sub(1, SeqCst);
        Arc::new(Pin { sequence: Arc::clone(self), number })
    }

    /// Returns a number below which there is no snapshot, present or future.
    pub fn horizon(&self) -> SeqNo {
        // `visible` is read before the count: a pin that is not counted yet will read `visible`
        // later than this, and find at least the same number. Both orders are sequentially
        // consistent.
        let visible = self.visible.load(SeqCst);
        if self.pin_count.load(SeqCst) == 0 {
            return SeqNo::new(visible);
        }
        let pins = self.pins.lock();
        let oldest = pins.keys().next().copied().unwrap_or(visible);
        SeqNo::new(oldest.min(visible))
    }

    /// Returns whether a snapshot, present or future, may be at or above `older` and below `newer`,
    /// so that it shows a version numbered `older` that `newer` replaces. The caller holds the
    /// ticket of `newer`, or `newer` is finished. May say yes without need, for a moment, while a
    /// pin is being taken; never says no wrongly.
    pub fn is_seen(&self, older: SeqNo, newer: SeqNo) -> bool {
        if older >= newer {
            return false;
        }
        // A pin that is counted only after these loads reads the last number after `newer` was
        // taken, waits for it, and so is at or above it. All of this is in one total order, like
        // the pin's own steps.
        if self.pin_count.load(SeqCst) == 0 {
            return false;
        }
        if self.pinning.load(SeqCst) == 0 && self.newest_pin.load(SeqCst) < older.get() {
            return false;
        }
        // A pin that is not in the map yet will be at least at the present `visible`.
        let visible = self.visible.load(SeqCst);
        let pins = self.pins.lock();
        let pinning = newer.get() > visible && self.pinning.load(SeqCst) > 0;
        pinning || pins.range(older.get()..newer.get()).next().is_some()
    }

    /// Returns the numbers at which snapshots are held, ascending.
    pub fn pins(&self) -> Vec<SeqNo> {
        self.pins.lock().keys().copied().map(SeqNo::new).collect()
    }

    /// Returns the snapshots, present and future, that are below `newest`, the oldest first; none
    /// while another one is being taken that may be below it. The caller has seen that `newest` was
    /// given out.
    pub fn pins_below(&self, newest: SeqNo) -> Option<Vec<SeqNo>> {
        // As in `is_seen`: a pin that is counted only after this load is at or above `newest`.
        if self.pin_count.load(SeqCst) == 0 {
            return Some(Vec::new());
        }
        let visible = self.visible.load(SeqCst);
        let pins = self.pins.lock();
        if newest.get() > visible && self.pinning.load(SeqCst) > 0 {
            return None;
        }
        Some(pins.range(..newest.get()).map(|(number, _)| SeqNo::new(*number)).collect())
    }

    /// Returns the oldest snapshot that is held, if any: it keeps old versions alive.
    pub fn oldest_pin(&self) -> Option<SeqNo> {
        self.pins.lock().keys().next().copied().map(SeqNo::new)
    }

    /// Looks a few times, and yields in between.
    fn is_soon_visible(&self, number: u64) -> bool {
        for looks in 0..SPINS + YIELDS {
            if self.visible.load(SeqCst) >= number {
                return true;
            }
            if looks < SPINS { spin_loop() } else { yield_now() }
        }
        false
    }

    fn wait_until_visible(&self, number: u64) {
        if self.is_soon_visible(number) {
            return;
        }
        self.waiting.fetch_add(1, SeqCst);
        let mut parking = self.parking.lock();
        while self.visible.load(SeqCst) < number {
            self.moved.wait(&mut parking);
        }
        drop(parking);
        self.waiting.fetch_sub(1, SeqCst);
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.finished[number as usize % OPEN_TICKETS_MAX]
    }

    /// Marks `number` finished and moves `visible` over all finished ones. Two threads that finish
    /// concurrently must not both miss the other: each stores its slot before it loads the
    /// neighbour's, in one total order, so the later of the two sees both.
    fn finish(&self, number: u64) {
        self.slot(number).store(number, SeqCst);
        let mut has_moved = false;
        loop {
            let visible = self.visible.load(SeqCst);
            let next = visible + 1;
            if self.slot(next).load(SeqCst) != next {
                break;
            }
            // A thread that loses this exchange looks again: the winner may stop just short.
            has_moved |= self.visible.compare_exchange(visible, next, SeqCst, SeqCst).is_ok();
        }
        if has_moved && self.waiting.load(SeqCst) > 0 {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // A thread that is about to be parked holds the lock from its look at `visible` on.
        drop(self.parking.lock());
        self.moved.notify_all();
    }
}

/// A number taken and not yet finished. Dropping it finishes it, also where the write failed, so
/// that later writes become visible.
#[derive(Debug)]
pub struct Ticket<'a> {
    sequence: &'a Sequence,
    number: u64,
}

impl Ticket<'_> {
    /// Returns the write's number.
    pub fn seqno(&self) -> SeqNo {
        SeqNo::new(self.number)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.sequence.finish(self.number);
    }
}

/// A moment that engines must be able to show for as long as this is held.
#[derive(Debug)]
pub struct Pin {
    sequence: Arc<Sequence>,
    number: u64,
}

impl Pin {
    /// Returns the number up to which every write is shown, and none above it.
    pub fn seqno(&self) -> SeqNo {
        SeqNo::new(self.number)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.sequence.pins.lock();
        if let Some(count) = pins.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.number);
            }
        }
        drop(pins);
        self.sequence.pin_count.fetch_sub(1, SeqCst);
    }
}
