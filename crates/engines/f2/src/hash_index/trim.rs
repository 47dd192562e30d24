//! Taking empty overflow buckets out of their chains, so that others have them.
//!
//! To trim a bucket:
//!
//! 1. Take its lock. No slot of it is used for anything new from here on (I9).
//! 2. Fence (F2). Go through the overflow buckets behind it. One without any entry, not even a
//!    tentative one, gets its own lock, which is never released, so that nothing is appended to it.
//!    Then the line before it is led past it. The removed bucket still leads to the buckets behind
//!    it.
//! 3. Count the trim in the bucket's control word, which is the release of its lock.
//! 4. Once no thread can be reading the removed buckets, give them to the pool.
//!
//! No entry moves, so readers take no notice.

use std::sync::atomic::Ordering as Unmodelled;

use sync::atomic::{Ordering, fence};
use sync::epoch::Epochs;

use super::HashIndex;
use super::bucket::{Bucket, Control};
use super::entry::Entry;
use crate::planted::{Planted, mutant};

/// Overflow buckets came since the last trim, as a share of the buckets: then it is time for
/// another.
const NEW_SHARE: u64 = 32;
/// Not for fewer.
const NEW_MIN: u64 = 64;

/// Overflow buckets that were taken out of their chains and that threads may still be reading. They
/// are lost if they are not returned to the pool.
#[must_use]
#[derive(Debug, Default)]
pub(crate) struct Trimmed(Vec<u32>);

impl Trimmed {
    /// Calls `release` with them once all threads that are protected now have left protection.
    /// The caller is not protected.
    pub(crate) fn when_unseen(self, epochs: &Epochs, release: impl FnOnce(Self) + Send + 'static) {
        let release = move || release(self);
        mutant!(Planted::ReusedEarly, epochs.bump_with(release), release());
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl HashIndex {
    /// Returns whether enough overflow buckets were added since the last trim that another is worth
    /// it.
    pub(crate) fn should_trim(&self) -> bool {
        let kept = u64::from(self.kept.load(Unmodelled::Relaxed));
        self.overflow.used() > kept + (self.buckets() as u64 / NEW_SHARE).max(NEW_MIN)
    }

    /// Notes that all buckets were trimmed, and that these were taken.
    pub(crate) fn note_trim(&self, trimmed: &Trimmed) {
        let left = self.overflow.used().saturating_sub(trimmed.len() as u64);
        self.kept.store(left as u32, Unmodelled::Relaxed);
    }

    /// Takes the empty overflow buckets out of the chains of `count` buckets from `from` on.
    /// Returns the bucket to continue at, or nothing after the last bucket. Does nothing while the
    /// table doubles.
    ///
    /// The caller is protected, like every thread that uses the index.
    pub(crate) fn trim(&self, from: usize, count: usize, taken: &mut Trimmed) -> Option<usize> {
        let level = self.level();
        let buckets = self.table.buckets(level);
        let to = from.saturating_add(count).min(buckets);
        for number in from..to {
            let bucket = self.table.bucket(number);
            let control = bucket.control();
            if control.level() == level && self.has_empty_line(control) {
                self.trim_bucket(bucket, control, taken);
            }
        }
        (to < buckets).then_some(to)
    }

    /// Gives the trimmed buckets to the pool. No thread that was protected when they were trimmed
    /// may still be protected.
    pub(crate) fn release_trimmed(&self, trimmed: Trimmed) {
        trimmed.0.into_iter().for_each(|number| self.overflow.release(number));
    }

    fn has_empty_line(&self, control: Control) -> bool {
        let mut next = control.overflow();
        while let Some(line) = self.overflow.get(next) {
            if is_empty(line) {
                return true;
            }
            next = line.control().overflow();
        }
        false
    }

    fn trim_bucket(&self, bucket: Bucket<'_>, seen: Control, taken: &mut Trimmed) {
        if seen.is_locked() || !bucket.change(seen, seen.locked()) {
            return;
        }
        // [F2]
        mutant!(Planted::NoFenceInTrim, fence(Ordering::SeqCst), ());
        let taken_before = taken.0.len();
        let (mut first, mut kept) = (seen.overflow(), None::<Bucket<'_>>);
        let mut number = first;
        while let Some(line) = self.overflow.get(number) {
            if !is_empty(line) {
                kept = Some(line);
                number = line.control().overflow();
                continue;
            }
            let next = close(line);
            taken.0.push(number);
            match kept {
                // Its link is not none, so no thread appends to it.
                Some(kept) => kept.publish(Control::new(0, next)),
                None => first = next,
            }
            number = next;
        }
        // I9. The lock kept all other threads from changing the control word.
        let is_changed = taken.0.len() > taken_before;
        bucket.publish(if is_changed { seen.trimmed(first) } else { seen });
    }
}

fn is_empty(line: Bucket<'_>) -> bool {
    line.entries().iter().all(|place| Entry::load(place) == Entry::FREE)
}

/// Locks a line for good; returns the number of the one behind it.
fn close(line: Bucket<'_>) -> u32 {
    loop {
        let control = line.control();
        if mutant!(Planted::LeftOpen, line.change(control, control.locked()), true) {
            return control.overflow();
        }
    }
}
