//! A bucket: one cache line of entries and a control word.
//!
//! # Format of the control word
//! ```text
//!  63      41  40   39     32 31                             0
//! +----------+-----+---------+--------------------------------+
//! |  trims   |lock | level   | overflow bucket, 0 for none    |
//! +----------+-----+---------+--------------------------------+
//! ```
//! In a bucket of the table, a thread that splits or trims it holds the lock, and `trims` counts,
//! with wraparound, how often it was trimmed. An overflow bucket has no level and no trims, and its
//! lock is taken for good when it leaves its chain.

use arena::Arena;
use sync::atomic::{AtomicU64, Ordering};

use crate::planted::{Planted, relaxed_if};

/// Entries of a bucket. Fewer under the checkers, or nothing would ever overflow there.
pub(super) const ENTRIES: usize = if cfg!(any(loom, shuttle)) { 2 } else { 7 };

/// Words of a bucket: the entries, and the control word behind them.
const WORDS: usize = ENTRIES + 1;

/// Bytes of a bucket.
pub(super) const BUCKET_BYTES: u64 = (WORDS * size_of::<u64>()) as u64;

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(BUCKET_BYTES == 64, "a bucket is one cache line");

/// A cache line, in the table or among the overflow buckets.
#[derive(Clone, Copy)]
pub(super) struct Bucket<'a>(&'a [AtomicU64; WORDS]);

/// Bytes of buckets from which on the unused part of the last huge page does not matter.
const HUGE_BYTES_MIN: u64 = 64 << 20;

/// Buckets in a row, each at the beginning of a cache line. All are empty, and at level 0, at
/// first.
pub(super) struct Buckets(Arena);

impl Buckets {
    /// Buckets that will all be used.
    pub(super) fn new(count: usize) -> Self {
        let arena = Arena::new(count * WORDS);
        // Every lookup reads another place.
        if arena.is_huge() {
            arena.advise_huge();
        }
        Self(arena)
    }

    /// Makes buckets that may be used one by one; their memory is taken on use.
    pub(super) fn one_by_one(count: usize) -> Self {
        let buckets = Self::new(count);
        // Many huge pages, of which one is not wholly used, or none.
        if buckets.bytes() < HUGE_BYTES_MIN {
            buckets.0.advise_small();
        }
        buckets
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Bucket<'_> {
        Bucket(&self.0.words().as_chunks().0[number])
    }

    pub(super) fn len(&self) -> usize {
        self.0.words().len() / WORDS
    }

    /// Returns the bytes of addresses, which are also the bytes of memory once all are used.
    pub(super) fn bytes(&self) -> u64 {
        size_of_val(self.0.words()) as u64
    }
}

/// A control word as read from a bucket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Control(u64);

const OVERFLOW: u64 = u32::MAX as u64;
const LEVEL_SHIFT: u32 = 32;
const LEVEL: u64 = 0xff << LEVEL_SHIFT;
const LOCK: u64 = 1 << 40;
const TRIM: u64 = 1 << 41;

impl Control {
    /// Of a bucket at `level` that overflows into `overflow` (0: it does not).
    pub(super) const fn new(level: u32, overflow: u32) -> Self {
        Self((level as u64) << LEVEL_SHIFT | overflow as u64)
    }

    /// The number of the overflow bucket, 0 for none.
    #[inline]
    pub(super) const fn overflow(self) -> u32 {
        (self.0 & OVERFLOW) as u32
    }

    /// How often the bucket was split, its origin counted. A bucket that no split has made yet is
    /// at 0, which is less than any operation asks of it.
    #[inline]
    pub(super) const fn level(self) -> u32 {
        ((self.0 & LEVEL) >> LEVEL_SHIFT) as u32
    }

    /// A thread splits or trims the bucket; or, of an overflow bucket, it leaves its chain.
    #[inline]
    pub(super) const fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// The same with the lock taken.
    pub(super) const fn locked(self) -> Self {
        Self(self.0 | LOCK)
    }

    /// The same at another level, and with the lock free.
    pub(super) const fn unlocked_at(self, level: u32) -> Self {
        Self(self.0 & !(LOCK | LEVEL) | (level as u64) << LEVEL_SHIFT)
    }

    /// The same after lines behind it were taken out, the first of those left being `overflow`, and
    /// with the lock free.
    pub(super) const fn trimmed(self, overflow: u32) -> Self {
        Self(self.with_overflow(overflow).0.wrapping_add(TRIM) & !LOCK)
    }

    /// Returns whether level, lock and trims are unchanged: only the lines behind the bucket may
    /// have grown in number.
    pub(super) const fn is_as(self, seen: Self) -> bool {
        self.0 & !OVERFLOW == seen.0 & !OVERFLOW
    }

    /// The same with another overflow bucket.
    pub(super) const fn with_overflow(self, overflow: u32) -> Self {
        Self(self.0 & !OVERFLOW | overflow as u64)
    }
}

impl<'a> Bucket<'a> {
    #[inline]
    pub(super) fn entries(self) -> &'a [AtomicU64; ENTRIES] {
        let [entries @ .., _] = self.0;
        entries
    }

    #[inline]
    fn control_word(self) -> &'a AtomicU64 {
        let [.., control] = self.0;
        control
    }

    /// Acquire: pairs with [`Self::publish`] and with the link to an overflow bucket.
    #[inline]
    pub(super) fn control(self) -> Control {
        Control(self.control_word().load(Ordering::Acquire))
    }

    /// Sets the control word of a bucket that no other thread may change now. Release: a thread
    /// that reads it sees the entries that were written before.
    pub(super) fn publish(self, control: Control) {
        self.control_word().store(control.0, Ordering::Release);
    }

    /// The same for a bucket that a split has filled.
    pub(super) fn publish_first(self, control: Control) {
        // [P2]
        self.control_word().store(control.0, relaxed_if(Planted::RelaxedBirth, Ordering::Release));
    }

    /// Changes the control word if it is still `old`.
    pub(super) fn change(self, old: Control, new: Control) -> bool {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        self.control_word().compare_exchange(old.0, new.0, order.0, order.1).is_ok()
    }
}
