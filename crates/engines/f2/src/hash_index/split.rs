//! Online growth: the table doubles bucket by bucket, while operations run.
//!
//! To split bucket `b` of `n`, from level `k` to `k + 1`:
//!
//! 1. Take its lock. No slot of it is used for anything new from here on (I5).
//! 2. Fence (F2). Go through its lines. Wait until no entry of the half that moves is tentative.
//!    Freeze each occupied one of that half, and write it to bucket `b + n`, which no other thread
//!    reads yet.
//! 3. Publish level `k + 1` of bucket `b + n`: operations use it from here on.
//! 4. Publish level `k + 1` of bucket `b`, which is the release of its lock.
//! 5. Free the moved entries.

use std::ops::Range;

use sync::atomic::{AtomicU64, Ordering, fence};

use super::bucket::{Bucket, Control, ENTRIES};
use super::entry::Entry;
use super::overflow::OverflowPool;
use super::{HashIndex, LEVEL_MAX};
use crate::planted::{Planted, mutant, relaxed_if};
use crate::spin_wait::SpinWait;

/// Entries a bucket may have on average before the table should double: of seven. With this number
/// about one bucket in eight overflows.
const LOAD_MAX: u64 = 5;
/// Overflow buckets that make the table double, too, as a share of the buckets.
const OVERFLOW_SHARE: u64 = 4;
/// The same when it cannot wait any longer: on average all slots of a bucket are used, so most
/// buckets overflow.
const OVERFULL: (u64, u64) = (7, 5);
/// Share of the filling at which the table doubles from which on it will double soon.
const SOON: (u64, u64) = (5, 8);
/// The bits of a sweep's position, below its level.
const SWEEP_BITS: u32 = 48;

impl HashIndex {
    /// Whether the table is so full that it should double, and can: no doubling is under way, and
    /// it was not doubled [`LEVEL_MAX`] times.
    pub(crate) fn should_grow(&self) -> bool {
        let level = self.level.load(Ordering::Acquire);
        level < LEVEL_MAX && !self.is_growing() && self.is_filled(level, (1, 1))
    }

    /// Whether the table is so full that it should have doubled before.
    pub(crate) fn is_overfull(&self) -> bool {
        self.is_filled(self.level.load(Ordering::Acquire), OVERFULL)
    }

    /// Whether the table is filled, at `level`, to this share of the filling that makes it double.
    fn is_filled(&self, level: u32, (part, whole): (u64, u64)) -> bool {
        let buckets = self.table.buckets(level) as u64 * part / whole;
        self.entries.get() > LOAD_MAX * buckets
            || self.overflow.used() > buckets.div_ceil(OVERFLOW_SHARE)
    }

    /// Bytes that doubling the table takes, if it will soon be so full; otherwise none.
    pub(crate) fn bytes_of_near_doubling(&self) -> u64 {
        let level = self.level.load(Ordering::Acquire);
        if level < LEVEL_MAX && self.is_filled(level, SOON) { self.table.bytes() } else { 0 }
    }

    /// Whether a doubling is under way.
    pub(crate) fn is_growing(&self) -> bool {
        self.unsplit.load(Ordering::Acquire) > 0
    }

    /// Begins to double the table, unless a doubling is in progress or there were [`LEVEL_MAX`].
    /// Allocates a second half of equal size, and moves nothing: that is done by
    /// [`Self::split_some`] and, bucket by bucket, by the operations that need it.
    pub(crate) fn grow(&self) -> bool {
        let _one_at_a_time = self.growth.lock();
        let level = self.level.load(Ordering::Acquire);
        // I2
        if level == LEVEL_MAX || self.is_growing() {
            return false;
        }
        self.table.add_segment(level + 1, Control::new(0, 0));
        self.unsplit.store(self.table.buckets(level), Ordering::Relaxed);
        self.sweep.store(u64::from(level + 1) << SWEEP_BITS, Ordering::Relaxed);
        // [P4]
        self.level.store(level + 1, relaxed_if(Planted::RelaxedLevel, Ordering::Release));
        true
    }

    /// Splits the next `count` buckets of the doubling in progress; returns whether any is still to
    /// be split, here or by another thread. Several threads may call it; each gets buckets of its
    /// own.
    pub(crate) fn split_some(&self, count: usize) -> bool {
        let Some((level, slice)) = self.claim(count) else { return self.is_growing() };
        for number in slice {
            self.split(number, level - 1);
        }
        self.is_growing()
    }

    /// Returns up to `count` buckets to be split to the level returned with them; no other thread
    /// gets these.
    fn claim(&self, count: usize) -> Option<(u32, Range<usize>)> {
        let mut spin_wait = SpinWait::new();
        loop {
            let swept = self.sweep.load(Ordering::Relaxed);
            let level = self.level();
            let end = self.table.buckets(level.checked_sub(1)?);
            if swept >> SWEEP_BITS != u64::from(level) {
                // A doubling begins just now, or this level was there from the start.
                if !self.is_growing() {
                    return None;
                }
                spin_wait.wait();
                continue;
            }
            let from = (swept & ((1 << SWEEP_BITS) - 1)) as usize;
            if from >= end {
                return None;
            }
            let to = from.saturating_add(count).min(end);
            let next = swept + (to - from) as u64;
            let order = (Ordering::Relaxed, Ordering::Relaxed);
            if self.sweep.compare_exchange(swept, next, order.0, order.1).is_ok() {
                return Some((level, from..to));
            }
        }
    }

    /// Brings bucket `number` to `level`, if it is not there.
    pub(super) fn catch_up(&self, number: usize, level: u32) {
        if self.table.bucket(number).control().level() < level {
            self.split(number & (self.table.buckets(level - 1) - 1), level - 1);
        }
    }

    /// Makes sure that bucket `number` was split from `level` to the next; waits for a thread that
    /// splits it.
    pub(super) fn split(&self, number: usize, level: u32) {
        let bucket = self.table.bucket(number);
        let Some(control) = lock(bucket, level) else { return };
        // [F2]
        mutant!(Planted::NoFenceInSplit, fence(Ordering::SeqCst), ());
        let moves = |entry: Entry| entry.tag() >> level & 1 == 1;
        let child = self.table.bucket(number + self.table.buckets(level));
        mutant!(Planted::PublishedEarly, (), child.publish(Control::new(level + 1, 0)));
        let mut filling = Filling::new(&self.overflow, child);
        for place in self.lines(bucket, control).flat_map(Bucket::entries) {
            if let Some(frozen) = freeze(place, moves) {
                filling.push(frozen.thawed());
            }
        }
        // [P2]
        child.publish_first(Control::new(level + 1, filling.first));
        // [P3] The lock kept all other threads from changing the control word.
        bucket.publish(control.unlocked_at(level + 1));
        for place in self.lines(bucket, control).flat_map(Bucket::entries) {
            let entry = Entry::load(place);
            // Others may be splitting the bucket further: their entries have this bit clear.
            if entry.is_moved() && moves(entry) {
                Entry::FREE.store(place);
            }
        }
        self.unsplit.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Takes the lock of a bucket at `level`; nothing if it is beyond that level.
fn lock(bucket: Bucket<'_>, level: u32) -> Option<Control> {
    let mut spin_wait = SpinWait::new();
    loop {
        let control = bucket.control();
        if control.level() > level {
            return None;
        }
        debug_assert_eq!(control.level(), level, "I2: a level is reached by all before the next");
        if control.is_locked() {
            spin_wait.wait();
        } else if bucket.change(control, control.locked()) {
            return Some(control.locked());
        }
    }
}

/// Freezes the entry at `place` if it is one that moves.
fn freeze(place: &AtomicU64, moves: impl Fn(Entry) -> bool) -> Option<Entry> {
    let mut spin_wait = SpinWait::new();
    loop {
        let entry = Entry::load(place);
        if entry == Entry::FREE || !moves(entry) {
            return None;
        }
        if entry.is_occupied() {
            if mutant!(Planted::NoFreeze, entry.replace(entry.frozen(), place), true) {
                return Some(entry.frozen());
            }
        } else {
            // Tentative: resolved in a few steps of its owner, which waits for no splitter.
            mutant!(Planted::NoWaitForTentative, spin_wait.wait(), return None);
        }
    }
}

/// Writes entries to a bucket that no other thread reads yet.
struct Filling<'a> {
    pool: &'a OverflowPool,
    line: Bucket<'a>,
    used: usize,
    /// The first overflow bucket, 0 for none.
    first: u32,
}

impl<'a> Filling<'a> {
    fn new(pool: &'a OverflowPool, line: Bucket<'a>) -> Self {
        Self { pool, line, used: 0, first: 0 }
    }

    fn push(&mut self, entry: Entry) {
        if self.used == ENTRIES {
            let (number, line) = self.pool.take();
            if self.first == 0 {
                self.first = number;
            } else {
                self.line.publish(Control::new(0, number));
            }
            (self.line, self.used) = (line, 0);
        }
        entry.store(&self.line.entries()[self.used]);
        self.used += 1;
    }
}
