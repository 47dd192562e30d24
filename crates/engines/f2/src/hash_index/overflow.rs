//! The overflow buckets: a pool of segments that double, so that a small index has a small one.
//!
//! Numbers begin at 1. A bucket that was taken and never linked (its taker lost a race), or that
//! was taken out of its chain, is pushed on a stack and taken again. The latter waits until all
//! readers that may walk into it have left (I8).
//!
//! # Concurrency
//! The stack's head is a number and a count of pops, so that a head that returns is another word.
//! Its links are in the control words of the buckets on it. Taking waits for no thread, except for
//! the one that took a new segment's first bucket and allocates it.

use sync::SetOnce;
use sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::bucket::{BUCKET_BYTES, Bucket, Buckets, Control};
use crate::spin_wait::SpinWait;

/// Buckets of the first segment: 4 KiB.
const FIRST_BITS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 6 };
/// Bytes of the unit in which the system allocates memory.
const SYSTEM_PAGE_BYTES: u64 = 4096;
/// Segments that are enough to number 2^31 buckets.
const SEGMENTS: usize = 25;

pub(super) struct OverflowPool {
    segments: [SetOnce<Buckets>; SEGMENTS],
    /// How many were ever taken that had not been taken before.
    fresh: AtomicU32,
    /// The stack of the returned buckets: count of pops in the upper half, number in the lower.
    returned: AtomicU64,
    /// How many are on it. Not modelled: it is only reported.
    idle: std::sync::atomic::AtomicU32,
}

impl OverflowPool {
    pub(super) fn new() -> Self {
        Self {
            segments: std::array::from_fn(|_| SetOnce::new()),
            fresh: AtomicU32::new(0),
            returned: AtomicU64::new(0),
            idle: std::sync::atomic::AtomicU32::new(0),
        }
    }

    /// The bucket that a control word links to, if it links to any.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<Bucket<'_>> {
        if number == 0 { None } else { Some(self.bucket(number)) }
    }

    /// An empty bucket, and its number.
    ///
    /// # Panics
    /// When 2^31 are in use; those are 128 GiB.
    pub(super) fn take(&self) -> (u32, Bucket<'_>) {
        if let Some(number) = self.pop() {
            let bucket = self.bucket(number);
            bucket.publish(Control::new(0, 0));
            return (number, bucket);
        }
        let number = self.fresh.fetch_add(1, Ordering::Relaxed) + 1;
        let (index, offset) = place(number);
        let segment = self.segments.get(index).expect("overflow buckets without end");
        if offset == 0 {
            segment.get_or_set(Buckets::one_by_one(1 << (index as u32 + FIRST_BITS)));
        }
        let mut spin_wait = SpinWait::new();
        while segment.get().is_none() {
            spin_wait.wait();
        }
        (number, self.bucket(number))
    }

    /// Returns a bucket to the pool that was taken, has no entries, and is in no chain.
    pub(super) fn release(&self, number: u32) {
        self.idle.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut head = self.returned.load(Ordering::Relaxed);
        loop {
            self.bucket(number).publish(Control::new(0, head as u32));
            let new = head & !u64::from(u32::MAX) | u64::from(number);
            let order = (Ordering::Release, Ordering::Relaxed);
            match self.returned.compare_exchange(head, new, order.0, order.1) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    fn pop(&self) -> Option<u32> {
        let mut head = self.returned.load(Ordering::Acquire);
        loop {
            let bucket = self.get(head as u32)?;
            let pops = (head >> 32).wrapping_add(1);
            // A stale link is one of an older head, and its exchange fails.
            let new = pops << 32 | u64::from(bucket.control().overflow());
            match self.returned.compare_exchange(head, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    self.idle.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                    return Some(head as u32);
                }
                Err(now) => head = now,
            }
        }
    }

    /// Buckets in use.
    pub(super) fn used(&self) -> u64 {
        let idle = self.idle.load(std::sync::atomic::Ordering::Relaxed);
        u64::from(self.fresh.load(Ordering::Relaxed).saturating_sub(idle))
    }

    /// Bytes of all that were ever taken: no other has memory.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = u64::from(self.fresh.load(Ordering::Relaxed)) * BUCKET_BYTES;
        bytes.next_multiple_of(SYSTEM_PAGE_BYTES)
    }

    fn bucket(&self, number: u32) -> Bucket<'_> {
        let (segment, offset) = place(number);
        let segment = self.segments[segment].get();
        segment.expect("a number is given out after its segment is there").get(offset)
    }
}

/// Segment `i` has `1 << (FIRST_BITS + i)` buckets.
const fn place(number: u32) -> (usize, usize) {
    let position = number - 1 + (1 << FIRST_BITS);
    let bits = position.ilog2();
    ((bits - FIRST_BITS) as usize, (position - (1 << bits)) as usize)
}
