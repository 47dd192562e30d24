//! The compaction of a range on demand, and its size.
//!
//! 1. All memtables are committed.
//! 2. Intervals of the range that are in several pieces, or to which updates were appended, are
//!    read and written as one, some neighbours at a time. The values that their pairs had replaced
//!    are dead then.
//! 3. The space is synced, and the collector moves the live parts of segments together until no
//!    segment less can hold them.

use std::ops::Bound;
use std::sync::Arc;

use engine::{KeyRange, Result};
use flexspace::{Found, space};
use memory_budget::Account;

use super::defragment_idle::{FORMS, Slice};
use crate::error::from_space;
use crate::index::{Interval, Key};
use crate::read::UncachedInterval;
use crate::state::Base;
use crate::store::Shared;

/// How often neighbours are tried again after the collector has made room for them.
const TRIES_MAX: u32 = 2;

impl Shared {
    /// Leaves nothing on the device that is deleted or overwritten in `range`, unless a snapshot
    /// shows it.
    pub(crate) fn compact_range(self: &Arc<Self>, range: &KeyRange) -> Result<()> {
        self.flush()?;
        let Some((start, end)) = range.half_open() else { return Ok(()) };
        let mut next = Some(Key::from(start.as_slice()));
        let mut tries = 0;
        while let Some(from) = next {
            next = self.write_slice_of(&from, end.as_deref(), tries)?;
            tries = if next.as_ref() == Some(&from) { tries + 1 } else { 0 };
        }
        self.noted(self.space.sync())?;
        loop {
            let done = self.noted(self.space.collect_all())?;
            self.count_collected(&done);
            let mut committer = self.committer.lock();
            self.health.check_writable()?;
            self.renew_base(&mut committer)?;
            if done.segments == 0 {
                return Ok(());
            }
        }
    }

    /// Writes the next intervals as one, and returns the key from which to continue.
    fn write_slice_of(
        self: &Arc<Self>,
        from: &Key,
        end: Option<&[u8]>,
        tries: u32,
    ) -> Result<Option<Key>> {
        self.health.check_open()?;
        let base = Arc::clone(&self.open_state()?.base);
        let slice = fragmented_slice(&base, from, end, self.slice_limits().slice);
        let next = slice.next.clone();
        if slice.members.is_empty() {
            return Ok(next);
        }
        let charge = Account::new(&self.host.memory);
        charge.set((FORMS * slice.bytes as usize) as u64);
        let intervals = self.read_slice(&base, &slice)?;
        drop(slice);
        drop(base);
        let mut committer = self.committer.lock();
        self.health.check_writable()?;
        if self.write_together(&mut committer, intervals)?.is_whole {
            return Ok(next);
        }
        // Intervals that were written are in one piece now, and the others are tried again once
        // there is room.
        match tries < TRIES_MAX && self.make_room(&mut committer)? {
            true => Ok(Some(from.clone())),
            false => Err(from_space(space::Error::Uncollected)),
        }
    }

    /// About the bytes of the intervals of `range` in the space.
    pub(crate) fn approximate_bytes(&self, range: &KeyRange) -> Result<u64> {
        let base = Arc::clone(&self.open_state()?.base);
        if range.is_empty() {
            return Ok(0);
        }
        let interval_of = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => base.interval_of(key),
            Bound::Unbounded => None,
        };
        let begin = interval_of(&range.start).map_or(0, |found| found.offset);
        let end_of = |found: Found<'_, Interval>| found.offset + u64::from(found.length);
        let end = interval_of(&range.end).map_or(base.index.len(), end_of);
        Ok(end.saturating_sub(begin))
    }
}

/// Intervals from a key on that are worth writing as one, of `bytes_max` bytes in all, and where to
/// look next.
fn fragmented_slice<'a>(
    base: &'a Arc<Base>,
    from: &Key,
    end: Option<&[u8]>,
    bytes_max: u64,
) -> Slice<'a> {
    let mut slice = Slice::default();
    let Some(first) = base.interval_of(from) else { return slice };
    for found in base.index.range(first.offset..u64::MAX) {
        let Some(head) = found.entry.head() else { continue };
        if end.is_some_and(|end| **head.bound() >= *end) {
            return slice;
        }
        let is_first = slice.members.is_empty();
        if slice.bytes + u64::from(found.length) > bytes_max && !is_first {
            slice.next = Some(head.bound().clone());
            return slice;
        }
        let is_in_pieces =
            || head.lie.fragments > 1 && UncachedInterval::new(base, &found, head).pieces() > 1;
        if !head.lie.is_out_of_order && (head.lie.tail > 0 || is_in_pieces()) {
            slice.bytes += u64::from(found.length);
            slice.members.push(found);
        }
    }
    slice
}
