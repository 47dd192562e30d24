//! The bound on the bytes of the device that segments take.
//!
//! # What counts
//! - A segment that is not sealed counts with its whole place, a sealed one up to the end of its
//!   footer. It counts until its room has returned to the device.
//! - Each volume counts with its header, and so does a volume that is not made yet.
//! - A write that has reserved space counts with the segments that it may begin (*promised*).
//!
//! # Kept segments
//! Four segments are kept for jobs, so that a full store can be collected. One segment for each
//! group is kept for writes that make garbage: deletes, inline markers, and values in the place of
//! others that are no smaller.
//!
//! # Invariants
//! - B1. All that counts is at most the limit, if that is fixed: except after a replay, after the
//!   limit was lowered, and by the four segments of a job then.
//! - B2. A write with a reservation begins no segment that was not promised.
//! - B3. A job begins no segment that it has not taken before.
//!
//! # Promises
//! A record takes whole blocks of its segment, and at most one page more of the footer
//! ([`charge`]). So a flush, which pads the buffer to a whole block, takes nothing from the
//! reservations of later records. [`segments_for`] has the number of segments.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use crate::segment::record::BLOCK_BYTES;

/// Segments that only jobs take.
pub(crate) const JOB_SEGMENTS: u64 = 4;
/// Segments of a bound that follows the live bytes. Kept and open segments come in addition.
pub(crate) const SEGMENTS: u64 = 16;
/// Bytes of a segment beyond its records and their entries that collecting does not free: the rest
/// of the last block and of the last page, and the ends of pages.
pub(crate) const ROUNDING_BYTES: u64 = 3 * BLOCK_BYTES as u64;

/// The user of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// A write that takes more than it frees.
    Grows,
    /// A write that makes no less garbage than it takes.
    Replaces,
}

/// The bound, and what counts.
#[derive(Debug)]
pub(crate) struct Bound {
    segment_bytes: u64,
    groups: u64,
    limit: AtomicU64,
    /// All that counts.
    used: AtomicU64,
    /// The part of it that is promised.
    promised: AtomicU64,
}

impl Bound {
    /// Returns a bound without a limit.
    pub(crate) fn new(segment_bytes: u32, groups: usize) -> Self {
        let (used, promised) = Default::default();
        let (segment_bytes, groups) = (u64::from(segment_bytes), groups as u64);
        Self { segment_bytes, groups, limit: AtomicU64::new(u64::MAX), used, promised }
    }

    /// Returns the limit.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Relaxed);
    }

    /// Returns the bytes that segments and headers take, and the header of a volume that is not
    /// made yet.
    pub(crate) fn allocated(&self) -> u64 {
        // In this order: a promise that becomes a segment does not count twice.
        let used = self.used.load(SeqCst);
        used.saturating_sub(self.promised.load(SeqCst))
    }

    /// Returns the bytes that are promised to writes.
    pub(crate) fn promised(&self) -> u64 {
        self.promised.load(Relaxed)
    }

    /// Returns the bytes that segments may take which are open, kept for writes, or kept for jobs.
    pub(crate) fn fixed_bytes(&self) -> u64 {
        fixed_segments(self.groups).saturating_mul(self.segment_bytes)
    }

    /// Returns the largest number of bytes that may count once this user has taken some.
    fn limit_of(&self, user: User) -> u64 {
        let kept = match user {
            User::Grows => JOB_SEGMENTS + self.groups,
            User::Replaces => JOB_SEGMENTS,
        };
        self.limit().saturating_sub(kept.saturating_mul(self.segment_bytes))
    }

    /// Counts more bytes, if the limit of the user allows it.
    pub(crate) fn try_take(&self, bytes: u64, user: User) -> bool {
        let limit = self.limit_of(user);
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        self.used.fetch_update(SeqCst, SeqCst, more).is_ok()
    }

    /// Counts more bytes, whatever the limit is.
    pub(crate) fn take(&self, bytes: u64) {
        self.used.fetch_add(bytes, SeqCst);
    }

    /// Counts fewer bytes.
    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, SeqCst);
    }

    /// Returns how many bytes are missing for `bytes` more of this user.
    pub(crate) fn missing(&self, bytes: u64, user: User) -> u64 {
        let wanted = self.used.load(Relaxed).saturating_add(bytes);
        wanted.saturating_sub(self.limit_of(user))
    }

    /// Returns whether `bytes` bytes of this user are within the limit while nothing else counts.
    pub(crate) fn holds_when_empty(&self, bytes: u64, user: User) -> bool {
        bytes <= self.limit_of(user)
    }

    /// Takes segments for a job, and returns their number: up to `most`, and never fewer than
    /// [`JOB_SEGMENTS`].
    pub(crate) fn take_for_job(&self, most: u64) -> u64 {
        for segments in (JOB_SEGMENTS + 1..=most).rev() {
            // The segments of other users stay theirs.
            if self.try_take(segments * self.segment_bytes, User::Grows) {
                return segments;
            }
        }
        self.take(JOB_SEGMENTS * self.segment_bytes);
        JOB_SEGMENTS
    }

    /// Changes what is promised to the writes of a group, if that is not more or if the limit of
    /// the user allows it. Returns whether it has.
    pub(crate) fn promise(&self, before: u64, after: u64, user: Option<User>) -> bool {
        if after > before {
            let more = after - before;
            match user {
                Some(user) if !self.try_take(more, user) => return false,
                Some(_) => {}
                None => self.take(more),
            }
            self.promised.fetch_add(more, SeqCst);
        } else if after < before {
            self.used.fetch_sub(before - after, SeqCst);
            self.promised.fetch_sub(before - after, SeqCst);
        }
        true
    }
}

/// Returns the segments of a store with this number of groups that are open, kept for writes, or
/// kept for jobs.
pub(crate) fn fixed_segments(groups: u64) -> u64 {
    JOB_SEGMENTS + 2 * groups
}

/// Returns the bytes that a record of `bytes` bytes takes of a segment, at most.
pub(crate) fn charge(bytes: usize) -> u64 {
    (bytes.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES) as u64
}

/// Returns the charge of the longest record that shares its segment with others.
pub(crate) fn charge_max(segment_bytes: u64) -> u64 {
    segment_bytes / 2 + BLOCK_BYTES as u64
}

/// Returns how many segments records with charges of `reserved` bytes in all may begin, if the open
/// segment has `free` bytes.
///
/// A record begins a segment if its charge is more than the free bytes. So an open segment with
/// more than the largest charge takes all charges down to that. Each segment that is begun and
/// filled takes all but the largest charge, and at least one charge.
pub(crate) fn segments_for(reserved: u64, free: u64, segment_bytes: u64) -> u64 {
    if reserved <= free {
        return 0;
    }
    let most = charge_max(segment_bytes);
    let filled = segment_bytes.saturating_sub(most).max(charge(1));
    (reserved - free.saturating_sub(most)).div_ceil(filled)
}

#[cfg(test)]
mod tests;
